"""Plain sends, a turn of the loop at a time: one future for each send, and nothing else of its own.

::

    begin ──▶ entry of its connection's line ── the turn ends, or a line is long ──▶ PlainBurst
      │                                                                                  │
      │          SendReceipt ◀── the broker says "stored": all answers of a read ────────┤
      │          PendingSend ◀── any other answer, a timeout, a closed connection ───────┘
      └─ not plain ─▶ PendingSend

The future of a send gives its receipt, or a ``PendingSend`` with which ``Sender.finish`` goes on:
retries, errors and statistics of failures have their rules there. A plain send has its permit until
one of the two is known; then the ``PendingSend`` has it.

Plain are messages with tag, keys and user's properties, without options of the call, over a
connection that is open. A line is written before the turn ends once it has 16 requests and is a
quarter of all in flight on its connection: client and broker work at the same time then.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from orbitmq.client.observe.hooks import Hooks
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.producer.sending.attempts import PendingSend
from orbitmq.client.producer.sending.back_pressure import Permits
from orbitmq.client.producer.sending.packing import (
    PLAIN_CODE,
    Packer,
    further_text,
    is_special,
)
from orbitmq.client.producer.sending.receipts import receipt_of
from orbitmq.client.producer.sending.targets import QueueTarget, TopicTargets
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message, SendReceipt, SendStatus
from orbitmq.net.connection import Connection
from orbitmq.wire.burst import Burst
from orbitmq.wire.frame import Buffer, Frame, pack_lead
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.send_template import inside_json

__all__ = ["EndWaiter", "Ended", "PlainLimits", "PlainSends"]

Ended: TypeAlias = SendReceipt | PendingSend
"""How a plain send ends: with its receipt, or with what ``Sender.finish`` goes on with."""


class EndWaiter(Protocol):
    """Waits for the end of a plain send, such as a future."""

    def done(self) -> bool:
        """Return whether the caller was cancelled, and has called ``PlainSends.abandon``."""
        ...

    def set_result(self, ended: Ended, /) -> None:
        """Take the end of the send."""
        ...


Entry: TypeAlias = tuple[EndWaiter, Message, QueueTarget, bytes, bytes]
"""A send: what waits for it, message and queue, the form of its header, further properties."""

_EARLY: Final = 16
"""Requests that are worth a write before the turn ends, if they are one of ``_SHARES`` parts of all
in flight: with fewer the broker would be done with them too soon, and wait."""
_SHARES: Final = 4
_TURN_S: Final = 0.01
"""Sends that begin later than this after the first of their line have a deadline of their own."""
_FURTHER_MAX: Final = 4_096
"""Bytes of keys and properties that need no check against the limit of all properties."""
_WORD_MAX: Final = 1_024
"""Characters of a tag or of a given message id, likewise."""
_FORMS_MAX: Final = 1_024
"""Tags of one queue whose forms are kept; a program has few."""


class PlainLimits(NamedTuple):
    """What holds for all plain sends of a producer."""

    size_max: int
    """The largest body; -1: no send is plain."""
    timeout_ms: int
    """The time of a send."""
    first_try_ms: int
    """The time of its first attempt."""


class PlainSends:
    """The plain sends of one producer; belongs to its loop.

    ``careful`` begins a send that is not plain, perhaps with the queue whose turn it is.
    """

    def __init__(
        self,
        targets: TopicTargets,
        packer: Packer,
        permits: Permits,
        statistics: SendStatistics,
        hooks: Hooks,
        now_ms: Callable[[], int],
        limits: PlainLimits,
        careful: Callable[[Message, QueueTarget | None], PendingSend],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.packer = packer
        self.permits = permits
        self.statistics = statistics
        self.limits = limits
        self.now_ms = now_ms
        self.time = loop.time
        self.create_future = loop.create_future
        self._size_max = limits.size_max
        self._call_soon = loop.call_soon
        self._ready = targets.ready
        self._hooks = hooks
        self._careful = careful
        self._lines: dict[Connection, _Line] = {}

    def __repr__(self) -> str:
        return f"<PlainSends over {len(self._lines)} connections>"

    def begin(self, message: Message, waiter: EndWaiter) -> PendingSend | None:
        """Begin a send, whose request is written before the next turn of the loop.

        Return it if it is not plain. Raise as ``Sender.begin`` does.
        """
        size = len(message.body)
        if (
            size > self._size_max
            or self._hooks.are_set
            or not message.wait_stored
            or is_special(message)
            or (topic_target := self._ready(message.topic)) is None
        ):
            return self._careful(message, None)
        target = topic_target.in_turn()
        further = b""
        if message.keys or message.properties:
            further = inside_json(further_text(message))
        connection = target.connection
        if (
            connection is None
            or not connection.is_open
            or len(further) > _FURTHER_MAX
            or (message.message_id is not None and len(message.message_id) > _WORD_MAX)
            or not (form := target.forms.get(message.tags) or self._new_form(target, message))
            or not self.permits.take(size)
        ):
            return self._careful(message, target)
        line = self._lines.get(connection) or self._new_line(connection)
        line.add((waiter, message, target, form, further), self.time())
        return None

    def abandon(self, begun: asyncio.Future[Ended], message: Message, error: BaseException) -> None:
        """End a send whose caller was cancelled; its request may be in flight."""
        size = len(message.body)
        if not begun.cancelled():
            ended = begun.result()
            if isinstance(ended, SendReceipt):
                return  # it has been counted
            if ended.answer is not None and ended.answer.done() and not ended.answer.cancelled():
                ended.answer.exception()  # retrieved
        self.permits.give_back(size)
        self.statistics.failed_with(error)

    def _new_form(self, target: QueueTarget, message: Message) -> bytes:
        """Return the form of all plain requests to a queue with the tag of a message."""
        connection, tags = target.connection, message.tags
        if connection is None or connection.form is None or len(tags or "") > _WORD_MAX:
            return b""
        model = Message(message.topic, b"-", tags=tags)
        fields = target.headers.plain_form(self.packer.properties_text(model, "ID"))
        if len(target.forms) >= _FORMS_MAX:
            target.forms.clear()
        form = target.forms[tags] = connection.form.of(PLAIN_CODE, fields)
        return form

    def _new_line(self, connection: Connection) -> "_Line":
        # Not by when_closed: connections are shared, and would keep each producer that used them.
        self._lines = {one: line for one, line in self._lines.items() if one.is_open}
        line = self._lines[connection] = _Line(self, connection, self._call_soon)
        return line


class _Line:
    """The sends over one connection that have not been written."""

    __slots__ = ("_began", "_call_soon", "_connection", "_entries", "_is_due", "_sends")

    def __init__(
        self,
        sends: PlainSends,
        connection: Connection,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._sends = sends
        self._connection = connection
        self._call_soon = call_soon
        self._entries: list[Entry | None] = []
        self._began = 0.0
        self._is_due = False

    def add(self, entry: Entry, now: float) -> None:
        entries = self._entries
        if entries and now - self._began > _TURN_S:  # the loop was blocked since
            self._flush()
            entries = self._entries
        if not entries:
            self._began = now
            if not self._is_due:
                self._is_due = True
                self._call_soon(self._end_turn)
        entries.append(entry)
        count = len(entries)
        if not count % _EARLY and _SHARES * count >= count + self._connection.in_flight:
            self._flush()

    def _end_turn(self) -> None:
        self._is_due = False
        if self._entries:
            self._flush()

    def _flush(self) -> None:
        entries, self._entries = self._entries, []
        burst = PlainBurst(self._sends, entries)
        timeout = self._sends.limits.first_try_ms / 1_000
        try:
            self._connection.start_burst(burst, now=self._began, timeout=timeout)
        except OrbitError as error:
            burst.sent = self._began
            for position in range(len(entries)):
                waiter = burst.waiter(position)
                if not waiter.done():
                    waiter.set_exception(error)


class PlainBurst(Burst[asyncio.Future[Frame]]):
    """Plain sends that were written together."""

    __slots__ = ("_entries", "_ids", "_sends")

    def __init__(self, sends: PlainSends, entries: list[Entry | None]) -> None:
        super().__init__(PLAIN_CODE, len(entries))
        self._sends = sends
        self._entries = entries
        self._ids: list[str] = []

    def frames(self) -> list[Buffer]:
        """Return the requests."""
        sends, number = self._sends, self.first
        born_ms = sends.now_ms()
        self._ids = ids = sends.packer.new_ids(self.count, born_ms)
        frames: list[Buffer] = []
        append = frames.append
        for position, entry in enumerate(self._entries):
            assert entry is not None
            _, message, _, form, further = entry
            if message.message_id is None:
                send_id = ids[position].encode()
            else:
                ids[position] = message.message_id
                send_id = inside_json(message.message_id)
            header = form % (number + position, born_ms, message.flag, send_id, further)
            size, body = len(header), message.body
            append(pack_lead(4 + size + len(body), size) + header)
            append(body)
        return frames

    def settle(self, positions: Sequence[int], answers: Sequence[SendMessageAnswer]) -> None:
        """Give receipts to the callers of sends, and give back their permits."""
        entries, ids = self._entries, self._ids
        count = size = 0
        for position, header in zip(positions, answers, strict=True):
            entry = entries[position]
            assert entry is not None
            entries[position] = None
            waiter, message, target, _, _ = entry
            if waiter.done():
                continue
            waiter.set_result(receipt_of(header, ids[position], target.queue))
            count += 1
            size += len(message.body)
        sends, now = self._sends, self._sends.time()
        took_ms = int((now - self.sent) * 1_000)
        sends.statistics.stored(SendStatus.SEND_OK, took_ms, int(now * 1_000), count, count)
        sends.permits.give_back(size, count)

    def waiter(self, position: int) -> asyncio.Future[Frame]:
        """Return the future of the answer to a send that goes on with ``Sender.finish``."""
        entry, self._entries[position] = self._entries[position], None
        assert entry is not None
        waiter, message, target, _, _ = entry
        sends = self._sends
        answer: asyncio.Future[Frame] = sends.create_future()
        if waiter.done():
            answer.cancel()
            return answer
        send_id = self._ids[position] if self._ids else ""
        prepared = sends.packer.pack_plain(message, sends.now_ms(), send_id)
        send = PendingSend(prepared, self.sent, sends.limits.timeout_ms)
        send.queue_target, send.answer, send.permit_bytes = target, answer, len(message.body)
        waiter.set_result(send)
        return answer
