"""The history of a message, built from trace records. Pure.

::

    Publish ──────────▶ SENT ──▶ STORED
    EndTransaction ───▶ TRANSACTION_ENDED
    Recall ───────────▶ RECALLED
    SubscribeBefore ──▶ DELIVERED ──┐ same request id
    SubscribeAfter ───▶ CONSUMED ◀──┘

Each event has the time since the one it follows: STORED since SENT, DELIVERED since STORED,
CONSUMED since its DELIVERED, the others since SENT. Times are those of the machine that reports, so
they may disagree by the difference between two clocks, and a difference may be negative.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from orbitmq.message.model import StoredMessage
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

__all__ = ["MessageTrace", "Report", "TraceEvent", "TraceStep", "build_trace", "published"]


class TraceStep(enum.Enum):
    """What happened to a message."""

    SENT = "sent"
    STORED = "stored"
    TRANSACTION_ENDED = "transaction ended"
    RECALLED = "recalled"
    DELIVERED = "delivered"
    CONSUMED = "consumed"


_ORDER: Final = {step: number for number, step in enumerate(TraceStep)}


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event in the history of a message.

    Attributes:
        step: what happened.
        at_ms: when, in milliseconds since 1970.
        latency_ms: since the event it follows; None if that is not known.
        cost_ms: of SENT: how long the broker took to answer; of CONSUMED: how long the listener
            took for each message of its batch.
        group: the group of the client that reported it.
        client_host: the address of that client; for STORED, of the broker.
        is_success: whether it succeeded.
        is_estimated: the time is an estimate, since the message itself is not there any more.
        request_id: joins CONSUMED to its DELIVERED.
        reconsume_times: of DELIVERED: how often the message was delivered to the group before.
        outcome: of CONSUMED: how the listener ended.
        transaction_state: of TRANSACTION_ENDED: the decision.
        from_check: of TRANSACTION_ENDED: whether it answered a check of the broker.
    """

    step: TraceStep
    at_ms: int
    latency_ms: int | None = None
    cost_ms: int | None = None
    group: str = ""
    client_host: str = ""
    is_success: bool = True
    is_estimated: bool = False
    request_id: str = ""
    reconsume_times: int | None = None
    outcome: ConsumeOutcome | None = None
    transaction_state: str | None = None
    from_check: bool = False


class MessageTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one message: its events, in the order of their times.

    What only the record of its send has is empty or None if that record is missing.
    """

    message_id: str
    topic: str = ""
    tags: str | None = None
    keys: tuple[str, ...] = ()
    kind: MessageKind | None = None
    body_length: int | None = None
    store_host: str | None = None
    offset_message_id: str | None = None
    events: tuple[TraceEvent, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The consumer groups that it was delivered to, the first one first."""
        delivered = (one.group for one in self.events if one.step is TraceStep.DELIVERED)
        return tuple(dict.fromkeys(delivered))


class Report(NamedTuple):
    """A trace record, with the address of the client that sent it, and when it was stored."""

    record: TraceRecord
    client_host: str
    reported_ms: int


def published(reports: Iterable[Report]) -> Publish | None:
    """Return the record of the send of a message: the first send that succeeded, if any did."""
    sends = (one.record for one in reports if isinstance(one.record, Publish))
    return min(sends, key=lambda one: (not one.success, one.timestamp_ms), default=None)


