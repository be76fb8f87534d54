"""Half messages wait in RMQ_SYS_TRANS_HALF_TOPIC until their transaction ends.

::

    a send with TRAN_MSG ──▶ half queue ──┬─ commit ───▶ REAL_TOPIC, REAL_QID ─▶ op message
                              ▲   │       ├─ rollback ─▶ op message
                              │   │       └─ checked too often ─▶ TRANS_CHECK_MAX_TIME_TOPIC
                              └───┴─ checked: a copy with TRANSACTION_CHECK_TIMES + 1

One offset is the progress of the half queue: that of the group CID_RMQ_SYS_TRANS, as in Java. All
halves before it are done with; of those after it, op messages name the ones that are. A copy is the
same transaction: unique key and time of birth are equal. Laws:

- No loss: the offset on disk is never ahead of what halves left in the log, copies or delivered
  messages, on disk.
- A transaction ends once. What shows how it ended is in the log before the answer: the delivered
  message for a commit, the op message for a rollback. A second end gets the first outcome.
- So a crash between a commit and its op message delivers nothing twice: a half that an earlier run
  stored ends, and is checked, only after the key index was searched for the delivered message.
"""

import enum
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import Final, ParamSpec, TypeAlias

from orbitmq.broker.figures.transaction_counts import OpenTransactions
from orbitmq.broker.sending import stored_properties
from orbitmq.broker.sending.deduplication import FirstReceipt
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.op_messages import OpMessages
from orbitmq.broker.sending.plain.half_texts import Ended, ended
from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.offsets import NO_OFFSET, ConsumerOffsets
from orbitmq.errors import LocalProtocolError
from orbitmq.message import flags, properties
from orbitmq.message.names import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from orbitmq.message.record_view import RecordView
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult
from orbitmq.store.log.light_queues import light_queues_of
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.settings import delay_levels
from orbitmq.wire.codes import ResponseCode

__all__ = ["Decision", "HalfMessages", "OnEnded", "copy_of"]

log = logging.getLogger("orbitmq.broker")


class Decision(enum.Enum):
    """How a transaction ends."""

    COMMIT = "committed"
    ROLLBACK = "rolled back"


OnEnded: TypeAlias = Callable[[Decision | PutOutcome], None]
"""Called with how a transaction ended, now or before, or with why it did not end."""
_Transaction: TypeAlias = tuple[bytes, int]
P = ParamSpec("P")

_ENDED_MAX: Final = 16_384
"""Ended transactions that are remembered; for others the key index is searched."""
_COPIES_MAX: Final = 256
"""Records with one unique key that are looked at: checks and consumers' retries make copies."""
_KEY_MAX: Final = 64
"""Bytes of a unique key in memory, where a client's may have thirty thousand; Java's have 32."""
_END_OF_TIME: Final = 2**63 - 1
_OF_COPIES: Final = (
    properties.TRANSACTION_CHECK_TIMES,
    properties.TRANSACTION_PREPARED_QUEUE_OFFSET,
)
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_real_topic = properties.finder(properties.REAL_TOPIC.encode())
_check_times = properties.finder(properties.TRANSACTION_CHECK_TIMES.encode())
_first_offset = properties.finder(properties.TRANSACTION_PREPARED_QUEUE_OFFSET.encode())


