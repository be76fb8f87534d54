"""Restores the first files of batch queues from the log at a start.

As in ``queue_heads``, files may be missing if the log has records of a queue before its first
entry. The entries of these records are put before the first one::

    number        0       4       8
    queue                         [ 8 9 … ]      file 4 to 7 is missing, and the log has 6 and 7
    after                 [ – – 6 7 ][ 8 9 … ]   –: entries that lead nowhere, for offsets before

An entry has at least one message, so there are always enough offsets for the entries before.
"""

import logging
from collections.abc import Mapping

from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.log.record_rows import Checked, view_of
from orbitmq.store.log.segments import Segments
from orbitmq.store.queues.batch_entry import BatchEntry
from orbitmq.store.queues.batch_queue import BatchQueue, batch_entry_of
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk
from orbitmq.store.recovery.queue_restore import QueueName

__all__ = ["restored_batch_heads"]

log = logging.getLogger("orbitmq.store")


def restored_batch_heads(
    chain: Segments,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    checked: Checked,
    vouched_end: int = 0,
) -> list[Damage]:
    """Restore missing first files of batch queues, as far as the log has their records.

    The caller corrects ``min_offset``. Return the damaged places of the log.
    """
    headless = {
        (queue.topic.encode(errors="surrogateescape"), queue.queue_id): queue
        for queue in queues
        if isinstance(queue, BatchQueue) and queue.may_lack_head(chain.first_offset)
    }
    if not headless:
        return []
    known = max(queue.first_record(chain.next_base()) for queue in headless.values())
    walk = RecoveryWalk(
        chain,
        0,
        vouched_ms=ALL_VOUCHED,
        vouched_end=vouched_end,
        checked=checked,
        files=sum(segment.base < known for segment in chain.files),
    )
    found = _found(walk, queues, dispatcher, headless)
    aside = queues.aside()
    heads = []
    try:
        for name, entries in found.items():
            head, queue = aside.made(headless[name].topic, name[1]), headless[name]
            assert isinstance(head, BatchQueue)
            if head.put_before(queue.first_number, entries):
                heads.append((queue, head))
        aside.sync()
        aside.close()
        for queue, head in heads:
            log.warning("restored the first entries of %r: the log has their messages", queue)
            queue.take_head(head)
    finally:
        aside.remove()
    return walk.damages


def _found(
    walk: RecoveryWalk,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    headless: Mapping[QueueName, BatchQueue],
) -> dict[QueueName, list[BatchEntry]]:
    """Return the entries of the records before the first entry of each queue, in order."""
    found: dict[QueueName, list[BatchEntry]] = {}
    for buffer, rows in walk:
        for row in rows:
            view = view_of(buffer, row)
            name = (bytes(view.topic), view.queue_id)
            queue = headless.get(name)
            if queue is None or view.commit_log_offset >= queue.first_record(walk.end):
                continue
            (record, *_) = dispatcher.entries(view)
            entries = found.setdefault(name, [])
            if record.queue_offset == 0:
                entries.clear()  # the topic was deleted, and created again
            if queues.is_queued(record) and (not entries or record.queue_offset >= entries[-1].end):
                entries.append(batch_entry_of(record))
    return {name: entries for name, entries in found.items() if entries}
