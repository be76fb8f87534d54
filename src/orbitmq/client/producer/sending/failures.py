"""The error that a failed send ends with: its type by the cause, its text by all attempts. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from orbitmq.client.producer.sending.back_pressure import Shortage
from orbitmq.client.producer.sending.packing import PreparedSend
from orbitmq.client.producer.sending.retry_plan import java_code
from orbitmq.errors import (
    BackPressure,
    BrokerBusy,
    BrokerError,
    MessageRefused,
    NameserversFailed,
    NetworkError,
    NoPermission,
    NoRoute,
    OrbitError,
    RequestTimeout,
    SendFailed,
    SendIllegal,
    SendNameserversFailed,
    SendNoRoute,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnauthorised,
    SendUnreachable,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt, TimeSpent

__all__ = ["back_pressure", "failure", "no_route", "route_timeout", "silence", "timeout"]

_KINDS_SHOWN: Final = 4
_REFUSALS: Final = (
    (BrokerBusy, SendRefusedBusy),
    (NoPermission, SendUnauthorised),
    (MessageRefused, SendIllegal),
)
_VARYING: Final = re.compile(r"\(request -?\d+\)|\d+ ms")
"""What differs in the texts of attempts that failed for the same reason."""


def failure(
    prepared: PreparedSend,
    cause: OrbitError,
    attempts: Sequence[Attempt],
    spent: TimeSpent,
    took_ms: int,
) -> SendFailed:
    """Return the error of a send that has no tries left, or that no other attempt can help."""
    if isinstance(cause, RequestTimeout):
        return timeout(prepared, attempts, spent, timeout_ms=took_ms)
    text = _text(prepared, attempts, f"failed after {took_ms} ms")
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
    prepared: PreparedSend,
    attempts: Sequence[Attempt],
    spent: TimeSpent,
    timeout_ms: int,
    hint: str = "",
) -> SendTimeout:
    """Return the error of a send whose time budget ended."""
    return SendTimeout(
        _text(prepared, attempts, f"timed out after {timeout_ms} ms ({spent}){hint}"),
        topic=prepared.topic,
        send_id=prepared.send_id,
        timeout_ms=timeout_ms,
        spent=spent,
        attempts=attempts,
        may_be_stored=_may_be_stored(attempts),
    )


def route_timeout(topic: str, timeout_ms: int, silent: Mapping[str, str]) -> SendTimeout:
    """Return the error of a call that found no route in time, before there was a send."""
    return SendTimeout(
        f"the route of {topic} was not found within {timeout_ms} ms{silence(silent)}",
        topic=topic,
        send_id="",
        timeout_ms=timeout_ms,
        spent=TimeSpent(route_ms=timeout_ms),
    )


def silence(silent: Mapping[str, str]) -> str:
    """Return which nameservers a look-up waits for; each has its text, by address."""
    if not silent:
        return ""
    texts = [
        one if one.startswith(address) else f"{address}: {one}" for address, one in silent.items()
    ]
    return f"; nameservers: {'; '.join(texts)}. Check that they run, and can be reached from here"


def no_route(
    cause: NoRoute | NameserversFailed,
    topic: str,
    prepared: PreparedSend | None = None,
    attempts: Sequence[Attempt] = (),
) -> SendFailed:
    """Return the error of a send that does not know where to go.

    ``topic`` is the name that the user knows; ``prepared`` is None if nothing was packed yet;
    ``attempts`` are those before the route was lost.
    """
    text = str(cause) if prepared is None else _text(prepared, attempts, f"failed: {cause}")
    send_id = "" if prepared is None else prepared.send_id
    may_be_stored = _may_be_stored(attempts)
    if isinstance(cause, NoRoute):
        return SendNoRoute(
            text,
            topic=topic,
            send_id=send_id,
            is_missing=cause.is_missing,
            answers=cause.answers,
            attempts=attempts,
            may_be_stored=may_be_stored,
        )
    return SendNameserversFailed(
        text,
        topic=topic,
        send_id=send_id,
        answers=cause.answers,
        attempts=attempts,
        may_be_stored=may_be_stored,
    )


def back_pressure(
    prepared: PreparedSend, shortage: Shortage, spent: TimeSpent, timeout_ms: int
) -> BackPressure:
    """Return the error of a send that the producer's own limits did not admit in time."""
    return BackPressure(
        f"send {prepared.send_id} to {prepared.topic} did not start within {timeout_ms} ms: "
        f"{shortage.kind.value} ({shortage.in_flight} sends with {shortage.in_flight_bytes} bytes "
        f"in flight, {shortage.waiting} waiting). Wait for receipts before you send more, or raise "
        "in_flight_max or in_flight_bytes_max",
        topic=prepared.topic,
        send_id=prepared.send_id,
        timeout_ms=timeout_ms,
        spent=spent,
    )


def _text(prepared: PreparedSend, attempts: Sequence[Attempt], what: str) -> str:
    batch_of = f" of {len(prepared.messages)} messages" if prepared.is_batch else ""
    text = f"send {prepared.send_id}{batch_of} to {prepared.topic} {what}"
    kinds: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in attempts:
        key = attempt.queue.broker_name, _VARYING.sub("", attempt.what)
        kinds.setdefault(key, []).append(attempt)
    shown = list(kinds.values())
    if len(shown) > _KINDS_SHOWN:  # the first and the last ones say the most
        shown = [*shown[: _KINDS_SHOWN - 1], shown[-1]]
    text = "; ".join([text, *map(_listed, shown)])
    return f"{text}; a broker may have stored it" if _may_be_stored(attempts) else text


def _listed(equal: Sequence[Attempt]) -> str:
    """Return the text of attempts on one broker that failed for the same reason."""
    first, last = equal[0], equal[-1]
    if len(equal) == 1:
        return str(first)
    broker, ended_ms = first.queue.broker_name, last.began_ms + last.took_ms
    return f"{broker} {len(equal)} times, from {first.began_ms} to {ended_ms} ms: {last.what}"


def _may_be_stored(attempts: Sequence[Attempt]) -> bool:
    return any(attempt.may_be_stored for attempt in attempts)
