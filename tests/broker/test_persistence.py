import asyncio
import errno
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from orbitmq.broker.persistence import Persistence
from orbitmq.clock import Clock
from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.config_files import ConfigFiles
from orbitmq.testing.clocks import InlineWorkers, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.threads import Future

P = ParamSpec("P")
T = TypeVar("T")


class Table:
    """A number that counts its changes."""

    def __init__(self) -> None:
        self.value = 0
        self.texts_made = 0

    def to_json(self) -> str:
        self.texts_made += 1
        return str(self.value)

    def load_json(self, text: str) -> None:
        self.value = int(text)


class SlowWorkers:
    """Workers that do nothing until ``work``; each piece is done at once, in order."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self.waiting.append(run)
        return future

    def run_one(self) -> None:
        self.waiting.pop(0)()

    def close(self, *, wait: bool = True) -> None:
        self.waiting.clear()


class Kept:
    """Two tables that are kept on a disk in memory."""

    def __init__(self, disk: SimulatedDisk, workers: SlowWorkers | InlineWorkers) -> None:
        self.files = ConfigFiles(disk, "/store/config")
        self.first, self.second = Table(), Table()
        self.persistence = Persistence(self.files, workers)
        for name, table in (("first.json", self.first), ("second.json", self.second)):
            self.persistence.register(
                name,
                to_json=table.to_json,
                load_json=table.load_json,
                version=lambda table=table: table.value,  # type: ignore[misc]
            )

    def on_disk(self, name: str = "first.json") -> int | None:
        return self.files.read(name, int)


async def turns() -> None:
    """Let callbacks run that are ready, and those they make ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_tables_that_changed_are_written_and_others_are_not() -> None:
    async def main(_clock: Clock) -> None:
        kept = Kept(SimulatedDisk(), InlineWorkers())
        await kept.persistence.save_all()
        assert (kept.first.texts_made, kept.second.texts_made) == (1, 1)  # there was no file
        kept.first.value = 7
        kept.persistence.save_changed()
        await turns()
        assert kept.on_disk() == 7
        kept.persistence.save_changed()
        await kept.persistence.save_all()
        assert (kept.first.texts_made, kept.second.texts_made) == (2, 1)

    run_virtual(main)


def test_tables_are_loaded_and_count_as_saved() -> None:
    disk = SimulatedDisk()

    async def main(_clock: Clock) -> None:
        kept = Kept(disk, InlineWorkers())
        kept.first.value, kept.second.value = 3, 4
        await kept.persistence.save_all()
        again = Kept(disk, InlineWorkers())
        again.persistence.load()
        assert (again.first.value, again.second.value) == (3, 4)
        again.persistence.save_changed()
        assert again.first.texts_made == 0

    run_virtual(main)


def test_a_table_may_be_loaded_before_the_others() -> None:
    disk = SimulatedDisk()

    async def main(_clock: Clock) -> None:
        kept = Kept(disk, InlineWorkers())
        kept.first.value, kept.second.value = 3, 4
        await kept.persistence.save_all()
        again = Kept(disk, InlineWorkers())
        again.persistence.load("second.json")
        assert (again.first.value, again.second.value) == (0, 4)
        again.second.value = 5  # changed meanwhile
        again.persistence.load()
        assert (again.first.value, again.second.value) == (3, 5)

    run_virtual(main)


def test_a_file_that_cannot_be_used_stops_the_start() -> None:
    kept = Kept(SimulatedDisk(), InlineWorkers())
    kept.files.write("first.json", "no number")
    with pytest.raises(StoreDamaged, match="first.json can't be used"):
        kept.persistence.load()


def test_one_write_at_a_time_and_the_next_has_all_that_changed_meanwhile() -> None:
    async def main(_clock: Clock) -> None:
        workers = SlowWorkers()
        kept = Kept(SimulatedDisk(), workers)
        kept.first.value = kept.second.value = 1
        kept.persistence.save_changed()
        assert len(workers.waiting) == 2  # one for each file
        for value in (2, 3, 4):
            kept.first.value = value
            kept.persistence.save_changed()
        assert len(workers.waiting) == 2
        workers.run_one()
        await turns()
        assert kept.on_disk() == 1
        kept.persistence.save_changed()
        kept.persistence.save_changed()
        assert len(workers.waiting) == 2
        workers.run_one()
        workers.run_one()
        await turns()
        assert kept.on_disk() == 4

    run_virtual(main)


def test_a_save_waits_for_a_write_that_has_what_is_there_now() -> None:
    async def main(_clock: Clock) -> None:
        workers = SlowWorkers()
        kept = Kept(SimulatedDisk(), workers)
        kept.first.value = 1
        early = asyncio.create_task(kept.persistence.save("first.json"))
        await turns()
        kept.first.value = 2
        late = [asyncio.create_task(kept.persistence.save("first.json")) for _ in range(3)]
        await turns()
        workers.run_one()
        await turns()
        assert early.done()
        assert not any(one.done() for one in late)
        assert len(workers.waiting) == 1  # one write for the three of them
        workers.run_one()
        await asyncio.gather(early, *late)
        assert kept.on_disk() == 2
        await kept.persistence.save("first.json")
        assert not workers.waiting

    run_virtual(main)


def test_a_cancelled_caller_does_not_stop_the_write() -> None:
    async def main(_clock: Clock) -> None:
        workers = SlowWorkers()
        kept = Kept(SimulatedDisk(), workers)
        kept.first.value = 1
        waits = asyncio.create_task(kept.persistence.save("first.json"))
        await turns()
        waits.cancel()
        await turns()
        workers.run_one()
        await turns()
        assert kept.on_disk() == 1
        kept.persistence.save_changed()
        assert len(workers.waiting) == 1  # the other table, and not this one again

    run_virtual(main)


def test_a_failed_write_is_raised_logged_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(_clock: Clock) -> None:
        disk = SimulatedDisk()
        kept = Kept(disk, InlineWorkers())
        await kept.persistence.save_all()
        disk.fail("sync", "first.json", errno.EIO)
        kept.first.value = 7
        with pytest.raises(DiskFailed):
            await kept.persistence.save("first.json")
        assert kept.on_disk() == 0
        assert "first.json could not be written, a later save retries" in caplog.text
        kept.second.value = 8
        kept.persistence.save_changed()
        await turns()
        assert (kept.on_disk(), kept.on_disk("second.json")) == (7, 8)

    run_virtual(main)


def test_a_stop_writes_what_it_can_and_tells_of_the_rest() -> None:
    async def main(_clock: Clock) -> None:
        disk = SimulatedDisk()
        kept = Kept(disk, InlineWorkers())
        await kept.persistence.save_all()
        kept.first.value, kept.second.value = 7, 8
        disk.fail("sync", "first.json", errno.EIO)
        with pytest.raises(DiskFailed):
            await kept.persistence.save_all()
        assert kept.on_disk("second.json") == 8

    run_virtual(main)
