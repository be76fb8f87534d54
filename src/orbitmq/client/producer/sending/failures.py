"""The error that a failed send ends with: its type by the cause, its text by all attempts. Pure."""

from collections.abc import Sequence
from typing import Final

from orbitmq.client.producer.sending.back_pressure import Shortage
from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.client.producer.sending.retry_plan import java_code
from orbitmq.errors import (
    BackPressure,
    BrokerBusy,
    BrokerError,
    MessageRefused,
    NetworkError,
    NoPermission,
    OrbitError,
    RequestTimeout,
    SendFailed,
    SendIllegal,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnauthorised,
    SendUnreachable,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt, TimeSpent

__all__ = ["back_pressure", "failure", "timeout"]

_ATTEMPTS_TOLD: Final = 5
_REFUSALS: Final = (
    (BrokerBusy, SendRefusedBusy),
    (NoPermission, SendUnauthorised),
    (MessageRefused, SendIllegal),
)


def failure(
    prepared: PreparedSend,
    cause: OrbitError,
    attempts: Sequence[Attempt],
    spent: TimeSpent,
    took_ms: int,
) -> SendFailed:
    """Return the error of a send that tries, or an error that no try can help, have ended."""
    if isinstance(cause, RequestTimeout):
        return timeout(prepared, attempts, spent, timeout_ms=took_ms)
    text = _told(prepared, attempts, f"failed after {took_ms} ms")
    topic, send_id = prepared.topic, prepared.send_id
    may_be_stored = _may_be_stored(attempts)
    if isinstance(cause, BrokerError):
        kind = next((ours for theirs, ours in _REFUSALS if isinstance(cause, theirs)), SendRefused)
        return kind(
            text,
            topic=topic,
            send_id=send_id,
            code=cause.code,
            remark=cause.remark,
            attempts=attempts,
            may_be_stored=may_be_stored,
        )
    reached = not isinstance(cause, NetworkError | TooManyRequests)
    return (SendFailed if reached else SendUnreachable)(
        text,
        topic=topic,
        send_id=send_id,
        attempts=attempts,
        may_be_stored=may_be_stored,
        code=java_code(cause),
    )


def timeout(
    prepared: PreparedSend, attempts: Sequence[Attempt], spent: TimeSpent, timeout_ms: int
) -> SendTimeout:
    """Return the error of a send whose time was over."""
    return SendTimeout(
        _told(prepared, attempts, f"had {timeout_ms} ms, and they are over: {spent}"),
        topic=prepared.topic,
        send_id=prepared.send_id,
        timeout_ms=timeout_ms,
        spent=spent,
        attempts=attempts,
        may_be_stored=_may_be_stored(attempts),
    )


def back_pressure(
    prepared: PreparedSend, shortage: Shortage, spent: TimeSpent, timeout_ms: int
) -> BackPressure:
    """Return the error of a send that our own bounds did not let go in time."""
    return BackPressure(
        f"send {prepared.send_id} to {prepared.topic} was not begun within {timeout_ms} ms: "
        f"{shortage.kind.value} ({shortage.in_flight} sends with {shortage.in_flight_bytes} bytes; "
        f"{shortage.waiting} wait). Wait for receipts before you send more, or raise "
        "in_flight_max or in_flight_bytes_max",
        topic=prepared.topic,
        send_id=prepared.send_id,
        timeout_ms=timeout_ms,
        spent=spent,
    )


def _told(prepared: PreparedSend, attempts: Sequence[Attempt], what: str) -> str:
    many = f" of {len(prepared.messages)} messages" if prepared.is_batch else ""
    text = f"send {prepared.send_id}{many} to {prepared.topic} {what}"
    if attempts:
        # The first and the last ones tell the most.
        shown = list(enumerate(attempts, start=1))
        if len(shown) > _ATTEMPTS_TOLD:
            shown = [*shown[: _ATTEMPTS_TOLD - 1], shown[-1]]
        text += "; " + "; ".join(f"{number}. {attempt}" for number, attempt in shown)
    if _may_be_stored(attempts):
        text += "; it may be stored all the same"
    return text


def _may_be_stored(attempts: Sequence[Attempt]) -> bool:
    return any(attempt.may_be_stored for attempt in attempts)
