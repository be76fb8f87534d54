"""Consume queues that lack their first files, made whole from the log at a start.

Old files of a queue go with those of the log, so that one may rightly begin with any file. But then
the log begins among the records of that file, and not before all of them::

    log        [ a0 b0 a1 b1 a2 b2 …     begins here, and is all there
    queue a    [ 0 1 ][ 2 3 ]            as it should be
    queue b           [ 2 3 ]            b0 and b1 are in the log, and no consumer gets them

What is missing is made beside the queues, and takes its place file by file, the last one first: a
start that is cut short leaves a queue as it was, or with more of it.
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
    """Give queues the first files that they lack, as far as the log has their records.

    All else about the queues is right. Of the log only the files are read that have something to
    say; where queues lack nothing, as nearly always, none. The caller corrects least offsets.

    Args:
        chain: the files of the log.
        queues: the queues.
        dispatcher: says what a record means.
        checked: which checksums count.
        vouched_end: the offset up to which all of the log is ours; 0 if nobody knows.

    Returns:
        What of the log could not be read, and what queues lack for it.

    Raises:
        StoreError: a file can't be read or written.

    """
    aside = queues.aside()
    headless = {
        (queue.topic.encode(errors="surrogateescape"), queue.queue_id): queue
        for queue in queues
        if queue.may_lack_head(chain.first_offset)
    }
    if not headless:
        return []
    try:
        damages = _filled(aside, chain, dispatcher, checked, vouched_end, headless)
        for queue in headless.values():
            damages += _completed(aside.made(queue.topic, queue.queue_id), queue)
        aside.sync()
        aside.close()
        for queue in headless.values():
            _join(aside.made(queue.topic, queue.queue_id), queue)
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
    """Give the queues beside what the log has of them before the first entries of the others."""
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
    # All of these places were given out: what is listed says that holes in the log are no mistake.
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


def _first(queue: ConsumeQueue) -> bytes:
    return queue.entries(queue.first_offset, 1)


def _completed(head: ConsumeQueue, queue: ConsumeQueue) -> list[Damage]:
    """Let a head, unless one is empty, end where its queue begins; return what it lacks of that.

    Places of messages that are lost get the entry of the next one, as in ``queue_restore``.
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
        return  # the files went with those of the log, all of them
    log.warning(
        "queue %d of topic %s began at %d, and the log has messages from %d on: their entries were "
        "written again",
        *(queue.queue_id, queue.topic, queue.first_offset, head.min_offset),
    )
    queue.take_head(head)
