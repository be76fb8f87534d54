from pathlib import Path

from bench.latency import BUSY, age, paced, percentiles
from orbitmq.broker.settings import LiveSettings
from orbitmq.embedded import RunningCluster
from orbitmq.settings import from_arguments
from tests.bench.conftest import target_of


def test_all_messages_are_sent_on_schedule(cluster: RunningCluster) -> None:
    found = paced(target_of(cluster, "paced"), seconds=0.1, per_second=500)
    assert 0 < found.p50 <= found.p99 <= found.p999
    assert 40 <= len(cluster.messages("paced")) <= 50  # some are delayed


def test_our_broker_takes_the_settings_of_the_run() -> None:
    settings = LiveSettings.load(from_arguments([f"{key}={value}" for key, value in BUSY.items()]))
    assert settings.store.reserved_hours == 1
    assert settings.store.segment_bytes == BUSY["mappedFileSizeCommitLog"]


def test_a_percentile_is_a_latency_that_occurred() -> None:
    assert percentiles([0.002, 0.001, 0.009]) == (2.0, 9.0, 9.0)


def test_only_full_segments_are_made_old(tmp_path: Path) -> None:
    log = tmp_path / "commitlog"
    log.mkdir()
    segments = [log / f"{number:020}" for number in range(4)]
    for segment in segments:
        segment.touch()
    newest = segments[-1].stat().st_mtime
    age(tmp_path)
    assert [newest - one.stat().st_mtime > 3600 for one in segments] == [True, True, False, False]
