"""Queue files made from parts of the log, by the rules of a broker's start.

``QueueRestore`` decides what a queue has: the first of two records with one offset, and the last of
two lives of a topic that was deleted and created again.
"""

from collections.abc import Iterable, Iterator

import msgspec

from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import Disk
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, path_join
from orbitmq.store.queues.batch_queue import BatchQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues, HasBatchQueues
from orbitmq.store.reader.topics_file import stored_topics
from orbitmq.store.rebuild.log_parts import QueuePart, places_of
from orbitmq.store.recovery.queue_restore import QueueRestore
from orbitmq.store.settings import StoreSettings, delay_levels

__all__ = ["MadeQueue", "make_queues", "topics_with_batches"]


class MadeQueue(msgspec.Struct, frozen=True):
    """A queue whose files are on disk; ``path`` is their directory."""

    topic: str
    queue_id: int
    path: str
    min_offset: int
    max_offset: int
    entries: int
    is_batch: bool


def make_queues(
    disk: Disk,
    directory: str,
    ordered: Iterable[QueuePart],
    settings: StoreSettings,
    *,
    has_batches: HasBatchQueues,
    damages: list[Damage],
) -> Iterator[MadeQueue]:
    """Write the files of queues below a directory, and yield the queues when they are on disk.

    The parts of a queue come in the order of the log; ``damages`` are those of the whole log, which
    may explain missing records, and get what the queues lack.
    """
    queues = ConsumeQueues(
        disk,
        path_join(directory, CONSUME_QUEUE),
        batch_directory=path_join(directory, BATCH_CONSUME_QUEUE),
        entries_per_file=settings.queue_file_entries,
        batches_per_file=settings.batch_queue_file_entries,
    )
    queues.topic_has_batches = has_batches
    dispatcher = Dispatcher(delay_levels(settings.message_delay_level))
    restore = QueueRestore(queues, dispatcher, correct=False, damages=damages)
    try:
        for part in ordered:
            for entry in places_of(part):
                restore.add(entry)
        restore.finish()
        queues.sync()
    finally:
        queues.close()
    for queue in queues:
        is_batch = isinstance(queue, BatchQueue)
        kind = BATCH_CONSUME_QUEUE if is_batch else CONSUME_QUEUE
        path = path_join(directory, kind, queue.topic, str(queue.queue_id))
        begin, end = queue.min_offset, queue.max_offset
        entries = queue.end_number - queue.first_number if is_batch else end - begin
        yield MadeQueue(queue.topic, queue.queue_id, path, begin, end, entries, is_batch)


def topics_with_batches(disk: Disk, store: str, seen: Iterable[str]) -> frozenset[str]:
    """Return the topics with batch queues, by the ``config/topics.json`` of a store.

    Of topics that it doesn't have, or without it, those are taken that have inner batches, ``seen``
    in the log: brokers store these for no others.

    Raises:
        StoreError: the file can't be read.
    """
    known = stored_topics(disk, store) or {}
    typed = (name for name, one in known.items() if one.attributes.get("queue.type") == "BatchCQ")
    return frozenset([*typed, *(name for name in seen if name not in known)])
