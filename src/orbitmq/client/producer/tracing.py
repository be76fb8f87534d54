"""The traces of a running producer, sent through its client but separately from its messages.

Trace messages have their own in-flight limit, timeouts and statistics, and call no hooks.
"""

from typing import Final

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import Hooks
from orbitmq.client.observe.trace_reports import (
    DEFAULT_REGION,
    TraceHook,
    TraceReporter,
    bare_name,
    joined_keys,
)
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.producer.transactions import TransactionEnd
from orbitmq.client.settings import ProducerSettings
from orbitmq.message import trace
from orbitmq.message.model import Message
from orbitmq.message.names import GROUP_LENGTH_LIMIT
from orbitmq.message.trace import MessageKind

__all__ = ["Tracing", "transaction_record"]

_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"  # Java's (TraceConstants)
_SEND_TIMEOUT_MS: Final = 5_000  # Java's (AsyncTraceDispatcher)


class Tracing:
    """Traces one producer, which adds ``hook``; belongs to its loop."""

    def __init__(self, core: ClientCore, settings: ProducerSettings) -> None:
        self._clock = core.machine.clock
        self._group = settings.group
        own = ProducerSettings(
            f"{_GROUP_PREFIX}-{settings.group}-PRODUCE"[:GROUP_LENGTH_LIMIT],
            send_timeout_ms=_SEND_TIMEOUT_MS,
            create_topic_key=settings.create_topic_key,
            compression_type=settings.compression_type,
        )
        self._sender = Sender(core, own, Hooks())
        self.tracer = TraceReporter(
            self._send,
            topic=settings.trace_topic,
            channel=core.settings.access_channel,
            batch_max=settings.trace_batch_max,
            queue_max=settings.trace_queue_max,
        )
        self.hook = TraceHook(self.tracer)

    def __repr__(self) -> str:
        return f"<Tracing of {self._group}, {self.tracer!r}>"

    def note_end(self, end: TransactionEnd) -> None:
        """Report a decision about a transaction."""
        record = transaction_record(end, group=self._group, now_ms=self._clock.now_ms())
        self.tracer.add(end.topic, end.region, record)

    async def close(self, timeout_ms: int) -> None:
        """Send waiting reports, up to the timeout."""
        await self.tracer.close(timeout_ms)
        await self._sender.close(0)

    async def _send(self, message: Message) -> None:
        await self._sender.send(message, SendOptions())


def transaction_record(end: TransactionEnd, *, group: str, now_ms: int) -> trace.EndTransaction:
    """Return the report on a decision of the sender, or of a check."""
    return trace.EndTransaction(
        timestamp_ms=now_ms,
        region=end.region or DEFAULT_REGION,
        group=bare_name(group),
        topic=bare_name(end.topic),
        message_id=end.message_id,
        tags=end.tags,
        keys=joined_keys(end.keys),
        store_host=end.broker_address,
        kind=MessageKind.COMMITTED,  # Java writes it for a rollback too
        transaction_id=end.transaction_id,
        transaction_state=end.state.value,
        from_check=end.from_check,
    )
