"""Traces: what is reported, how reports are gathered, and that nothing of it reaches a sender."""

import asyncio

import pytest

from orbitmq.client.observe import trace_reports as trace
from orbitmq.client.observe.hooks import SendContext, SendMode
from orbitmq.client.observe.trace_reports import TraceHook, TraceReporter
from orbitmq.client.producer.tracing import transaction_record
from orbitmq.client.producer.transactions import TransactionEnd, TransactionState
from orbitmq.client.settings import AccessChannel
from orbitmq.errors import NetworkError
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.message.trace import (
    EndTransaction,
    MessageKind,
    Publish,
    TraceRecord,
    decode,
)
from orbitmq.testing.clocks import VirtualClock, run_virtual


class TraceTopic:
    """Takes trace messages, each after some time; or fails to."""

    def __init__(self, takes_s: float = 0.01) -> None:
        self.messages: list[Message] = []
        self.takes_s = takes_s
        self.error: Exception | None = None
        self.at_once = 0
        self.most_at_once = 0

    async def send(self, message: Message) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes_s)
            if self.error is not None:
                raise self.error
            self.messages.append(message)
        finally:
            self.at_once -= 1

    @property
    def records(self) -> list[TraceRecord]:
        return [record for message in self.messages for record in decode(message.body)]


def a_record(number: int, topic: str = "orders", keys: str | None = None) -> Publish:
    return Publish(
        timestamp_ms=number,
        region="eu",
        group="billing",
        topic=topic,
        message_id=f"id-{number}",
        tags=None,
        keys=keys,
        store_host="10.0.0.7:10911",
        body_length=4,
        cost_ms=1,
        kind=MessageKind.NORMAL,
        offset_message_id="",
        success=True,
    )


def add(tracer: TraceReporter, *records: Publish) -> None:
    for record in records:
        tracer.add(record.topic, record.region, record)


def test_a_full_batch_of_reports_is_sent_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send)
        add(tracer, *(a_record(number) for number in range(10)))
        await clock.sleep(0.02)
        (message,) = topic.messages
        assert message.topic == "RMQ_SYS_TRACE_TOPIC"
        assert decode(message.body) == [a_record(number) for number in range(10)]
        assert list(message.keys) == [f"id-{number}" for number in range(10)]
        assert tracer.sent == 10

    run_virtual(main)


def test_a_few_reports_wait_for_others_and_not_longer() -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send)
        add(tracer, a_record(1), a_record(2))
        await clock.sleep(4.9)
        assert topic.messages == []
        await clock.sleep(0.2)
        assert len(topic.records) == 2
        add(tracer, a_record(3))
        await clock.sleep(5.1)
        assert len(topic.records) == 3

    run_virtual(main)


def test_reports_of_different_topics_do_not_travel_together() -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send, topic="my-traces")
        add(tracer, *(a_record(number, "ab"[number % 2]) for number in range(10)))
        await clock.sleep(1)
        assert [message.topic for message in topic.messages] == ["my-traces"] * 2
        for message in topic.messages:
            assert len({record.topic for record in decode(message.body)}) == 1  # type: ignore[union-attr]

    run_virtual(main)


def test_on_the_cloud_channel_the_region_names_the_topic() -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send, channel=AccessChannel.CLOUD, batch_max=2)
        tracer.add("orders", "eu", a_record(1))
        tracer.add("orders", None, a_record(2))
        await clock.sleep(1)
        assert sorted(message.topic for message in topic.messages) == [
            "rmq_sys_TRACE_DATA_DefaultRegion",
            "rmq_sys_TRACE_DATA_eu",
        ]

    run_virtual(main)


def test_a_trace_message_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "BODY_BYTES_MAX", 500)
    monkeypatch.setattr(trace, "KEYS_BYTES_MAX", 60)

    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send)
        add(tracer, *(a_record(number, keys="k" * 30) for number in range(10)))
        await clock.sleep(1)
        assert len(topic.messages) > 1
        assert len(topic.records) == 10
        for message in topic.messages:
            assert len(message.body) <= 500
            assert len(" ".join(message.keys)) <= 60
            assert message.keys[0].startswith("id-")

    run_virtual(main)


def test_reports_over_the_limit_are_dropped_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic(takes_s=1)
        tracer = TraceReporter(topic.send, queue_max=100)
        add(tracer, *(a_record(number) for number in range(1_000)))
        assert tracer.dropped == 1_000 - 100 - trace.SENDS_MAX * 10
        await clock.sleep(60)
        assert tracer.sent + tracer.dropped == 1_000
        assert topic.most_at_once == trace.SENDS_MAX

    run_virtual(main)
    assert caplog.text.count("more are dropped") == 1


@pytest.mark.parametrize("error", [NetworkError("nobody is there"), ZeroDivisionError("our fault")])
def test_reports_that_can_not_be_sent_are_counted_and_logged_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic()
        topic.error = error
        tracer = TraceReporter(topic.send)
        add(tracer, *(a_record(number) for number in range(30)))
        await clock.sleep(60)
        assert (tracer.failed, tracer.sent) == (30, 0)
        topic.error = None
        add(tracer, *(a_record(number) for number in range(10)))
        await clock.sleep(60)
        assert (tracer.failed, tracer.sent) == (30, 10)

    run_virtual(main)
    assert caplog.text.count("trace reports are lost (messages are not affected)") == 1