class HalfMessages:
    """Ends transactions, and knows which halves are done with.

    Load the offsets, call ``start``, then ``tick`` every 100 ms or so, and ``stop``.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        inbox: Inbox,
        ops: OpMessages,
        offsets: ConsumerOffsets,
        settings: LiveSettings,
        counts: OpenTransactions,
        timer_rules: TimerRules,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._ops = ops
        self._offsets = offsets
        self._counts = counts
        self._timer_rules = timer_rules
        self._settings = settings
        self._levels = len(delay_levels(settings.store.message_delay_level))
        self.offset = 0
        """Every half before this one is done with."""
        # Those after it that are done with → the end of what they left in the log.
        self._done: dict[int, int] = {}
        # The next offsets to save, each with the log offset that has to be flushed first.
        self._unflushed: deque[tuple[int, int]] = deque()
        self._ending: dict[_Transaction, list[OnEnded]] = {}
        self._ended: OrderedDict[_Transaction, Decision] = OrderedDict()  # oldest first
        # The last copy of each undecided transaction that this run has copied.
        self._copies: dict[_Transaction, int] = {}
        self._own_from = 0  # where in the log this run began

    def __repr__(self) -> str:
        return f"<HalfMessages from {self.offset}, {len(self._done)} done after it>"

    @property
    def queue(self) -> ConsumeQueue | None:
        """The half queue; None before the first half message."""
        return self._store.queues.consume_queue(HALF_TOPIC, 0)

    @property
    def done_after_offset(self) -> int:
        """How many halves are done with behind one that is not."""
        return len(self._done)

    # Life

    def start(self) -> None:
        """Read the op messages of the halves from the saved offset on."""
        self._own_from = self._store.log.end
        queue, saved = self.queue, self._saved(HALF_TOPIC)
        first, end = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        self.offset = first if saved is None else min(max(saved, first), end)
        if saved is not None and saved > end:
            log.error("the half messages were at offset %d, their queue ends at %d", saved, end)
        named = self._ops.load(self._saved(OP_HALF_TOPIC))
        self._done = {offset: 0 for offset in named if self.offset <= offset < end}
        self._advance()

    def tick(self) -> None:
        """Write op messages that are due, and save the offsets of what is flushed."""
        self._pass_expired()
        self._ops.tick()
        self._save_flushed()

    def stop(self) -> None:
        """Write the op messages that were not due yet; the inbox stores them."""
        self._ops.write()

    def save(self) -> None:
        """Save the offsets of what is flushed: for a stop, after the last flush."""
        self._save_flushed()

    # Halves

    def prepare(self, found: dict[str, str], topic: str, queue_id: int) -> tuple[str, int]:
        """Note the destination of a half in its properties; return the queue it waits in.

        Refuse one that could not be committed later.
        """
        for name in _OF_COPIES:  # of an earlier message that is sent again
            found.pop(name, None)
        self._destination(dict(found), topic, queue_id)
        if self._settings.store.lmq_enabled and properties.INNER_MULTI_DISPATCH in found:
            _check_light_queues(found[properties.INNER_MULTI_DISPATCH])
        found[properties.TRANSACTION_ID] = found[properties.UNIQUE_KEY]
        found[properties.REAL_TOPIC] = topic
        found[properties.REAL_QUEUE_ID] = str(queue_id)
        return HALF_TOPIC, 0

    def is_done(self, offset: int) -> bool:
        """Return whether a half is done with."""
        return offset < self.offset or offset in self._done

    def record(self, offset: int) -> RecordView | None:
        """Return a half by its offset; None if it can't be read."""
        queue = self.queue
        entry = None if queue is None else queue.entry(offset)
        return None if entry is None else self._store.record(entry.commit_log_offset)

    def counting(self, topic: str, on_stored: Callable[P, None]) -> Callable[P, None]:
        """Return a callback whose last argument is the outcome of a half; it counts stored ones."""

        def counted(*args: P.args, **kwargs: P.kwargs) -> None:
            outcome = args[-1]
            if isinstance(outcome, PutResult) and not isinstance(outcome, FirstReceipt):
                self._counts.add(topic, int(outcome.status.is_stored))
            on_stored(*args, **kwargs)

        return counted

    def began(self, topic: str, count: int) -> None:
        """Count halves of a topic that were stored."""
        self._counts.add(topic, count)

    def is_outdated(self, half: RecordView) -> bool:
        """Return whether a half is not needed, although nothing says that it is done with.

        Its transaction may have had two halves; or the offset of an earlier run, which had ended or
        copied it, was not saved.
        """
        transaction = _transaction_of(half)
        if transaction in self._ended:
            self._finish(half.queue_offset, 0)
        elif half.commit_log_offset >= self._own_from:
            return False
        elif self._is_committed(half):
            self._settle(transaction, half, half.queue_offset, Decision.COMMIT, 0)
        elif any(self._later(half, topic) for topic in (HALF_TOPIC, CHECKED_TOO_OFTEN_TOPIC)):
            self._retire(half.queue_offset, 0)
        else:
            return False
        return True

    def why_not_resumed(self, kept: RecordView) -> str:
        """Return why a half that was checked too often is not checked again; empty if it may be."""
        decision = self._ended.get(_transaction_of(kept))
        if decision is None and self._is_committed(kept):
            decision = Decision.COMMIT
        if decision is not None:
            return f"the transaction was {decision.value}"
        if any(not self.is_done(half.queue_offset) for half in self._alike(kept, HALF_TOPIC)):
            return "it is checked again already"
        return ""

    def copied(self, half: RecordView, copy: PutResult) -> bool:
        """Note that a copy took the place of a half; return False if it has ended meanwhile."""
        transaction = _transaction_of(half)
        self._retire(half.queue_offset, copy.end)
        if transaction in self._ended:
            self._finish(copy.queue_offset, copy.end)
            return False
        self._copies[transaction] = copy.queue_offset
        return True

    def discarded(self, half: RecordView, end: int) -> None:
        """Note that a half was checked too often, and is kept elsewhere."""
        self._copies.pop(_transaction_of(half), None)
        self._retire(half.queue_offset, end)
        self._count_end(half)

    def lost(self, offset: int) -> None:
        """Note that a half can't be read any more."""
        self._retire(offset, 0)

    # Ends

    def end(self, half: RecordView, decision: Decision, on_ended: OnEnded) -> None:
        """End a transaction, unless it has ended; ``on_ended`` is called once, now or later.

        Raise Refusal if it can't end now; ``on_ended`` is not called then.
        """
        transaction = _transaction_of(half)
        others = self._ending.get(transaction)
        if others is not None:
            others.append(on_ended)
            return
        found = self._find(half, transaction)
        if isinstance(found, Decision):
            self._finish(half.queue_offset, 0)  # a second half of the same transaction
            on_ended(found)
            return
        on_stored = partial(self._on_stored, transaction, half, found, decision)
        if decision is Decision.COMMIT:
            # A refused commit would be delayed until the next check.
            settings = self._settings.broker
            more_wait_ms = max(
                settings.wait_time_mills_in_transaction_queue
                - settings.wait_time_mills_in_send_queue,
                0,
            )
            self._inbox.put(self._committed(half), on_stored, more_wait_ms=more_wait_ms)
        else:
            self._ops.add_now(found, on_stored)
        self._ending[transaction] = [on_ended]

    def _committed(self, half: RecordView) -> Incoming:
        """Return the message that consumers get; raise Refusal if the half doesn't say where."""
        carried = half.carried()
        topic, queue_id, text = ended(carried.properties) or self._destined(carried.properties)
        return Incoming(
            topic=topic,
            queue_id=queue_id,
            body=carried.body,
            properties=text,
            flag=carried.flag,
            sys_flag=flags.with_transaction_state(carried.sys_flag, flags.TRANSACTION_COMMIT),
            born_timestamp_ms=carried.born_timestamp_ms,
            born_host=carried.born_host,
            store_host=carried.store_host,
            reconsume_times=carried.reconsume_times,
            prepared_transaction_offset=half.commit_log_offset,
        )

    def _destined(self, text: bytes) -> Ended:
        """Return where a half with any properties is committed to, and the properties there."""
        found = properties.decode(text)
        found.pop(properties.CRC32, None)
        topic = found.pop(properties.REAL_TOPIC, "")
        number = found.pop(properties.REAL_QUEUE_ID, "")
        if not topic or not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "Find prepared transaction message failed: it has no REAL_TOPIC and REAL_QID",
            )
        topic, queue_id = self._destination(found, topic, int(number))
        return Ended(topic, queue_id, properties.join(found))

    def _destination(self, found: dict[str, str], topic: str, queue_id: int) -> tuple[str, int]:
        """Return where a committed message is stored: a delay begins with the commit."""
        level = stored_properties.delay_level(found, self._levels)
        if not level:
            return self._timer_rules.place(found, topic, queue_id)
        found.pop(properties.TRANSACTION_PREPARED, None)  # as in Java, which keeps it otherwise
        return stored_properties.schedule(found, level, topic, queue_id)

    def _on_stored(
        self,
        transaction: _Transaction,
        half: RecordView,
        offset: int,
        decision: Decision,
        outcome: PutOutcome,
    ) -> None:
        waiting = self._ending.pop(transaction)
        result: Decision | PutOutcome = outcome
        if not isinstance(outcome, Refusal) and outcome.status.is_stored:
            if not self.is_done(offset):  # or it was checked too often, which counts as an end
                self._count_end(half)
            self._settle(transaction, half, offset, decision, outcome.end)
            result = decision
        for on_ended in waiting:
            on_ended(result)

    def _settle(
        self,
        transaction: _Transaction,
        half: RecordView,
        offset: int,
        decision: Decision,
        end: int,
    ) -> None:
        """Note how a transaction ended whose last half is known to be at ``offset``."""
        self._ended[transaction] = decision
        if len(self._ended) > _ENDED_MAX:
            self._ended.popitem(last=False)
        if decision is Decision.ROLLBACK:  # its op message is written
            self._mark(offset, end)
        # It may have been copied since.
        for one in (offset, self._copies.pop(transaction, offset), half.queue_offset):
            self._finish(one, end)

    def _find(self, half: RecordView, transaction: _Transaction) -> Decision | int:
        """Return how a transaction ended, or the offset of the half that waits for its end."""
        known = self._ended.get(transaction)
        if known is not None:
            return known
        copy = self._copies.get(transaction)
        if copy is not None:
            return copy
        if self._is_first(half) and not self.is_done(half.queue_offset):
            return half.queue_offset
        return self._search(half, transaction)

    def _search(self, half: RecordView, transaction: _Transaction) -> Decision | int:
        """Return the same by what the log has, which takes a few reads."""
        copies = (half, *self._alike(half, HALF_TOPIC))
        last = max(copies, key=lambda one: one.queue_offset)
        if self._is_committed(half):
            self._settle(transaction, half, last.queue_offset, Decision.COMMIT, 0)
            return Decision.COMMIT
        if not self.is_done(last.queue_offset):
            return last.queue_offset
        if not self._store.settings.index_enabled:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "Find prepared transaction message failed: it ended, or a check has copied it, "
                "which can't be known with messageIndexEnable=false; the next check decides",
            )
        # One that was checked too often is not decided: its producer may still commit it.
        if self._later(last, CHECKED_TOO_OFTEN_TOPIC):
            return last.queue_offset
        return Decision.ROLLBACK

    def _is_first(self, half: RecordView) -> bool:
        """Return whether a half is of this run, and no copy."""
        text = half.properties
        return (
            half.commit_log_offset >= self._own_from
            and _check_times(text) is None
            and _first_offset(text) is None
        )

    def _is_committed(self, half: RecordView) -> bool:
        """Return whether the log has the delivered message of a transaction."""
        topic = (_real_topic(half.properties) or b"").decode(errors="replace")
        return any(
            flags.transaction_state(one.sys_flag) == flags.TRANSACTION_COMMIT
            for name in (topic, SCHEDULE_TOPIC, TIMER_TOPIC)
            for one in self._alike(half, name)
        )

    def _later(self, half: RecordView, topic: str) -> bool:
        """Return whether a topic has a later record of a transaction."""
        here = half.commit_log_offset
        return any(one.commit_log_offset > here for one in self._alike(half, topic))

    def _alike(self, half: RecordView, topic: str) -> Iterator[RecordView]:
        """Yield the records of a topic that are of the same transaction, newest first."""
        key = _unique_key(half.properties)
        if key is None or not topic or not self._store.settings.index_enabled:
            return
        raw, wanted = topic.encode(), _transaction_of(half)
        # Copies have the time of birth of the first. The index has whole seconds.
        since_ms = min(half.born_timestamp_ms, half.store_timestamp_ms) - 1_000
        for offset in self._store.index.query(
            topic, key.decode(errors="replace"), _COPIES_MAX, since_ms, _END_OF_TIME
        ):
            record = self._store.record(offset)
            if record is not None and record.topic == raw and _transaction_of(record) == wanted:
                yield record

    def _count_end(self, half: RecordView) -> None:
        self._counts.add((_real_topic(half.properties) or b"").decode(errors="replace"), -1)

    # Offsets

    def _finish(self, offset: int, end: int) -> None:
        """Name a half in an op message: Java's broker, or the next start, must not check it."""
        if not self.is_done(offset):
            self._ops.add(offset)
            self._mark(offset, end)

    def _retire(self, offset: int, end: int) -> None:
        """Note that a half is done with, by the offset alone unless another one is before it."""
        if not self.is_done(offset):
            self._mark(offset, end)
            if offset in self._done:
                self._ops.add(offset)

    def _mark(self, offset: int, end: int) -> None:
        if not self.is_done(offset):
            self._done[offset] = end
            self._advance()

    def _advance(self) -> None:
        end, before = 0, self.offset
        while (left := self._done.pop(self.offset, None)) is not None:
            self.offset += 1
            end = max(end, left)
        if self.offset > before:
            self._unflushed.append((self.offset, end))

    def _pass_expired(self) -> None:
        """Pass halves whose files have expired."""
        queue = self.queue
        if queue is None or self.offset >= queue.min_offset:
            return
        first = queue.min_offset
        log.error("half messages %d to %d have expired undecided", self.offset, first - 1)
        self.offset = first
        self._done = {offset: end for offset, end in self._done.items() if offset >= first}
        self._unflushed.append((first, 0))
        self._advance()

    def _save_flushed(self) -> None:
        lasting, moved = self._store.lasting_end, None
        while self._unflushed and self._unflushed[0][1] <= lasting:
            moved = self._unflushed.popleft()[0]
        if moved is not None:
            self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, moved)
            op_offset = self._ops.offset_before(moved)
            if op_offset != self._saved(OP_HALF_TOPIC):
                self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, op_offset)

    def _saved(self, topic: str) -> int | None:
        saved = self._offsets.query(TRANSACTION_GROUP, topic, 0)
        return None if saved == NO_OFFSET else saved


def copy_of(record: RecordView, topic: str, found: dict[str, str]) -> Incoming:
    """Return a message for queue 0 of a topic that has the content of a record."""
    found.pop(properties.CRC32, None)  # the checksum of the record that was read
    return Incoming(
        topic=topic,
        queue_id=0,
        body=record.body,
        properties=properties.join(found),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
    )


def _check_light_queues(names: str) -> None:
    try:
        light_queues_of(names)
    except LocalProtocolError as error:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}") from error


def _transaction_of(record: RecordView) -> _Transaction:
    """Return what a half, its copies and the delivered message have in common."""
    key = _unique_key(record.properties) or b""
    if len(key) > _KEY_MAX:
        key = sha256(key).digest()
    return key, record.born_timestamp_ms
