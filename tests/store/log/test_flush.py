import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.flush import Flusher
from orbitmq.store.settings import FlushMode, StoreSettings
from tests.store.counting import descriptors_of
from tests.store.logs import NOW, incoming, new_log
from tests.store.stores import HandWorkers


class Bench:
    """A log, its flusher, and a hand on everything."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.log, self.chain = new_log(RealDisk(), str(directory), **settings)
        chosen = StoreSettings(**{"segment_bytes": 4096, **settings})  # type: ignore[arg-type]
        self.workers = HandWorkers()
        self.flusher = Flusher(self.chain, chosen, self.workers, lambda call: call())
        self.flusher.start_at(0, NOW)
        self.told: list[tuple[str, bool]] = []

    def put(self, name: str) -> None:
        (result,), _ = self.log.append([incoming(name.encode())], NOW)
        self.flusher.wait_for(result.end, NOW, lambda durable: self.told.append((name, durable)))

    def tick(self, after_ms: int) -> None:
        self.flusher.tick(self.log.end, NOW + after_ms)


def sync_bench(directory: Path) -> Bench:
    return Bench(directory, flush_mode=FlushMode.SYNC)


def test_waiters_are_released_together_in_their_order(tmp_path: Path) -> None:
    bench = sync_bench(tmp_path)
    for name in "abc":
        bench.put(name)
    bench.flusher.appended(bench.log.end)
    assert bench.told == []
    bench.workers.run()
    assert bench.told == [("a", True), ("b", True), ("c", True)]
    assert bench.flusher.flushed == bench.log.end


def test_what_comes_during_a_sync_is_the_next_group(tmp_path: Path) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.appended(bench.log.end)
    bench.put("b")
    bench.put("c")
    bench.flusher.appended(bench.log.end)
    assert len(bench.workers.waiting) == 1
    bench.workers.run()
    assert bench.told == [("a", True)]
    bench.workers.run()  # it began at once, and not when the clock was looked at next
    assert bench.told == [("a", True), ("b", True), ("c", True)]


def test_what_is_on_the_disk_already_is_told_at_once(tmp_path: Path) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.flush_all(bench.log.end)
    told: list[bool] = []
    bench.flusher.wait_for(bench.log.end, NOW, told.append)
    assert told == [True]


def test_a_disk_that_is_too_slow_is_told_after_five_seconds(tmp_path: Path) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.appended(bench.log.end)
    bench.tick(4_999)
    assert bench.told == []
    bench.tick(5_000)
    assert bench.told == [("a", False)]
    bench.workers.run()
    assert bench.told == [("a", False)]
    assert bench.flusher.flushed == bench.log.end


def test_a_failed_sync_is_the_end_of_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.appended(bench.log.end)
    monkeypatch.setattr("os.fdatasync", fail)
    bench.workers.run()
    monkeypatch.undo()
    assert bench.told == [("a", False)]
    assert bench.flusher.failure is not None
    assert "Input/output error" in str(bench.flusher.failure)
    bench.put("b")
    bench.tick(60_000)
    assert bench.workers.waiting == []
    assert bench.told == [("a", False), ("b", False)]
    with pytest.raises(DiskFailed):
        bench.flusher.flush_all(bench.log.end)


def test_files_and_names_are_synced_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    bench = sync_bench(tmp_path)
    monkeypatch.setattr("os.fdatasync", lambda descriptor: calls.append("file"))
    monkeypatch.setattr("os.fsync", lambda descriptor: calls.append("names"))
    (result,), _ = bench.log.append([incoming(bytes(3000))], NOW)
    bench.flusher.wait_for(result.end, NOW, lambda durable: calls.append("told"))
    bench.flusher.appended(bench.log.end)
    bench.workers.run()
    assert calls == ["file", "names", "told"]
    calls.clear()
    (result,), _ = bench.log.append([incoming(b"same file")], NOW)
    bench.flusher.wait_for(result.end, NOW, lambda durable: calls.append("told"))
    bench.flusher.appended(bench.log.end)
    bench.workers.run()
    assert calls == ["file", "told"]
    calls.clear()
    (result,), _ = bench.log.append([incoming(bytes(3000))], NOW)
    bench.flusher.wait_for(result.end, NOW, lambda durable: calls.append("told"))
    bench.flusher.appended(bench.log.end)
    bench.workers.run()
    assert calls == ["file", "file", "names", "told"]  # the end of one file, and a new one


def flushes(log: CommitLog, flusher: Flusher, workers: HandWorkers, after_ms: int) -> bool:
    flusher.tick(log.end, NOW + after_ms)
    if not workers.waiting:
        return False
    workers.run()
    return True


def test_without_waiters_pages_are_flushed_by_the_clock(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=1024 * 1024)
    parts = (bench.log, bench.flusher, bench.workers)
    bench.log.append([incoming(bytes(3 * 4096))], NOW)
    assert not flushes(*parts, 500)  # three pages and a bit: not enough yet
    bench.log.append([incoming(bytes(4096))], NOW)
    assert not flushes(*parts, 600)  # enough, but looked at 100 ms ago
    assert flushes(*parts, 1_000)
    bench.log.append([incoming(b"x")], NOW)
    assert not flushes(*parts, 2_000)
    assert flushes(*parts, 10_000)  # any page, after ten seconds
    assert not flushes(*parts, 30_000)  # nothing to do


def test_a_stop_flushes_here_and_now(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    seen: list[int] = []
    bench.flusher.on_flushed = seen.append
    bench.log.append([incoming()], NOW)
    bench.flusher.flush_all(bench.log.end)
    bench.flusher.flush_all(bench.log.end)
    assert seen == [bench.log.end]


def test_a_stop_does_not_pass_over_the_failure_of_a_sync_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.appended(bench.log.end)
    ((work, _),) = bench.workers.waiting
    posted: list[Callable[[], None]] = []
    monkeypatch.setattr(bench.flusher, "_post", posted.append)
    work.set_exception(DiskFailed("can't sync", path="0", errno=errno.EIO))
    with pytest.raises(DiskFailed):
        bench.flusher.flush_all(bench.log.end)
    assert bench.told == [("a", False)]
    assert bench.flusher.flushed == 0


def test_a_sync_that_ends_after_a_stop_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.appended(bench.log.end)
    posted: list[Callable[[], None]] = []
    monkeypatch.setattr(bench.flusher, "_post", posted.append)
    bench.workers.run()
    bench.put("b")
    bench.flusher.flush_all(bench.log.end)
    for call in posted:
        call()
    assert bench.told == [("a", True), ("b", True)]
    assert bench.flusher.flushed == bench.log.end


def test_without_a_descriptor_it_is_tried_again_and_those_who_wait_go_on_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sync_bench(tmp_path)
    rooms: list[int] = []
    bench.flusher.make_room = lambda: rooms.append(1)
    bench.put("a")
    with monkeypatch.context() as shortage:
        shortage.setattr(bench.chain, "sync_names", without_descriptors)
        bench.flusher.appended(bench.log.end)
        bench.workers.run()
    assert (bench.told, bench.flusher.failure, rooms) == ([], None, [1])
    bench.tick(1)
    bench.workers.run()
    assert bench.told == [("a", True)]


def test_a_stop_makes_room_for_its_own_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    bench.flusher.make_room = monkeypatch.undo
    monkeypatch.setattr(bench.chain, "sync_names", without_descriptors)
    bench.flusher.flush_all(bench.log.end)
    assert (bench.told, bench.flusher.failure) == ([("a", True)], None)


def test_what_a_worker_lacked_a_descriptor_for_a_stop_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = sync_bench(tmp_path)
    bench.put("a")
    monkeypatch.setattr(bench.flusher, "_post", lambda _call: None)  # the owner is busy stopping
    bench.flusher.appended(bench.log.end)
    with monkeypatch.context() as shortage:
        shortage.setattr(bench.chain, "sync_names", without_descriptors)
        bench.workers.run()
    bench.flusher.flush_all(bench.log.end)
    assert (bench.told, bench.flusher.failure) == ([("a", True)], None)


def test_a_file_that_is_full_and_flushed_is_closed(tmp_path: Path) -> None:
    bench = sync_bench(tmp_path)
    while len(bench.chain.files) < 3:
        bench.put("x" * 900)
    assert descriptors_of(tmp_path) == 3
    bench.flusher.flush_all(bench.log.end)
    assert descriptors_of(tmp_path) == 1
    assert bench.log.record(0) is not None


def without_descriptors() -> None:
    raise DiskFailed("can't sync: too many open files", path="commitlog", errno=errno.EMFILE)
