from pathlib import Path

import pytest

from bench.collector import SETTINGS
from bench.flood import flood, frames_of, spread_over
from bench.latency import COLLECTORS
from bench.parties import Ours
from orbitmq.store.reader.reader import StoreReader

PROGRAM = str(Path("bench/collector.py"))
SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100, "maxIndexNum": 10_000}


def test_our_broker_is_killed_and_started_again_on_its_files(tmp_path: Path) -> None:
    with Ours(tmp_path, SMALL, program=(PROGRAM, "frozen")) as party:
        frames = frames_of("keyed", spread_over("bench"), 20)
        assert flood(party.target("bench"), frames, connections=1, in_flight=4).cpu_us > 0
        first = party.pid
        party.kill()
        party.start()
        assert party.pid != first
        assert party.ready_ms > 0
    topics = [view.topic for view in StoreReader(str(tmp_path / "store")).records()]
    assert topics.count(b"bench") == 20


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="flushDiskType"),
        Ours(tmp_path, {"flushDiskType": "SOMETIMES"}),
    ):
        pass


def test_each_setting_of_the_collector_is_known() -> None:
    assert set(COLLECTORS) == set(SETTINGS)
