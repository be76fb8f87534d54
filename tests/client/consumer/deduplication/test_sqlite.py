"""States in a file: shared by processes, kept over restarts, and errors of the file."""

import sqlite3
from pathlib import Path

import pytest

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.client.consumer.deduplication.sqlite import SqliteClaims
from orbitmq.errors import DiskFailed, NotRunning, StoreDamaged
from tests.net.test_fork import said_in_a_fork
from tests.store.stores import HandClock


def opened(
    path: Path, clock: HandClock, owner: str = "me", *, entries_max: int = 9
) -> SqliteClaims:
    return SqliteClaims(
        str(path), clock, owner=owner, window_ms=1_000, lease_ms=100, entries_max=entries_max
    )


def test_processes_share_the_states(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "seen.db"
    mine, yours = opened(path, clock, "me"), opened(path, clock, "you")
    assert mine.claim(["a", "b"]) == [Found.NEW, Found.NEW]
    yours.release(["a"])  # not theirs
    yours.renew(["a"])
    mine.finish(["b"])
    assert yours.claim(["a", "b"]) == [Found.CLAIMED, Found.DONE]
    mine.close()  # as in a crash: without a release
    clock.now += 100
    assert yours.claim(["a", "b"]) == [Found.NEW, Found.DONE]
    yours.close()


def test_what_is_done_outlives_the_process(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "seen.db"
    first = opened(path, clock)
    first.finish(["a"])
    first.close()
    second = opened(path, clock)
    assert second.claim(["a"]) == [Found.DONE]
    second.close()


def test_the_file_holds_nothing_whose_time_has_ended(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "seen.db"
    claims = opened(path, clock)
    for number in range(50):
        claims.claim([f"claimed {number}"])
        claims.finish([f"done {number}"])
        clock.now += 500
    claims.close()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM seen").fetchone() == (3,)


def test_processes_that_finish_few_messages_keep_to_the_bound_too(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "seen.db"
    for number in range(250):
        claims = opened(path, clock, entries_max=200)
        claims.finish([f"done {number}"])
        claims.close()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM seen").fetchone() == (200,)


def test_a_file_that_is_none_or_can_not_be_made_is_refused(tmp_path: Path) -> None:
    clock = HandClock()
    with pytest.raises(DiskFailed, match="unable to open"):
        opened(tmp_path / "missing" / "seen.db", clock)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"not a database " * 100)
    with pytest.raises(StoreDamaged, match="file is not a database; give another file"):
        opened(foreign, clock)


def test_a_failed_change_leaves_everything_as_it_was(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "seen.db"
    claims = opened(path, clock)
    with pytest.raises(UnicodeEncodeError):
        claims.claim(["a", "\ud800"])
    assert claims.claim(["a"]) == [Found.NEW]
    claims.close()


def test_a_closed_file_says_so(tmp_path: Path) -> None:
    claims = opened(tmp_path / "seen.db", HandClock())
    claims.close()
    claims.close()
    with pytest.raises(NotRunning, match="is closed"):
        claims.claim(["a"])


def test_a_forked_child_may_not_use_the_connection(tmp_path: Path) -> None:
    claims = opened(tmp_path / "seen.db", HandClock())
    assert "before this process was forked" in said_in_a_fork(lambda: claims.claim(["a"]))
    claims.close()
