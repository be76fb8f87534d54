"""Restores the first files of consume queues from the log at a start.

Old files of a queue are removed together with those of the log, so a queue may begin with any file.
But then the log begins within the records of that file, not before all of them::

    log        [ a0 b0 a1 b1 a2 b2 …     begins here
    queue a    [ 0 1 ][ 2 3 ]            complete
    queue b           [ 2 3 ]            b0 and b1 are in the log, but consumers can't get them

Missing files are built in a directory beside the queues and moved in one by one, the last one
first: an interrupted start leaves a queue as it was, or with more files.
"""

import logging
from collections.abc import Mapping

from orbitmq.store.damage import Damage
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.log.record_rows import Checked
from orbitmq.store.log.segments import Segments
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.entry import unpack
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk
from orbitmq.store.recovery.queue_restore import QueueName, QueueRestore, fill_places

__all__ = ["restored_heads"]

log = logging.getLogger("orbitmq.store")


def restored_heads(
    chain: Segments,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    checked: Checked,
    vouched_end: int = 0,
) -> list[Damage]:
    """Restore missing first files of queues, as far as the log has their records.

    The rest of the queues must be right already. Only files of the log before the first known
    entries are read; none if no queue lacks files, as nearly always. The caller corrects
    ``min_offset``. Return the damaged places of the log, and the messages that queues lack because
    of them.
    """
    aside = queues.aside()
    headless = {
        (queue.topic.encode(errors="surrogateescape"), queue.queue_id): queue
        for queue in queues
        if isinstance(queue, ConsumeQueue) and queue.may_lack_head(chain.first_offset)
    }
    if not headless:
        return []
    try:
        damages = _filled(aside, chain, dispatcher, checked, vouched_end, headless)
        for queue in headless.values():
            damages += _completed(_head(aside, queue), queue)
        aside.sync()
        aside.close()
        for queue in headless.values():
            _join(_head(aside, queue), queue)
    finally:
        aside.remove()
    return damages


def _filled(
    aside: ConsumeQueues,
    chain: Segments,
    dispatcher: Dispatcher,
    checked: Checked,
    vouched_end: int,
    headless: Mapping[QueueName, ConsumeQueue],
) -> list[Damage]:
    """Fill the queues ``aside`` with the entries that ``headless`` queues lack."""
    known = max(
        chain.next_base() if queue.is_empty else next(unpack(_first(queue))).commit_log_offset
        for queue in headless.values()
    )
    files = sum(segment.base < known for segment in chain.files)
    walk = RecoveryWalk(
        chain,
        0,
        vouched_ms=ALL_VOUCHED,
        vouched_end=vouched_end,
        checked=checked,
        files=files,
    )
    # All of these offsets were given out; listing them allows holes to be filled.
    listed: dict[str, dict[int, int]] = {}
    for queue in headless.values():
        listed.setdefault(queue.topic, {})[queue.queue_id] = queue.first_offset
    restore = QueueRestore(
        aside,
        dispatcher,
        correct=False,
        damages=walk.damages,
        log_start=chain.first_offset,
        listed=listed,
        only_listed=True,
    )
    for block in walk:
        restore.add_block(block, headless)
    restore.finish()
    return walk.damages


def _head(aside: ConsumeQueues, queue: ConsumeQueue) -> ConsumeQueue:
    """Return the first entries of a queue, which are built aside."""
    head = aside.made(queue.topic, queue.queue_id)
    assert isinstance(head, ConsumeQueue)
    return head


def _first(queue: ConsumeQueue) -> bytes:
    return queue.entries(queue.first_offset, 1)


def _completed(head: ConsumeQueue, queue: ConsumeQueue) -> list[Damage]:
    """Cut or extend a head so that it ends where its queue begins; return the lost messages.

    Offsets of lost messages get the entry of the next one, as in ``queue_restore``.
    """
    end, begin = head.max_offset, queue.first_offset
    if head.is_empty or queue.is_empty or end == begin:
        return []
    if end > begin:
        head.cut(begin)
        return []
    damage = fill_places(head, begin, _first(queue))
    log.error("%s", damage)
    return [damage]


def _join(head: ConsumeQueue, queue: ConsumeQueue) -> None:
    if head.is_empty:
        return  # the missing files were removed with those of the log
    log.warning(
        "queue %d of topic %s began at %d but the log has messages from %d on: restored their "
        "entries",
        *(queue.queue_id, queue.topic, queue.first_offset, head.min_offset),
    )
    queue.take_head(head)
