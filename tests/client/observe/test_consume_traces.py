"""Traces of a consumer: the bytes of Java's, and which messages are reported."""

import pytest

from orbitmq.client.observe.consume_hooks import ConsumeContext, DeliveryStatus
from orbitmq.client.observe.consume_traces import ConsumeTraceHook
from orbitmq.client.observe.trace_reports import TraceReporter
from orbitmq.client.settings import AccessChannel
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.message.trace import ConsumeOutcome, SubscribeAfter, SubscribeBefore, decode
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.stored import a_stored_message
from tests.golden_files import golden

QUEUE = MessageQueue("orders", "broker-a", 3)
CASES = {case["case"]: case for case in golden("trace")["cases"]}


def reported(
    *messages: StoredMessage,
    group: str = "billing",
    status: DeliveryStatus = "success",
    channel: AccessChannel = AccessChannel.LOCAL,
    began_ms: int = 1_000,
    took_ms: int = 0,
    ids: tuple[str, ...] = ("r1",),
) -> list[Message]:
    """Return the trace messages about a delivery."""

    async def story(_clock: VirtualClock) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        reporter = TraceReporter(send, channel=channel, batch_max=20)
        hook = ConsumeTraceHook(reporter, iter(ids).__next__)
        context = ConsumeContext(group=group, queue=QUEUE, messages=messages, began_ms=began_ms)
        hook.before(context)
        context.took_ms, context.status = took_ms, status
        context.is_success = status == "success"
        hook.after(context)
        await reporter.close(1_000)
        return sent

    return run_virtual(story)


@pytest.mark.parametrize("channel", AccessChannel)
def test_has_the_bytes_of_java(channel: AccessChannel) -> None:
    before, after = CASES["SubBefore"], CASES[f"SubAfter-{channel.name}"]
    told = before["context"]
    messages = [
        a_stored_message(
            bean["topic"],
            retries=bean["retry_times"],
            UNIQ_KEY=bean["msg_id"],
            MSG_REGION=told["region_id"],
            **({"KEYS": bean["keys"]} if bean["keys"] else {}),
        )
        for bean in before["beans"]
    ]
    began = {"began_ms": told["time_stamp"], "ids": (told["request_id"],)}
    (trace,) = reported(*messages, group=told["group_name"], channel=channel, **began)
    first = bytes.fromhex(before["trans_data_hex"])
    assert trace.body[: len(first)] == first
    # In the golden bytes both records have one time, although the delivery took 14 ms.
    began["began_ms"] -= 14
    (trace,) = reported(*messages, group=told["group_name"], channel=channel, took_ms=14, **began)
    assert trace.body[len(first) :] == bytes.fromhex(after["trans_data_hex"])
    assert sorted(trace.keys) == sorted(after["trans_keys"])


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("success", ConsumeOutcome.SUCCESS),
        ("later", ConsumeOutcome.FAILED),
        ("timeout", ConsumeOutcome.TIME_OUT),
        ("exception", ConsumeOutcome.EXCEPTION),
    ],
)
def test_the_outcome_is_in_the_second_record(
    status: DeliveryStatus, outcome: ConsumeOutcome
) -> None:
    (trace,) = reported(a_stored_message(), status=status, took_ms=40)
    before, after = decode(trace.body)
    assert isinstance(before, SubscribeBefore)
    assert isinstance(after, SubscribeAfter)
    assert (before.region, before.request_id) == ("DefaultRegion", after.request_id)
    assert (after.outcome, after.success, after.cost_ms) == (outcome, status == "success", 40)
    assert after.timestamp_ms == before.timestamp_ms + 40


def test_namespaces_are_left_out() -> None:
    (trace,) = reported(a_stored_message(), group="shop%billing")
    assert [record.group for record in decode(trace.body)] == ["billing", "billing"]


def test_a_broker_may_switch_traces_off() -> None:
    (trace,) = reported(a_stored_message(at=1, TRACE_ON="false"), a_stored_message(at=2))
    assert trace.keys == (a_stored_message(at=2).message_id,)


def test_a_consumer_of_traces_is_not_traced() -> None:
    assert reported(a_stored_message(TRACE_TOPIC)) == []


def test_a_hook_that_was_added_during_a_delivery_reports_nothing() -> None:
    async def story(_clock: VirtualClock) -> None:
        async def send(_message: Message) -> None:
            raise AssertionError

        reporter = TraceReporter(send)
        context = ConsumeContext(group="g", queue=QUEUE, messages=(a_stored_message(),), began_ms=0)
        ConsumeTraceHook(reporter, str).after(context)
        await reporter.close(1_000)
        assert reporter.sent == 0

    run_virtual(story)
