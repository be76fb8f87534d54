"""What both kinds of queues do with their files, by the number of entries."""

from collections import deque
from pathlib import Path

import pytest

from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.queues.batch_queue import BatchQueue
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.files import QueueFiles
from tests.store.entries import dispatched
from tests.store.golden import contents

PER_FILE = 4
Kind = type[ConsumeQueue] | type[BatchQueue]


def queue_in(directory: Path, kind: Kind) -> ConsumeQueue | BatchQueue:
    files = QueueFiles(OpenFiles(RealDisk(), limit=4), str(directory), PER_FILE * kind.entry_size)
    return kind("orders", 0, files, entries_per_file=PER_FILE, backlog=deque())


def filled(directory: Path, kind: Kind, count: int) -> ConsumeQueue | BatchQueue:
    queue = queue_in(directory, kind)
    for offset in range(count):
        assert queue.append(dispatched(offset, offset * 100))
    queue.write()
    return queue


def bounds(queue: ConsumeQueue | BatchQueue) -> tuple[int, int, int]:
    return queue.min_offset, queue.max_offset, queue.record_end


@pytest.mark.parametrize("kind", [ConsumeQueue, BatchQueue])
def test_a_queue_of_messages_sent_alone_is_the_same_by_both_layouts(
    tmp_path: Path, kind: Kind
) -> None:
    queue = filled(tmp_path, kind, 10)
    assert (queue.first_number, queue.end_number, queue.last_offset) == (0, 10, 9)
    assert bounds(queue) == (0, 10, 1000)
    again = queue_in(tmp_path, kind)
    again.load()
    again.recover()
    assert bounds(again) == (0, 10, 1000)
    again.truncate(750)  # record 8 begins at byte 800
    assert bounds(again) == (0, 8, 800)
    size = PER_FILE * kind.entry_size
    assert list(contents(tmp_path)) == [f"{0:020d}", f"{size:020d}", f"{2 * size:020d}"]
    again.drop_last()
    assert bounds(again) == (0, 7, 700)
    assert len(again.clean(450)) == 1
    assert bounds(again) == (5, 7, 700)
    again.clean(900)
    assert bounds(again) == (7, 7, 700)


@pytest.mark.parametrize("kind", [ConsumeQueue, BatchQueue])
def test_what_is_cut_off_is_zeroed(tmp_path: Path, kind: Kind) -> None:
    filled(tmp_path, kind, 4).cut(1)
    (data,) = contents(tmp_path).values()
    assert any(data[: kind.entry_size])
    assert not any(data[kind.entry_size :])
