"""A store with batch queues, read without a broker."""

from pathlib import Path

import pytest

from orbitmq.message.scan import split_inner
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE
from orbitmq.store.reader.inspect import inspect
from orbitmq.store.reader.queue_reader import BatchQueueReader
from orbitmq.store.reader.reader import QueueName, StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.store.stores import SMALL, HandClock
from tests.store.test_batch_topics import BATCHED, SENDS, as_sent
from tests.store.unpacked import overwrite

FILE = f"batchconsumequeue/{BATCHED}/0/{0:020d}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a store with a topic of twelve messages in seven records."""
    store = MessageStore(
        str(tmp_path),
        StoreSettings(**SMALL, batch_queue_file_entries=5),  # type: ignore[arg-type]
        disk=RealDisk(),
        clock=HandClock(),
        workers=InlineWorkers(),
    )
    store.queues.topic_has_batches = lambda _topic: True
    store.open()
    store.append([as_sent(one) for one in SENDS])
    store.close()
    return tmp_path


def test_a_batch_queue_is_read_by_offsets(directory: Path) -> None:
    reader = StoreReader(str(directory))
    assert reader.queues() == [QueueName(BATCHED, 0)]
    queue = reader.queue(BATCHED, 0)
    assert isinstance(queue, BatchQueueReader)
    assert (queue.min_offset, queue.max_offset, queue.written_end) == (0, 12, 7)
    found = [(at, len(split_inner(view.message()))) for at, view in queue.read(1, 5)]
    assert found == [(0, 3), (3, 1), (4, 2)]
    assert [at for at, _ in queue.read(9, 100)] == [8, 10]
    assert queue.claims(0)
    assert not queue.claims(1)


def test_a_summary_counts_messages(directory: Path) -> None:
    summary = inspect(StoreReader(str(directory)))
    (queue,) = summary.queues
    assert (queue.messages, queue.min_offset, queue.max_offset) == (12, 0, 12)
    assert summary.disk["batchconsumequeue"].files == 2
    assert summary.damages == []


def test_a_sound_store_has_no_damage(directory: Path) -> None:
    verdict = verify(StoreReader(str(directory)))
    assert verdict.damages == []
    assert (verdict.queues, verdict.queue_entries, verdict.not_checked) == (1, 7, ())


@pytest.mark.parametrize(
    ("at", "data", "why"),
    [
        (28, b"\0" * 7 + b"\1", "offset 1 points to message 0"),
        (36, b"\0\2", "the number of messages at offset 0 differs"),
        (12, b"\1", "the tags code of offset 0 differs"),
        (0, b"\0" * 7 + b"\1", "where no record of"),
    ],
)
def test_an_entry_that_contradicts_its_record_is_damage(
    directory: Path, at: int, data: bytes, why: str
) -> None:
    overwrite(directory / FILE, at, data)
    damage = verify(StoreReader(str(directory))).damages[0]
    assert why in damage.reason
    assert damage.where == f"batchconsumequeue/{BATCHED}/0"


def test_messages_without_entries_are_damage(directory: Path) -> None:
    last = directory / f"batchconsumequeue/{BATCHED}/0/{5 * BATCH_ENTRY_SIZE:020d}"
    last.unlink()
    (damage,) = verify(StoreReader(str(directory))).damages
    assert damage.reason == "the log has messages up to 11, but the queue ends at 7"
    overwrite(directory / FILE, 0, bytes(5 * BATCH_ENTRY_SIZE))
    assert "but the queue ends at -1" in verify(StoreReader(str(directory))).damages[0].reason


def test_a_queue_that_lacks_its_first_file_begins_too_late(directory: Path) -> None:
    (directory / FILE).unlink()
    summary = inspect(StoreReader(str(directory)))
    (damage,) = summary.damages
    assert damage.reason == "the log has messages from 0 on, but the queue begins at 8"
