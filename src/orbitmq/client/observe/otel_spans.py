"""One OpenTelemetry span per send and per delivery, if OpenTelemetry is installed and set up.

Names follow its conventions for messaging. A span contains ids, names and lengths, never a body.
A delivery is linked to the spans whose contexts its messages carry (property ``traceparent``).
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from orbitmq.client.observe.consume_hooks import ConsumeContext, ConsumeHook
from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message, StoredMessage
from orbitmq.message.trace import MessageKind

__all__ = ["ConsumeSpanHook", "SpanHook", "telemetry"]

_NOTE: Final = "orbitmq.span"
_TYPES: Final[Mapping[MessageKind, str]] = {
    MessageKind.NORMAL: "normal",
    MessageKind.HALF: "transaction",
    MessageKind.DELAYED: "delay",
    MessageKind.ORDERED: "fifo",
}

Value = str | int | bool | list[str]


def telemetry() -> Any:
    """Return the module ``opentelemetry.trace``; None if it is not installed, or has no provider.

    Many packages install it; without a provider its spans are dropped.
    """
    try:
        found = import_module("opentelemetry.trace")
    except ImportError:
        return None
    if isinstance(found.get_tracer_provider(), found.ProxyTracerProvider):
        return None
    return found


class SpanHook(SendHook):
    """Creates one span per send, around all its attempts."""

    def __init__(self, opentelemetry: Any) -> None:
        self._tracer = opentelemetry.get_tracer("orbitmq")
        self._kind = opentelemetry.SpanKind.PRODUCER
        self._error = opentelemetry.StatusCode.ERROR

    def before(self, context: SendContext) -> None:
        """Start the span."""
        context.notes[_NOTE] = self._tracer.start_span(
            f"send {context.message.topic}", kind=self._kind, attributes=_begun(context)
        )

    def after(self, context: SendContext) -> None:
        """End the span with the outcome of the send."""
        span: Any = context.notes.pop(_NOTE, None)
        if span is None:
            return
        for key, value in _ended(context).items():
            span.set_attribute(key, value)
        _end(span, context.error, self._error)


class ConsumeSpanHook(ConsumeHook):
    """Creates one span per delivery."""

    def __init__(self, opentelemetry: Any) -> None:
        self._trace = opentelemetry
        self._extract = import_module("opentelemetry.propagate").extract
        self._tracer = opentelemetry.get_tracer("orbitmq")

    def before(self, context: ConsumeContext) -> None:
        """Start the span."""
        first = context.messages[0]
        context.notes[_NOTE] = self._tracer.start_span(
            f"process {first.topic}",
            kind=self._trace.SpanKind.CONSUMER,
            attributes=_delivered(context),
            links=[link for one in context.messages if (link := self._link(one)) is not None],
        )

    def after(self, context: ConsumeContext) -> None:
        """End the span with the outcome of the delivery."""
        span: Any = context.notes.pop(_NOTE, None)
        if span is not None:
            span.set_attribute("orbitmq.consume_status", context.status)
            _end(span, context.error, self._trace.StatusCode.ERROR)

    def _link(self, message: StoredMessage) -> Any:
        """Return a link to the span that a message was sent in; None if it carries none."""
        carried = self._extract(message.properties)
        found = self._trace.get_current_span(carried).get_span_context()
        return self._trace.Link(found) if found.is_valid and found.is_remote else None


def _end(span: Any, error: BaseException | None, failed: object) -> None:
    if error is not None:
        span.set_attribute("error.type", type(error).__name__)
        span.record_exception(error)
        span.set_status(failed, str(error))
    span.end()


def _delivered(context: ConsumeContext) -> Mapping[str, Value]:
    first = context.messages[0]
    attributes: dict[str, Value] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": first.topic,
        "messaging.destination.partition.id": str(context.queue.queue_id),
        "messaging.consumer.group.name": context.group,
        "messaging.client.id": context.client_id,
    }
    if context.namespace:
        attributes["messaging.rocketmq.namespace"] = context.namespace
    if len(context.messages) > 1:
        attributes["messaging.batch.message_count"] = len(context.messages)
        return attributes
    attributes |= {
        "messaging.message.id": first.message_id,
        "messaging.message.body.size": len(first.body),
        "orbitmq.reconsume_times": first.reconsume_times,
    }
    if first.tags is not None:
        attributes["messaging.rocketmq.message.tag"] = first.tags
    if first.keys:
        attributes["messaging.rocketmq.message.keys"] = list(first.keys)
    return attributes


def _begun(context: SendContext) -> Mapping[str, Value]:
    attributes: dict[str, Value] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": context.message.topic,
        "messaging.message.id": context.send_id,
        "messaging.message.body.size": sum(len(one.body) for one in context.messages),
        "messaging.rocketmq.client_group": context.group,
        "messaging.rocketmq.message.type": _TYPES.get(context.kind, "normal"),
    }
    if len(context.messages) > 1:
        attributes["messaging.batch.message_count"] = len(context.messages)
    if context.namespace:
        attributes["messaging.rocketmq.namespace"] = context.namespace
    return attributes | _message_attributes(context.message)


def _message_attributes(message: Message) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    if message.tags is not None:
        attributes["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        attributes["messaging.rocketmq.message.keys"] = list(message.keys)
    if message.sharding_key is not None:
        attributes["messaging.rocketmq.message.group"] = message.sharding_key
    if message.delay_level:
        attributes["messaging.rocketmq.message.delay_time_level"] = message.delay_level
    return attributes


def _ended(context: SendContext) -> Mapping[str, Value]:
    attributes: dict[str, Value] = {}
    if context.broker_address:
        host, _, port = context.broker_address.rpartition(":")
        attributes |= {"server.address": host, "server.port": int(port)}
    if context.queue is not None:
        attributes["messaging.destination.partition.id"] = str(context.queue.queue_id)
    if context.receipt is not None:
        attributes["orbitmq.send_status"] = context.receipt.status.value
    if isinstance(context.error, SendFailed):
        attributes["orbitmq.attempts"] = len(context.error.attempts)
    return attributes