def build_trace(
    message_id: str, reports: Iterable[Report], stored: StoredMessage | None = None
) -> MessageTrace:
    """Return the history of a message; ``stored`` is the message, if it is still there.

    >>> sent = Publish(timestamp_ms=100, region="r", group="billing", topic="orders",
    ...                message_id="7F01", tags=None, keys="o-42", store_host=None, body_length=4,
    ...                cost_ms=10, kind=MessageKind.NORMAL, offset_message_id=None, success=True)
    >>> trace = build_trace("7F01", [Report(sent, "10.0.0.7", 120)])
    >>> [(event.step.value, event.at_ms, event.latency_ms) for event in trace.events]
    [('sent', 100, None), ('stored', 105, 5)]
    """
    # A client that got no answer for its reports sends them twice.
    listed = list({one[:2]: one for one in reports if one.record.message_id == message_id}.values())
    send = published(listed)
    storing = None if send is None else _stored(send, stored)
    moments = _Moments(
        sent_ms=None if send is None else send.timestamp_ms,
        stored_ms=None if storing is None else storing.at_ms,
        delivered_ms={
            one.record.request_id: one.record.timestamp_ms
            for one in listed
            if isinstance(one.record, SubscribeBefore)
        },
    )
    events = [_event(one, moments) for one in listed] + ([] if storing is None else [storing])
    events.sort(key=lambda one: (one.at_ms, _ORDER[one.step]))
    named = [one.record for one in listed if isinstance(one.record, _WITH_TOPIC)]
    keyed = [one.record.keys for one in listed if not isinstance(one.record, Recall)]
    trace = MessageTrace(
        message_id=message_id,
        topic=named[0].topic if named else "",
        keys=tuple(next(filter(None, keyed), "").split()),
        events=tuple(events),
    )
    if send is None:
        return trace
    return replace(
        trace,
        tags=send.tags,
        kind=send.kind,
        body_length=send.body_length,
        store_host=send.store_host,
        offset_message_id=send.offset_message_id,
    )


_WITH_TOPIC: Final = (Publish, EndTransaction, Recall)


def _stored(send: Publish, message: StoredMessage | None) -> TraceEvent | None:
    """Return the event of storing; Java's estimate is the middle of the send."""
    if message is None and not send.success:
        return None
    at_ms = send.timestamp_ms + send.cost_ms // 2
    if message is not None:
        at_ms = message.store_timestamp_ms
    return TraceEvent(
        step=TraceStep.STORED,
        at_ms=at_ms,
        latency_ms=at_ms - send.timestamp_ms,
        client_host=send.store_host or "",
        is_estimated=message is None,
    )


class _Moments(NamedTuple):
    """What events follow; None if it is not known."""

    sent_ms: int | None
    stored_ms: int | None
    delivered_ms: Mapping[str, int]
    """By request id."""


def _event(report: Report, moments: _Moments) -> TraceEvent:
    """Return what a client reported."""
    record, client_host, reported_ms = report
    match record:
        case Publish():
            event = TraceEvent(
                step=TraceStep.SENT,
                at_ms=record.timestamp_ms,
                cost_ms=record.cost_ms,
                is_success=record.success,
            )
        case SubscribeBefore():
            event = TraceEvent(
                step=TraceStep.DELIVERED,
                at_ms=record.timestamp_ms,
                latency_ms=_between(moments.stored_ms, record.timestamp_ms),
                request_id=record.request_id,
                reconsume_times=record.retry_times,
            )
        case SubscribeAfter():
            began_ms = moments.delivered_ms.get(record.request_id)
            at_ms = record.timestamp_ms
            if at_ms is None:  # a client on the CLOUD channel
                at_ms = reported_ms if began_ms is None else began_ms + record.cost_ms
            event = TraceEvent(
                step=TraceStep.CONSUMED,
                at_ms=at_ms,
                latency_ms=_between(began_ms, at_ms),
                cost_ms=record.cost_ms,
                is_success=record.success,
                request_id=record.request_id,
                outcome=record.outcome,
            )
        case EndTransaction():
            event = TraceEvent(
                step=TraceStep.TRANSACTION_ENDED,
                at_ms=record.timestamp_ms,
                latency_ms=_between(moments.sent_ms, record.timestamp_ms),
                transaction_state=record.transaction_state,
                from_check=record.from_check,
            )
        case _:  # Recall
            event = TraceEvent(
                step=TraceStep.RECALLED,
                at_ms=record.timestamp_ms,
                latency_ms=_between(moments.sent_ms, record.timestamp_ms),
                is_success=record.success,
            )
    return replace(event, group=record.group or "", client_host=client_host)


def _between(earlier_ms: int | None, later_ms: int) -> int | None:
    return None if earlier_ms is None else later_ms - earlier_ms
