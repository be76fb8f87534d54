"""Trace messages of one producer or consumer, sent through its client but apart from its messages.

They have their own in-flight limit, timeouts and statistics, and call no hooks.
"""

from typing import Final, Literal

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import Hooks
from orbitmq.client.observe.trace_reports import TraceReporter
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.settings import ProducerSettings
from orbitmq.message.model import Message
from orbitmq.message.names import GROUP_LENGTH_LIMIT

__all__ = ["TraceSends"]

_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"  # Java's (TraceConstants)
_SEND_TIMEOUT_MS: Final = 5_000  # Java's (AsyncTraceDispatcher)


class TraceSends:
    """Sends what its ``reporter`` collects; belongs to one loop.

    ``traced`` has the group that is traced, and the settings of its traces.
    """

    def __init__(
        self, core: ClientCore, traced: ProducerSettings, role: Literal["PRODUCE", "CONSUME"]
    ) -> None:
        own = ProducerSettings(
            f"{_GROUP_PREFIX}-{traced.group}-{role}"[:GROUP_LENGTH_LIMIT],
            send_timeout_ms=_SEND_TIMEOUT_MS,
            create_topic_key=traced.create_topic_key,
            compression_type=traced.compression_type,
        )
        self._sender = Sender(core, own, Hooks())
        self.new_id = core.machine.unique_ids().next
        self.reporter = TraceReporter(
            self._send,
            topic=traced.trace_topic,
            channel=core.settings.access_channel,
            batch_max=traced.trace_batch_max,
            queue_max=traced.trace_queue_max,
        )

    def __repr__(self) -> str:
        return f"<TraceSends of {self._sender.settings.group}, {self.reporter!r}>"

    async def close(self, timeout_ms: int) -> None:
        """Send waiting reports, up to the timeout."""
        await self.reporter.close(timeout_ms)
        await self._sender.close(0)

    async def _send(self, message: Message) -> None:
        await self._sender.send(message, SendOptions())
