from typing import Any

from orbitmq.client.observe.trace_timeline import (
    Report,
    TraceEvent,
    TraceStep,
    build_trace,
    published,
)
from orbitmq.message.trace import (
    ConsumeOutcome,
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    TraceRecord,
)

ID = "7F01"
COMMON: dict[str, Any] = {"message_id": ID, "keys": "k1 k2"}


def sent(at_ms: int, *, success: bool = True, message_id: str = ID) -> Publish:
    return Publish(
        timestamp_ms=at_ms,
        region="r",
        group="billing",
        topic="orders",
        message_id=message_id,
        tags="t",
        keys="k1 k2",
        store_host="10.0.0.1:10911",
        body_length=4,
        cost_ms=10,
        kind=MessageKind.NORMAL,
        offset_message_id="0A",
        success=success,
    )


def before(at_ms: int, request_id: str, retry_times: int = 0) -> SubscribeBefore:
    return SubscribeBefore(
        timestamp_ms=at_ms,
        region="r",
        group="payers",
        request_id=request_id,
        retry_times=retry_times,
        **COMMON,
    )


def after(at_ms: int | None, request_id: str, *, success: bool = True) -> SubscribeAfter:
    return SubscribeAfter(
        timestamp_ms=at_ms,
        group=None if at_ms is None else "payers",
        request_id=request_id,
        cost_ms=20,
        success=success,
        outcome=ConsumeOutcome.SUCCESS if success else ConsumeOutcome.FAILED,
        **COMMON,
    )


def events(*records: TraceRecord) -> tuple[TraceEvent, ...]:
    return build_trace(ID, [Report(one, "10.0.0.9:5", 999) for one in records]).events


def test_retries_are_in_order_with_the_times_between() -> None:
    found = events(
        after(1_130, "2"),
        before(1_110, "2", 1),
        after(140, "1", success=False),
        before(120, "1"),
        sent(100),
        sent(100),  # reported twice
        sent(50, message_id="another"),
    )
    shown = [(one.step, one.at_ms, one.latency_ms, one.is_success) for one in found]
    assert shown == [
        (TraceStep.SENT, 100, None, True),
        (TraceStep.STORED, 105, 5, True),
        (TraceStep.DELIVERED, 120, 15, True),
        (TraceStep.CONSUMED, 140, 20, False),
        (TraceStep.DELIVERED, 1_110, 1_005, True),
        (TraceStep.CONSUMED, 1_130, 20, True),
    ]
    assert found[1].is_estimated
    assert [one.reconsume_times for one in found[2:5:2]] == [0, 1]
    assert found[3].outcome is ConsumeOutcome.FAILED


def test_a_failed_send_is_not_stored_and_the_first_good_one_is() -> None:
    assert [one.step for one in events(sent(100, success=False))] == [TraceStep.SENT]
    found = events(sent(100, success=False), sent(300), sent(400))
    assert [one.at_ms for one in found if one.step is TraceStep.STORED] == [305]
    assert published([]) is None


def test_a_result_without_a_time_follows_its_delivery_or_its_report() -> None:
    found = events(before(120, "1"), after(None, "1"), after(None, "lost"))
    assert [(one.step, one.at_ms, one.latency_ms) for one in found] == [
        (TraceStep.DELIVERED, 120, None),
        (TraceStep.CONSUMED, 140, 20),
        (TraceStep.CONSUMED, 999, None),
    ]


def test_transactions_and_recalls_are_events_too() -> None:
    ended = EndTransaction(
        timestamp_ms=150,
        region="r",
        group="billing",
        topic="orders",
        tags=None,
        store_host=None,
        kind=MessageKind.COMMITTED,
        transaction_id="x",
        transaction_state="COMMIT_MESSAGE",
        from_check=True,
        **COMMON,
    )
    recalled = Recall(
        timestamp_ms=160, region="r", group="billing", topic="orders", message_id=ID, success=False
    )
    found = events(sent(100), ended, recalled)[2:]
    assert [(one.step, one.latency_ms, one.is_success) for one in found] == [
        (TraceStep.TRANSACTION_ENDED, 50, True),
        (TraceStep.RECALLED, 60, False),
    ]
    assert (found[0].transaction_state, found[0].from_check) == ("COMMIT_MESSAGE", True)


def test_what_only_the_send_knows_is_empty_without_it() -> None:
    trace = build_trace(ID, [Report(before(120, "1"), "h", 1), Report(before(150, "2"), "h", 1)])
    assert (trace.topic, trace.tags, trace.kind, trace.keys) == ("", None, None, ("k1", "k2"))
    assert trace.groups == ("payers",)