def test_a_region_that_is_no_part_of_a_name_is_counted_too() -> None:
    async def main(clock: VirtualClock) -> None:
        tracer = TraceReporter(TraceTopic().send, channel=AccessChannel.CLOUD, batch_max=1)
        tracer.add("orders", "no such.region", a_record(1))
        await clock.sleep(1)
        assert tracer.failed == 1

    run_virtual(main)


@pytest.mark.parametrize(("takes_s", "sent"), [(0.5, 205), (100.0, 0)])
def test_a_close_sends_what_waits_as_long_as_it_may(takes_s: float, sent: int) -> None:
    async def main(clock: VirtualClock) -> None:
        topic = TraceTopic(takes_s)
        tracer = TraceReporter(topic.send)
        add(tracer, *(a_record(number) for number in range(205)))
        await tracer.close(5_000)
        assert clock.monotonic_ms() <= 5_000
        assert (tracer.sent, tracer.failed) == (sent, 205 - sent)
        add(tracer, a_record(1))
        assert tracer.dropped == 1

    run_virtual(main)


# What is reported


def a_context(*messages: Message, receipt: SendReceipt | None) -> SendContext:
    return SendContext(
        group="ns%billing",
        mode=SendMode.ANSWERED,
        namespace="ns",
        message=messages[0],
        messages=messages,
        message_ids=tuple(f"id-{number}" for number in range(len(messages))),
        kind=MessageKind.DELAYED,
        send_id="id-0",
        began_ms=1_700_000_000_000,
        queue=MessageQueue("orders", "broker-a", 0),
        broker_address="10.0.0.7:10911",
        took_ms=7,
        receipt=receipt,
    )


def a_receipt(offset_ids: str = "o-0", **changes: object) -> SendReceipt:
    fields: dict[str, object] = {
        "status": SendStatus.SEND_OK,
        "message_id": "id-0",
        "offset_message_id": offset_ids,
        "queue": MessageQueue("orders", "broker-a", 0),
        "queue_offset": 0,
        "region": "eu",
    }
    return SendReceipt(**(fields | changes))  # type: ignore[arg-type]


def reported(context: SendContext) -> list[TraceRecord]:
    async def main(clock: VirtualClock) -> list[TraceRecord]:
        topic = TraceTopic()
        tracer = TraceReporter(topic.send)
        TraceHook(tracer).after(context)
        await tracer.close(1_000)
        return topic.records

    return run_virtual(main)


def test_a_send_is_reported_with_all_that_java_reports() -> None:
    message = Message("orders", b"paid", tags="paid", keys=["o-42", "o-43"])
    assert reported(a_context(message, receipt=a_receipt())) == [
        Publish(
            timestamp_ms=1_700_000_000_000,
            region="eu",
            group="billing",
            topic="orders",
            message_id="id-0",
            tags="paid",
            keys="o-42 o-43",
            store_host="10.0.0.7:10911",
            body_length=4,
            cost_ms=7,
            kind=MessageKind.DELAYED,
            offset_message_id="o-0",
            success=True,
        )
    ]


@pytest.mark.parametrize(
    ("offset_ids", "expected"), [("o-0,o-1", ["o-0", "o-1"]), ("o-0", ["o-0", "o-0"])]
)
def test_each_message_of_a_batch_is_reported(offset_ids: str, expected: list[str]) -> None:
    context = a_context(
        Message("orders", b"1"), Message("orders", b"22"), receipt=a_receipt(offset_ids)
    )
    records = [record for record in reported(context) if isinstance(record, Publish)]
    assert [record.message_id for record in records] == ["id-0", "id-1"]
    assert [record.body_length for record in records] == [1, 2]
    assert [record.offset_message_id for record in records] == expected


def test_a_status_that_is_not_ok_is_no_success() -> None:
    receipt = a_receipt(status=SendStatus.FLUSH_DISK_TIMEOUT)
    (record,) = reported(a_context(Message("orders", b"paid"), receipt=receipt))
    assert isinstance(record, Publish)
    assert not record.success


@pytest.mark.parametrize(
    ("topic", "receipt"),
    [
        ("orders", None),
        ("orders", a_receipt(trace_on=False)),
        ("RMQ_SYS_TRACE_TOPIC", a_receipt()),
        ("rmq_sys_TRACE_DATA_eu", a_receipt()),
    ],
)
def test_some_sends_are_not_reported(topic: str, receipt: SendReceipt | None) -> None:
    assert reported(a_context(Message(topic, b"paid"), receipt=receipt)) == []


def test_a_decision_is_reported_as_java_does() -> None:
    end = TransactionEnd(
        topic="ns%orders",
        tags=None,
        keys=(),
        message_id="7F01",
        transaction_id="T1",
        broker_address="10.0.0.7:10911",
        region=None,
        state=TransactionState.UNKNOWN,
        from_check=True,
    )
    assert transaction_record(end, group="billing", now_ms=5) == EndTransaction(
        timestamp_ms=5,
        region="DefaultRegion",
        group="billing",
        topic="orders",
        message_id="7F01",
        tags=None,
        keys=None,
        store_host="10.0.0.7:10911",
        kind=MessageKind.COMMITTED,
        transaction_id="T1",
        transaction_state="UNKNOW",
        from_check=True,
    )
