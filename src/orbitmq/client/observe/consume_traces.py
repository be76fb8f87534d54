"""Message traces of a consumer: a report before each delivery, and one after it.

As Java's ``ConsumeMessageTraceHookImpl``: one pair of records per message; the pairs of messages
that are delivered together share a request id.
"""

from collections.abc import Callable, Mapping
from typing import Final

from orbitmq.client.observe.consume_hooks import ConsumeContext, ConsumeHook, DeliveryStatus
from orbitmq.client.observe.trace_reports import DEFAULT_REGION, TraceReporter, bare_name
from orbitmq.client.settings import AccessChannel
from orbitmq.message import properties
from orbitmq.message.model import StoredMessage
from orbitmq.message.trace import ConsumeOutcome, SubscribeAfter, SubscribeBefore

__all__ = ["ConsumeTraceHook"]

_NOTE: Final = "orbitmq.trace"
_OUTCOMES: Final[Mapping[DeliveryStatus, ConsumeOutcome]] = {
    "success": ConsumeOutcome.SUCCESS,
    "later": ConsumeOutcome.FAILED,
    "timeout": ConsumeOutcome.TIME_OUT,
    "exception": ConsumeOutcome.EXCEPTION,
}


class ConsumeTraceHook(ConsumeHook):
    """Reports each delivery, except messages whose broker has traces switched off.

    ``new_id`` returns a unique id for each delivery.
    """

    def __init__(self, reporter: TraceReporter, new_id: Callable[[], str]) -> None:
        self._reporter = reporter
        self._new_id = new_id

    def before(self, context: ConsumeContext) -> None:
        """Report that messages are about to be passed to the handler."""
        request_id = context.notes[_NOTE] = self._new_id()
        for message in context.messages:
            if self._is_traced(message):
                record = SubscribeBefore(
                    timestamp_ms=context.began_ms,
                    region=message.properties.get(properties.REGION, DEFAULT_REGION),
                    group=bare_name(context.group),
                    request_id=request_id,
                    message_id=message.message_id,
                    retry_times=message.reconsume_times,
                    keys=message.properties.get(properties.KEYS),
                )
                self._reporter.add(message.topic, record.region, record)

    def after(self, context: ConsumeContext) -> None:
        """Report how the delivery ended; its duration is divided among its messages, as in Java."""
        request_id = context.notes.pop(_NOTE, None)
        if request_id is None:  # the hook was added meanwhile
            return
        is_cloud = self._reporter.channel is AccessChannel.CLOUD
        for message in context.messages:
            if self._is_traced(message):
                record = SubscribeAfter(
                    request_id=str(request_id),
                    message_id=message.message_id,
                    cost_ms=context.took_ms // len(context.messages),
                    success=context.is_success,
                    keys=message.properties.get(properties.KEYS),
                    outcome=_OUTCOMES.get(context.status, ConsumeOutcome.SUCCESS),
                    timestamp_ms=None if is_cloud else context.began_ms + context.took_ms,
                    group=None if is_cloud else bare_name(context.group),
                )
                region = message.properties.get(properties.REGION)
                self._reporter.add(message.topic, region, record)

    def _is_traced(self, message: StoredMessage) -> bool:
        is_on = message.properties.get(properties.TRACE_ON) != "false"
        return is_on and self._reporter.traces(message.topic)
