"""What was made gets into a store as a whole, and a broker goes on from it."""

import shutil
from itertools import count
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreError, StoreLocked
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.rebuild.target import Target, sync_log
from tests.store.golden import GoldenStore, contents, opened, unpack
from tests.store.rebuild.made import Made, bytes_of, settings_of


class FailingDisk(RealDisk):
    """Fails at a rename; the process that had the store then counts as dead."""

    def __init__(self, at: int) -> None:
        self._left = at

    def rename(self, path: str, new_path: str) -> None:
        if not self._left:
            raise DiskFailed("it broke", path=path, errno=5)
        self._left -= 1
        super().rename(path, new_path)


def rebuild(golden: GoldenStore, disk: RealDisk | None = None, *, replace: bool = True) -> Made:
    """Rebuild a store in place, as the job does."""
    directory = str(golden.root)
    reader = StoreReader(directory)
    target = Target(disk or RealDisk(), directory, "run", replace=replace)
    try:
        keep_abort = target.has_abort_file
        made = Made(reader, settings_of(golden), Path(target.work))
        queues, index = made.queues(), made.index()
        sync_log(reader)
        target.publish(queues, index)
        last = max(made.files, key=lambda file: file.last_offset)
        target.finish(queues, index, log_end=last.end, last_ms=last.last_ms, keep_abort=keep_abort)
    finally:
        target.close()
    return made


@pytest.mark.parametrize("name", ["normal", "delay", "batch", "trans"])
def test_a_broker_starts_on_it_and_changes_nothing(name: str, tmp_path: Path) -> None:
    golden = unpack(name, tmp_path)
    shutil.rmtree(golden.root / "consumequeue")
    rebuild(golden)
    before = contents(golden.root / "consumequeue"), contents(golden.root / "index")
    assert not verify(StoreReader(str(golden.root))).is_damaged
    store = opened(golden)
    assert store.damages == []
    store.close()
    assert contents(golden.root / "consumequeue") == before[0]
    assert list(contents(golden.root / "index")) == list(before[1])


def test_after_a_crash_the_start_trusts_what_was_rebuilt(tmp_path: Path) -> None:
    golden = unpack("crash", tmp_path)
    made = rebuild(golden)
    assert (golden.root / "abort").exists()
    before = contents(golden.root / "consumequeue"), contents(golden.root / "index")
    store = opened(golden)
    assert store.log.end == golden.manifest["javaRestart"]["maxPhyOffset"]
    found = store.index.query("GoldenCrash", "TagA", 10_000, 0, 1 << 62, kind=KeyKind.TAGS)
    store.close()
    assert contents(golden.root / "consumequeue") == before[0]
    assert list(contents(golden.root / "index")) == list(before[1])
    assert len(before[1]) == len(made.index())
    assert len(found) <= sum(file.keys for file in made.files)


@pytest.mark.parametrize("replace", [True, False])
def test_it_can_be_run_again_wherever_it_was_stopped(tmp_path: Path, replace: bool) -> None:
    golden = unpack("delay", tmp_path / "first")
    for stop in count():
        golden = unpack("delay", tmp_path / str(stop))
        queues, index = contents(golden.root / "consumequeue"), bytes_of(golden.root / "index")
        if not replace:
            shutil.rmtree(golden.root / "consumequeue")
            shutil.rmtree(golden.root / "index")
        try:
            rebuild(golden, FailingDisk(stop), replace=replace)
        except DiskFailed:
            has_all = (golden.root / "consumequeue").exists() and (golden.root / "index").exists()
            assert has_all or not replace or (golden.root / "abort").exists()
            rebuild(golden, replace=replace)
            assert contents(golden.root / "consumequeue") == queues
            assert bytes_of(golden.root / "index") == index
            assert not (golden.root / ".rebuild").exists()
        else:
            assert stop > 4
            break
    with pytest.raises(StoreError, match="--in-place"):
        rebuild(golden, replace=False)


def test_a_locked_store_is_left_alone(tmp_path: Path) -> None:
    golden = unpack("normal", tmp_path)
    store = opened(golden)
    before = contents(golden.root / "consumequeue")
    with pytest.raises(StoreLocked):
        Target(RealDisk(), str(golden.root), "run", replace=True)
    assert contents(golden.root / "consumequeue") == before
    store.close()
