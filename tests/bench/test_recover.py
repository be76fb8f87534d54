from pathlib import Path

from bench.measure import in_child
from bench.recover import CASES, SETTINGS, crashed, fill, started


def test_a_dead_store_is_started_in_every_case_and_read_whole(tmp_path: Path) -> None:
    in_child(fill, str(tmp_path), SETTINGS, 100, 4)
    assert (tmp_path / "abort").exists()
    starts = [crashed(str(tmp_path), *case, rounds=1) for case in CASES.values()]
    assert len({start.log_mb for start in starts}) == 1
    assert all(start.read_mb == start.log_mb > 0.1 for start in starts)
    assert all(start.mb_per_s > 0 for start in starts)
    assert (tmp_path / "abort").exists()


def test_a_start_may_be_followed_by_a_stop(tmp_path: Path) -> None:
    started(str(tmp_path), SETTINGS, stop=True)
    assert not (tmp_path / "abort").exists()
