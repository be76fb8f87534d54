"""Repeated sends: a client that gets no answer sends a message again, with the same unique id.

With ``sendDeduplicationEnable`` the broker knows where in the log it stored recent ids, and answers
a repeat with the first receipt::

    id, topic ──┬─ unknown ───────────────────────────────────────▶ stored, and remembered
                ├─ in the inbox, or waiting for the disk ─────────▶ asked again after its outcome
                └─ stored ─┬─ same body, still in its queue ──────▶ answered with the first receipt
                           └─ another body, or deleted since ─────▶ stored, and remembered

Laws:

- An id counts for its topic, whatever the queue: a client may choose another queue for a retry.
- Only sends of clients are compared. Copies of a message with the same id (those delivered after a
  delay, committed, or sent back to a retry topic) never go through here.
- A message of a batch counts by its own id. If a crash cut a batch, only its rest is stored.
- Two generations of ids are kept. The younger takes up to ``sendDeduplicationMaxNum`` ids, or those
  of ``sendDeduplicationTimeMills``; then it replaces the older one.
- Nothing is written: a start reads the ids from the records at the end of the log.
"""

import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from orbitmq.broker.durability import Durability, with_status
from orbitmq.broker.sending import fast_fail
from orbitmq.broker.sending.inbox import Inbox, OnStored, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import CorruptRecord
from orbitmq.message import batch, flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import unpack

__all__ = ["Answer", "Deduplication", "FirstReceipt"]

log = logging.getLogger("orbitmq.broker")

Answer: TypeAlias = Callable[[int, PutOutcome], None]
"""Answers a send, given the queue that the message is in and the outcome."""

_ENTRIES_AT_ONCE: Final = 256
_NAME_MAX: Final = 256
"""Characters of a name in memory; the id that a client sends may have thirty thousand."""
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_real_topic = properties.finder(properties.REAL_TOPIC.encode())
_real_queue_id = properties.finder(properties.REAL_QUEUE_ID.encode())
_timer_out = properties.finder(properties.TIMER_OUT_MS.encode())
_recalled_key = properties.finder(properties.TIMER_DELETE_UNIQUE_KEY.encode())


class FirstReceipt(PutResult, kw_only=True, gc=False):
    """The outcome of a repeated send: where the first one was stored."""

    properties: bytes
    """Those of the first record."""


class _Send(NamedTuple):
    message: Incoming
    topic: str  # that the client sent to; the message may be stored in another
    unique_key: str | None
    queue_id: int
    answer: Answer


