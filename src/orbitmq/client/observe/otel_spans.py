"""One OpenTelemetry span per send, if OpenTelemetry is installed and set up.

Names follow its conventions for messaging. A span contains ids, names and lengths, never a body.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol, cast

from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message
from orbitmq.message.trace import MessageKind

__all__ = ["SpanHook", "Telemetry", "telemetry"]

_NOTE: Final = "orbitmq.span"
_TYPES: Final[Mapping[MessageKind, str]] = {
    MessageKind.NORMAL: "normal",
    MessageKind.HALF: "transaction",
    MessageKind.DELAYED: "delay",
    MessageKind.ORDERED: "fifo",
}

Value = str | int | bool | list[str]


class Span(Protocol):
    """The part of an OpenTelemetry span that a send needs."""

    def set_attribute(self, key: str, value: Value) -> None:
        """Set an attribute."""
        ...

    def record_exception(self, exception: BaseException) -> None:
        """Add an error as an event."""
        ...

    def set_status(self, status: object, description: str | None = None) -> None:
        """Set the outcome."""
        ...

    def end(self) -> None:
        """Close the span."""
        ...


class SpanFactory(Protocol):
    """The part of an OpenTelemetry ``Tracer`` that a send needs."""

    def start_span(self, name: str, *, kind: object, attributes: Mapping[str, Value]) -> Span:
        """Start a child of the current span."""
        ...


class Telemetry(Protocol):
    """The part of the module ``opentelemetry.trace`` that sends need."""

    def get_tracer(self, name: str) -> SpanFactory:
        """Return the tracer of a library."""
        ...

    @property
    def SpanKind(self) -> "_Kinds":  # noqa: N802 - OpenTelemetry's name
        """The kinds of spans."""
        ...

    @property
    def StatusCode(self) -> "_Codes":  # noqa: N802 - OpenTelemetry's name
        """The outcomes of spans."""
        ...


class _Kinds(Protocol):
    @property
    def PRODUCER(self) -> object: ...  # noqa: N802


class _Codes(Protocol):
    @property
    def ERROR(self) -> object: ...  # noqa: N802


def telemetry() -> Telemetry | None:
    """Return OpenTelemetry; None if it is not installed, or has no provider.

    Many packages install it; without a provider its spans are dropped.
    """
    try:
        found = import_module("opentelemetry.trace")
    except ImportError:
        return None
    if isinstance(found.get_tracer_provider(), found.ProxyTracerProvider):
        return None
    return cast("Telemetry", found)


class SpanHook(SendHook):
    """Creates one span per send, around all its attempts."""

    def __init__(self, opentelemetry: Telemetry) -> None:
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
        span: Span | None = context.notes.pop(_NOTE, None)  # type: ignore[assignment]
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
