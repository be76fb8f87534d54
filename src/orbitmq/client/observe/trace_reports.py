"""Message traces: sends and deliveries, reported to a topic that Java's tools read too.

::

    hook ─▶ add(record) ─▶ queue (bounded) ── ten wait, or 5 s passed ──▶ trace message

``add`` only appends to a queue in memory; background tasks group, encode and send the reports. An
error there is counted and logged once, and never affects a send or a delivery.

Reports use the connections of the client, with its TLS, signatures, namespaces and address map;
Java's ``AsyncTraceDispatcher`` creates a second client.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.client.settings import AccessChannel
from orbitmq.errors import OrbitError
from orbitmq.message import names, properties, trace
from orbitmq.message.model import Message, SendReceipt, SendStatus
from orbitmq.message.trace import TraceRecord

__all__ = ["DEFAULT_REGION", "TraceHook", "TraceReporter", "bare_name", "joined_keys"]

log = logging.getLogger("orbitmq.client")

BATCH_MAX: Final = 10
QUEUE_MAX: Final = 2_048
FLUSH_MS: Final = 5_000
BODY_BYTES_MAX: Final = 128_000
"""All four are Java's (``ClientConfig.traceMsgBatchNum``, ``AsyncTraceDispatcher``)."""
SENDS_MAX: Final = 4
"""Trace messages in flight; Java has up to four threads for them."""
KEYS_BYTES_MAX: Final = 16 * 1024
"""The most bytes of keys in a trace message; all its properties may take 32 KiB."""
DEFAULT_REGION: Final = "DefaultRegion"

SendTrace = Callable[[Message], Awaitable[object]]
"""Sends a trace message without tracing it; may raise any error of a send."""


class _Report(NamedTuple):
    topic: str
    """The topic of the traced message; reports of one topic share trace messages."""
    region: str
    record: TraceRecord


