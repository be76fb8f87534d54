"""The traces of a running producer: its sends, and its decisions about transactions."""

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.trace_reports import (
    DEFAULT_REGION,
    TraceHook,
    bare_name,
    joined_keys,
)
from orbitmq.client.producer.sending.trace_sends import TraceSends
from orbitmq.client.producer.transactions import TransactionEnd
from orbitmq.client.settings import ProducerSettings
from orbitmq.message import trace
from orbitmq.message.trace import MessageKind

__all__ = ["Tracing", "transaction_record"]


class Tracing:
    """Traces one producer, which adds ``hook``; belongs to its loop."""

    def __init__(self, core: ClientCore, settings: ProducerSettings) -> None:
        self._clock = core.machine.clock
        self._group = settings.group
        self._sends = TraceSends(core, settings, "PRODUCE")
        self.tracer = self._sends.reporter
        self.hook = TraceHook(self.tracer)

    def __repr__(self) -> str:
        return f"<Tracing of {self._group}, {self.tracer!r}>"

    def note_end(self, end: TransactionEnd) -> None:
        """Report a decision about a transaction."""
        record = transaction_record(end, group=self._group, now_ms=self._clock.now_ms())
        self.tracer.add(end.topic, end.region, record)

    async def close(self, timeout_ms: int) -> None:
        """Send waiting reports, up to the timeout."""
        await self._sends.close(timeout_ms)


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