class Deduplication:
    """Puts sends into the ``inbox``, but for those that the log already has."""

    def __init__(
        self,
        *,
        inbox: Inbox,
        store: MessageStore,
        settings: LiveSettings,
        durability: Durability,
    ) -> None:
        self.inbox = inbox
        self._durability = durability
        self._store = store
        self._settings = settings
        # Names are topic and id. They lead to log offsets; those without a result, to repeats.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._young_since_ms = 0
        self._pending: dict[str, tuple[_Send, ...]] = {}
        self._waiting = 0  # repeats of pending sends
        self._waiting_bytes = 0

    def __repr__(self) -> str:
        return f"<Deduplication {len(self)} ids, {self._waiting} repeats waiting>"

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def put(
        self,
        message: Incoming,
        topic: str,
        unique_key: str | None,
        queue_id: int,
        answer: Answer,
    ) -> None:
        """Store a message that was sent to ``topic``, unless it is stored; ``answer`` its send.

        Only a batch may have no unique key. Raise Refusal, without an answer, if too many sends
        wait.
        """
        if message.is_batch:
            self._put_batch(_Send(message, topic, unique_key, queue_id, answer))
        elif topic[0] == "%":  # consumers resend a message there each time they can't consume it
            self.inbox.put(message, partial(answer, queue_id))
        else:
            name = _name(topic, unique_key)
            if name in self._pending:
                self._wait(name, _Send(message, topic, unique_key, queue_id, answer))
            elif (first := self._first(name, message.body)) is not None:
                self._answer_again([first], topic, message, answer)
            else:
                self._put_new(message, (name,), partial(answer, queue_id))

    def forget(self) -> None:
        """Forget all ids; sends in the inbox are answered as usual."""
        self._young, self._old = {}, {}

    def load(self) -> None:
        """Read the ids from the end of the log, on any thread, before the first ``put``.

        It reads at most ``sendDeduplicationMaxNum`` records. Those of the last
        ``sendDeduplicationTimeMills`` before the log's end count, however long the broker was down.
        """
        settings = self._settings.broker
        found: list[tuple[str, int, int]] = []
        newest_ms = 0
        for offset in islice(self._newest_first(), settings.send_deduplication_max_num):
            view = self._store.record(offset)
            if view is None:
                continue
            record = view.filed()
            stored_ms = record.store_timestamp_ms
            newest_ms = newest_ms or stored_ms
            if stored_ms < newest_ms - settings.send_deduplication_time_mills:
                break
            if (name := _sent_name(record)) is not None:
                found.append((name, offset, stored_ms))
        for name, offset, stored_ms in reversed(found):
            self._remember(name, offset, stored_ms)
        log.info("%d ids of sends were read from the log, to recognize repeats", len(found))

    # Inside

    def _put_batch(self, send: _Send) -> None:
        message, answer = send.message, partial(send.answer, send.queue_id)
        try:
            parts = list(batch.split(message.body))
        except CorruptRecord:  # which the store refuses, with the reason
            self.inbox.put(message, answer)
            return
        names = [_name_of(send.topic, bytes(part.properties)) for part in parts]
        firsts: list[RecordView | None] = []
        for name, part in zip(names, parts, strict=True):
            if name is not None and name in self._pending:
                self._wait(name, send)
                return
            firsts.append(None if name is None else self._first(name, part.body))
        known = [first for first in firsts if first is not None]
        if not known:
            self._put_new(message, names, answer)
        elif len(known) == len(parts):
            self._answer_again(known, send.topic, message, send.answer)
        else:
            missing = [index for index, first in enumerate(firsts) if first is None]
            rest = replace(message, body=batch.encode(parts[index] for index in missing))
            on_stored = partial(_answer_cut_batch, firsts, answer)
            self._put_new(rest, [names[index] for index in missing], on_stored)

    def _put_new(self, message: Incoming, names: Sequence[str | None], on_stored: OnStored) -> None:
        self.inbox.put(message, partial(self._stored, names, on_stored))
        for name in names:
            if name is not None:
                self._pending[name] = ()

    def _stored(
        self, names: Sequence[str | None], on_stored: OnStored, outcome: PutOutcome
    ) -> None:
        repeats: tuple[_Send, ...] = ()
        for index, name in enumerate(names):
            if name is not None:
                repeats += self._pending.pop(name, ())  # a batch can have an id twice
                if isinstance(outcome, PutResult) and outcome.offsets:
                    self._remember(name, outcome.offsets[index], outcome.store_timestamp_ms)
        try:
            on_stored(outcome)
        finally:
            for repeat in repeats:
                self._again(repeat)

    def _remember(self, name: str, offset: int, now_ms: int) -> None:
        settings = self._settings.broker
        if (
            len(self._young) >= settings.send_deduplication_max_num
            or now_ms - self._young_since_ms > settings.send_deduplication_time_mills
        ):
            self._old, self._young = self._young, {}
            self._young_since_ms = now_ms
        self._young[name] = offset

    # Repeats

    def _wait(self, name: str, send: _Send) -> None:
        """Put a message again when the one with its name has an outcome."""
        refusal = fast_fail.queue_full(
            self._waiting,
            self._waiting_bytes,
            capacity=self._settings.broker.send_thread_pool_queue_capacity,
            oldest_ms=self.inbox.head_wait_ms,
        )
        if refusal is not None:
            raise refusal
        self._pending[name] += (send,)
        self._waiting += 1
        self._waiting_bytes += len(send.message.body)

    def _again(self, send: _Send) -> None:
        self._waiting -= 1
        self._waiting_bytes -= len(send.message.body)
        try:
            self.put(*send)
        except Refusal as refusal:
            send.answer(send.queue_id, refusal)

    def _first(self, name: str, body: Buffer) -> RecordView | None:
        """Return the record of the first send; None if this one is another, or the first is gone.

        A client can use a message object twice, with another body; and the topic may be deleted.
        """
        offset = self._young.get(name)
        if offset is None:
            offset = self._old.get(name)
        record = None if offset is None else self._store.record(offset)
        if record is None or record.body != body or not self._store.is_filed(record):
            return None
        return record

    def _answer_again(
        self, records: Sequence[RecordView], topic: str, message: Incoming, answer: Answer
    ) -> None:
        """Answer with the first receipt, after the disk has the records if that is asked for."""
        result = _receipt(records)
        queue_id = _queue_of(records[0], topic)
        log.debug("a send to %s repeats the one at log offset %d", topic, result.offsets[0])
        if message.wait and self._durability.waits:
            settled = partial(_answer_settled, result, partial(answer, queue_id))
            self._durability.wait_for(result.end, settled)
        else:
            answer(queue_id, result)

    def _newest_first(self) -> Iterator[int]:
        """Return the log offsets of all messages but consumers' retries and batch queues."""
        queues = [
            queue
            for queue in self._store.queues
            if isinstance(queue, ConsumeQueue) and queue.topic[0] != "%"
        ]
        return heapq.merge(*map(_offsets_backwards, queues), reverse=True)


