"""Spans: begun and ended with each send and each delivery, with ids and lengths, never a body."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orbitmq.client.observe import otel_spans as spans
from orbitmq.client.observe.consume_hooks import ConsumeContext
from orbitmq.client.observe.hooks import SendContext, SendMode
from orbitmq.client.observe.otel_spans import ConsumeSpanHook, SpanHook, Value, telemetry
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus, StoredMessage
from orbitmq.message.trace import MessageKind
from tests.client.post import open_post, open_producer, refuse
from tests.client.scene import Scene, play
from tests.client.stored import a_stored_message


class FakeSpan:
    def __init__(self, name: str, kind: object, attributes: Mapping[str, Value]) -> None:
        self.name = name
        self.kind = kind
        self.attributes = dict(attributes)
        self.exceptions: list[BaseException] = []
        self.status: tuple[object, str | None] | None = None
        self.ended = 0

    def set_attribute(self, key: str, value: Value) -> None:
        self.attributes[key] = value

    def record_exception(self, exception: BaseException) -> None:
        self.exceptions.append(exception)

    def set_status(self, status: object, description: str | None = None) -> None:
        self.status = status, description

    def end(self) -> None:
        self.ended += 1


class FakeTelemetry:
    """Looks like the module ``opentelemetry.trace``."""

    SpanKind = SimpleNamespace(PRODUCER="producer")
    StatusCode = SimpleNamespace(ERROR="error")

    def __init__(self) -> None:
        self.spans: list[FakeSpan] = []

    def get_tracer(self, name: str) -> "FakeTelemetry":
        assert name == "orbitmq"
        return self

    def start_span(self, name: str, *, kind: object, attributes: Mapping[str, Value]) -> FakeSpan:
        self.spans.append(FakeSpan(name, kind, attributes))
        return self.spans[-1]


def a_context(*messages: Message) -> SendContext:
    return SendContext(
        group="billing",
        mode=SendMode.ANSWERED,
        namespace="",
        message=messages[0],
        messages=messages,
        kind=MessageKind.NORMAL,
        send_id="7F01",
        began_ms=0,
    )


MESSAGE = Message("orders", b"secret", tags="paid", keys=["o-42"], sharding_key="k")


def test_a_send_is_a_span_with_ids_and_lengths() -> None:
    found = FakeTelemetry()
    hook = SpanHook(found)
    context = a_context(MESSAGE)
    hook.before(context)
    (span,) = found.spans
    assert (span.name, span.kind, span.ended) == ("send orders", "producer", 0)
    context.queue = MessageQueue("orders", "broker-a", 3)
    context.broker_address = "10.0.0.7:10911"
    context.receipt = SendReceipt(
        status=SendStatus.SEND_OK,
        message_id="7F01",
        offset_message_id="",
        queue=context.queue,
        queue_offset=9,
    )
    hook.after(context)
    assert (span.ended, span.status) == (1, None)
    assert span.attributes == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.message.id": "7F01",
        "messaging.message.body.size": 6,
        "messaging.rocketmq.client_group": "billing",
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ["o-42"],
        "messaging.rocketmq.message.group": "k",
        "server.address": "10.0.0.7",
        "server.port": 10911,
        "orbitmq.send_status": "SEND_OK",
    }
    assert "secret" not in str(span.attributes)


def test_a_send_that_fails_is_a_span_with_the_error() -> None:
    found = FakeTelemetry()
    hook = SpanHook(found)
    context = a_context(MESSAGE)
    hook.before(context)
    context.error = SendFailed("no broker", topic="orders", send_id="7F01")
    hook.after(context)
    (span,) = found.spans
    assert span.status == ("error", "no broker")
    assert span.exceptions == [context.error]
    assert span.attributes["error.type"] == "SendFailed"
    assert span.attributes["orbitmq.attempts"] == 0
    assert span.ended == 1


def test_a_batch_says_how_many() -> None:
    found = FakeTelemetry()
    SpanHook(found).before(a_context(MESSAGE, MESSAGE))
    (span,) = found.spans
    assert span.attributes["messaging.batch.message_count"] == 2
    assert span.attributes["messaging.message.body.size"] == 12


def test_a_send_that_began_before_the_hook_was_there_is_left_alone() -> None:
    found = FakeTelemetry()
    SpanHook(found).after(a_context(MESSAGE))
    assert found.spans == []


class NoProvider:
    pass


@pytest.mark.parametrize("installed", [True, False])
def test_without_opentelemetry_set_up_there_is_nothing_to_do(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> object:
        assert name == "opentelemetry.trace"
        if not installed:
            raise ImportError(name)
        return SimpleNamespace(ProxyTracerProvider=NoProvider, get_tracer_provider=NoProvider)

    monkeypatch.setattr(spans, "import_module", find)
    assert telemetry() is None


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the real OpenTelemetry exports, set up for one test alone."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def test_a_producer_s_sends_are_spans_of_the_real_opentelemetry(
    exported: InMemorySpanExporter,
) -> None:
    async def story(scene: Scene) -> tuple[SendReceipt, SendFailed]:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, retries=1)
        with trace.get_tracer("tests").start_as_current_span("checkout"):
            receipt = await producer.send(MESSAGE)
        post.always["a"] = refuse(2)
        with pytest.raises(SendFailed) as caught:
            await producer.send(MESSAGE)
        return receipt, caught.value

    receipt, error = play(story)
    sent, checkout, failed = exported.get_finished_spans()
    assert (sent.name, sent.kind) == ("send orders", trace.SpanKind.PRODUCER)
    assert sent.parent is not None
    assert sent.parent.span_id == checkout.context.span_id
    assert sent.attributes is not None
    assert sent.attributes["messaging.message.id"] == receipt.message_id
    assert sent.attributes["messaging.rocketmq.message.keys"] == ("o-42",)
    assert sent.attributes["server.port"] == 10911
    assert sent.status.status_code is trace.StatusCode.UNSET
    assert failed.parent is None
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["messaging.message.id"] == error.send_id
    assert [event.name for event in failed.events] == ["exception"]


def test_opentelemetry_that_is_set_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(ProxyTracerProvider=NoProvider, get_tracer_provider=object)
    monkeypatch.setattr(spans, "import_module", lambda _name: found)
    assert telemetry() is found


QUEUE = MessageQueue("orders", "broker-a", 3)
SENT_IN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def a_delivery(*messages: StoredMessage) -> ConsumeContext:
    return ConsumeContext(
        group="billing", client_id="c1", queue=QUEUE, messages=messages, began_ms=0
    )


def spans_of(*contexts: ConsumeContext) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    opentelemetry = SimpleNamespace(**vars(trace) | {"get_tracer": provider.get_tracer})
    hook = ConsumeSpanHook(opentelemetry)
    for context in contexts:
        hook.before(context)
        hook.after(context)
    return exporter.get_finished_spans()


def test_a_delivery_is_a_span_linked_to_the_one_that_its_message_carries() -> None:
    carried = a_stored_message(body=b"secret", traceparent=SENT_IN, TAGS="paid", KEYS="o-42 o-43")
    context = a_delivery(carried)
    context.status = "success"
    (span,) = spans_of(context)
    assert (span.name, span.kind) == ("process orders", trace.SpanKind.CONSUMER)
    (link,) = span.links
    assert format(link.context.trace_id, "x") in SENT_IN
    assert dict(span.attributes or {}) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.consumer.group.name": "billing",
        "messaging.client.id": "c1",
        "messaging.message.id": carried.message_id,
        "messaging.message.body.size": 6,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("o-42", "o-43"),
        "orbitmq.reconsume_times": 0,
        "orbitmq.consume_status": "success",
    }
    assert not context.notes


def test_a_failed_delivery_of_several_messages_is_one_span_with_the_error() -> None:
    plain = a_stored_message()
    context = a_delivery(plain, a_stored_message(traceparent="nonsense"), plain)
    context.namespace = "shop"
    context.status, context.error = "exception", ValueError("no such order")
    (span,) = spans_of(context)
    attributes = dict(span.attributes or {})
    assert attributes["messaging.batch.message_count"] == 3
    assert attributes["messaging.rocketmq.namespace"] == "shop"
    assert attributes["error.type"] == "ValueError"
    assert (span.status.status_code, span.links) == (trace.StatusCode.ERROR, ())


def test_a_hook_that_was_added_during_a_delivery_ends_no_span() -> None:
    ConsumeSpanHook(trace).after(a_delivery(a_stored_message()))