class TraceReporter:
    """Collects reports, and sends them in the background. Belongs to one loop.

    On the CLOUD channel the broker's region is part of the trace topic's name, on LOCAL it is
    ``topic``. A report waits up to ``flush_ms`` for others; reports beyond ``queue_max`` are
    dropped. ``sent``, ``dropped`` and ``failed`` count reports.
    """

    def __init__(
        self,
        send: SendTrace,
        *,
        topic: str = names.TRACE_TOPIC,
        channel: AccessChannel = AccessChannel.LOCAL,
        batch_max: int = BATCH_MAX,
        queue_max: int = QUEUE_MAX,
        flush_ms: int = FLUSH_MS,
    ) -> None:
        self._send = send
        self._topic = topic
        self.channel = channel
        self._batch_max = batch_max
        self._queue_max = queue_max
        self._flush_s = flush_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Report] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._warned: set[str] = set()
        self.sent = 0
        self.dropped = 0
        self.failed = 0

    def __repr__(self) -> str:
        return (
            f"<TraceReporter {len(self._queue)} waiting, {self.sent} sent, {self.dropped} dropped, "
            f"{self.failed} failed>"
        )

    def traces(self, topic: str) -> bool:
        """Return whether messages of a topic are traced: all except trace messages."""
        return not topic.startswith((self._topic, names.CLOUD_TRACE_TOPIC_PREFIX))

    def add(self, topic: str, region: str | None, record: TraceRecord) -> None:
        """Add a report on a message of ``topic``; it is dropped if the queue is full."""
        if self._closed or len(self._queue) >= self._queue_max:
            self.dropped += 1
            self._warn_once(
                "full",
                "%d trace reports are waiting, the limit (trace_queue_max); more are dropped",
                self._queue_max,
            )
            return
        self._queue.append(_Report(topic, region or DEFAULT_REGION, record))
        if len(self._queue) >= self._batch_max:
            self._start()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._flush_s, self._flush)

    async def close(self, timeout_ms: int) -> None:
        """Send waiting reports, up to the timeout; those left are counted as failed."""
        self._closed = True
        self._flush()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._tasks:
                    await asyncio.wait(self._tasks)
                    self._flush()
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._queue:
            self._fail(len(self._queue), "the client was closed before they could be sent")
            self._queue.clear()

    def _flush(self) -> None:
        """Send waiting reports even if they don't fill a batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            self._start()

    def _start(self) -> None:
        if len(self._tasks) < SENDS_MAX:
            batch = [self._queue.popleft() for _ in range(min(self._batch_max, len(self._queue)))]
            task = self._loop.create_task(self._run(batch), name="trace")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, batch: list[_Report]) -> None:
        """Send a batch, then further ones while the queue has a full batch."""
        while batch:
            try:
                made = list(_messages(batch, self._trace_topic))
            except OrbitError as error:  # such as a region that is invalid in a topic name
                self._fail(len(batch), str(error))
                made = []
            for message, count in made:
                await self._send_one(message, count)
            full = len(self._queue) >= self._batch_max
            batch = [self._queue.popleft() for _ in range(self._batch_max if full else 0)]
        if self._queue and self._timer is None:
            self._timer = self._loop.call_later(self._flush_s, self._flush)

    async def _send_one(self, message: Message, count: int) -> None:
        try:
            await self._send(message)
        except asyncio.CancelledError:
            self._fail(count, "cancelled")
            raise
        except OrbitError as error:
            self._fail(count, str(error))
        except Exception as error:  # a bug of ours must not stop the traces of a whole process
            log.exception("a trace message can't be sent")
            self._fail(count, repr(error))
        else:
            self.sent += count

    def _trace_topic(self, report: _Report) -> str:
        if self.channel is AccessChannel.CLOUD:
            return names.CLOUD_TRACE_TOPIC_PREFIX + report.region
        return self._topic

    def _fail(self, count: int, why: str) -> None:
        self.failed += count
        self._warn_once("failed", "trace reports are lost (messages are not affected): %s", why)

    def _warn_once(self, about: str, text: str, *values: object) -> None:
        if about not in self._warned:
            self._warned.add(about)
            log.warning(text, *values)


def _messages(
    reports: Iterable[_Report], trace_topic: Callable[[_Report], str]
) -> Iterator[tuple[Message, int]]:
    """Yield trace messages with their number of reports; each is about one topic, as in Java."""

    def together(report: _Report) -> tuple[str, str]:
        return trace_topic(report), report.topic

    for (topic, _), group in groupby(sorted(reports, key=together), key=together):
        for records in _split([report.record for report in group]):
            body = b"".join(raw for _, raw in records)
            keys = _keys([record for record, _ in records])
            yield Message(topic, body, keys=keys), len(records)


def _split(records: Iterable[TraceRecord]) -> Iterator[list[tuple[TraceRecord, bytes]]]:
    """Yield the records, encoded, in lists that fit a trace message."""
    run: list[tuple[TraceRecord, bytes]] = []
    size = 0
    for record in records:
        raw = trace.encode([record])
        if run and size + len(raw) > BODY_BYTES_MAX:
            yield run
            run, size = [], 0
        run.append((record, raw))
        size += len(raw)
    if run:
        yield run


def _keys(records: list[TraceRecord]) -> list[str]:
    """Return the keys of a trace message, ids first, as many as fit."""
    ids = dict.fromkeys(record.message_id for record in records)
    room = KEYS_BYTES_MAX
    keys = []
    for key in dict.fromkeys([*ids, *trace.index_keys(records)]):
        room -= len(key.encode()) + 1
        if room < 0:
            break
        keys.append(key)
    return keys


class TraceHook(SendHook):
    """Reports each send that a broker answered.

    A send without an answer is not reported, as in Java's ``SendMessageTraceHookImpl``, since its
    region is unknown. Neither is one to a broker that has traces switched off.
    """

    def __init__(self, reporter: TraceReporter) -> None:
        self._reporter = reporter

    def after(self, context: SendContext) -> None:
        """Report a send; each message of a batch separately, so that it is found by its id."""
        receipt = context.receipt
        topic = context.message.topic
        if receipt is None or not receipt.trace_on or not self._reporter.traces(topic):
            return
        ids = context.message_ids or (receipt.message_id,)
        offset_ids = receipt.offset_message_id.split(",")
        if len(offset_ids) != len(ids):  # a broker that stores a batch as one record returns one
            offset_ids = offset_ids[:1] * len(ids)
        for message, *both in zip(context.messages, ids, offset_ids, strict=True):
            record = _publish_record(context, receipt, message, *both)
            self._reporter.add(topic, receipt.region, record)


def _publish_record(
    context: SendContext,
    receipt: SendReceipt,
    message: Message,
    message_id: str,
    offset_message_id: str,
) -> trace.Publish:
    return trace.Publish(
        timestamp_ms=context.began_ms,
        region=receipt.region,
        group=bare_name(context.group),
        topic=bare_name(message.topic),
        message_id=message_id,
        tags=message.tags,
        keys=joined_keys(message.keys),
        store_host=context.broker_address,
        body_length=len(message.body),
        cost_ms=context.took_ms,
        kind=context.kind,
        offset_message_id=offset_message_id,
        success=receipt.status is SendStatus.SEND_OK,
    )


def bare_name(name: str) -> str:
    """Return a name without its namespace; Java leaves namespaces out of reports."""
    return names.strip_any_namespace(name) if "%" in name else name


def joined_keys(keys: Iterable[str]) -> str | None:
    """Return keys as one text; None if there are none."""
    return properties.KEY_SEPARATOR.join(keys) or None
