"""One OpenTelemetry span per send, if OpenTelemetry is installed and set up.

Names follow its conventions for messaging. A span contains ids, names and lengths, never a body.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message
from orbitmq.message.trace import MessageKind

__all__ = ["SpanHook", "telemetry"]

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
        if context.error is not None:
            span.set_attribute("error.type", type(context.error).__name__)
            span.record_exception(context.error)
            span.set_status(self._error, str(context.error))
        span.end()


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