def _offsets_backwards(queue: ConsumeQueue) -> Iterator[int]:
    end = queue.max_offset
    while end > queue.min_offset:
        start = max(queue.min_offset, end - _ENTRIES_AT_ONCE)
        while (next_file := queue.next_file_offset(start)) < end:
            start = next_file
        entries = list(unpack(queue.entries(start, end - start)))
        yield from (entry.commit_log_offset for entry in reversed(entries))
        end = start


def _name_of(topic: str, text: bytes) -> str | None:
    """Return the name of a message, given the text of its properties; None without an id."""
    key = _unique_key(text)
    return None if key is None else _name(topic, key.decode(errors="replace"))


def _name(topic: str, unique_key: str | None) -> str:
    name = f"{topic} {unique_key}"
    return name if len(name) <= _NAME_MAX else sha256(name.encode(errors="replace")).hexdigest()


def _sent_name(record: Filed) -> str | None:
    """Return the name of the send that made a record; None for one that the broker made.

    That is a copy, or a recall, which has the unique key of the recalled message.
    """
    text, topic = record.properties, record.topic
    sent_to = _real_topic(text)
    is_own = (
        sent_to == topic
        or flags.transaction_state(record.sys_flag) == flags.TRANSACTION_COMMIT
        or (sent_to is None and _timer_out(text) is not None)
        or _recalled_key(text) is not None
    )
    sent_to = sent_to or topic
    if is_own or sent_to[:1] == b"%":
        return None
    return _name_of(sent_to.decode(errors="replace"), text)


def _queue_of(record: RecordView, topic: str) -> int:
    """Return the queue that a message was sent to; it may wait in a system topic."""
    asked = _real_queue_id(record.properties)
    if asked is not None and asked.isdigit() and record.topic != topic.encode():
        return int(asked)
    return record.queue_id


def _receipt(records: Sequence[RecordView]) -> FirstReceipt:
    first, last = records[0], records[-1]
    return FirstReceipt(
        status=PutStatus.PUT_OK,
        queue_offset=first.queue_offset,
        offsets=tuple(record.commit_log_offset for record in records),
        end=last.commit_log_offset + len(last.raw),
        store_timestamp_ms=first.store_timestamp_ms,
        properties=bytes(first.properties),
    )


def _answer_settled(result: PutResult, answer: OnStored, status: PutStatus) -> None:
    answer(with_status(result, status))


def _answer_cut_batch(
    firsts: Sequence[RecordView | None], answer: OnStored, outcome: PutOutcome
) -> None:
    """Answer a batch of which a part was stored before, in the order of its messages."""
    if isinstance(outcome, PutResult) and outcome.offsets:
        rest = iter(outcome.offsets)
        offsets = tuple(next(rest) if one is None else one.commit_log_offset for one in firsts)
        head = outcome if firsts[0] is None else firsts[0]
        outcome = replace(outcome, offsets=offsets, queue_offset=head.queue_offset)
    answer(outcome)
