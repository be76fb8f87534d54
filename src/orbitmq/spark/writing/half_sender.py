"""Sends the rows of a task as half messages, and lists them in the ledger.

A send that timed out may be stored. So each try has a new id, and only the one with a receipt is
listed: answers to checks drop the others.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from orbitmq.blocking import Producer
from orbitmq.clock import Clock, SystemClock, pause
from orbitmq.errors import (
    OrbitError,
    PartlySent,
    SendFailed,
    SendForbidden,
    SendIllegal,
    SendUnauthorised,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.spark.options.options import WriteOptions
from orbitmq.spark.writing.check_answers import ORBIT_WRITE
from orbitmq.spark.writing.half_list import HalfListWriter

__all__ = ["HalfSender"]

_PAUSE_MS: Final = 100
_FINAL: Final = (SendIllegal, SendUnauthorised, SendForbidden)


class HalfSender:
    """Sends half messages of one attempt of a task; ``place`` is its file in the ledger."""

    def __init__(
        self,
        producer: Producer,
        options: WriteOptions,
        place: str,
        listed: HalfListWriter,
        clock: Clock | None = None,
    ) -> None:
        self._producer = producer
        self._options = options
        self._immunity_s = -(-options.transaction_timeout_ms // 1000)
        self._mark = {ORBIT_WRITE: place}
        self._listed = listed
        self._clock = clock or SystemClock()

    def send_many(
        self,
        messages: Sequence[Message],
        *,
        queues: Sequence[MessageQueue | None] | None = None,
        frame_bytes: int | None = None,  # noqa: ARG002 - a half is always alone
    ) -> None:
        """Send all messages, and list their halves in the same order.

        Raise SendIllegal if the only message is refused, and PartlySent if some have no receipt.
        """
        places = queues or [None] * len(messages)
        marked = [one.replace(properties={**one.properties, **self._mark}) for one in messages]
        receipts: dict[int, SendReceipt] = {}
        errors: dict[int, OrbitError] = {}
        left = list(range(len(messages)))
        until_ms = self._clock.monotonic_ms() + self._options.send_timeout_ms
        for tried in range(self._options.retries + 1):
            again = []
            for index, result in zip(left, self._results(marked, places, left), strict=True):
                if isinstance(result, SendReceipt):
                    receipts[index] = result
                    errors.pop(index, None)
                    continue
                errors[index] = result
                if isinstance(result, SendFailed) and not isinstance(result, _FINAL):
                    again.append(index)
            left = again
            if not left or self._clock.monotonic_ms() >= until_ms:
                break
            if tried < self._options.retries:
                pause(_PAUSE_MS)
        self._listed.add(receipts[index] for index in sorted(receipts))
        if errors:
            raise _failure(messages, receipts, errors)

    def _results(
        self,
        messages: Sequence[Message],
        queues: Sequence[MessageQueue | None],
        indexes: Sequence[int],
    ) -> Sequence[SendReceipt | OrbitError]:
        return self._producer.prepare_many(
            [messages[index] for index in indexes],
            queues=[queues[index] for index in indexes],
            immunity_s=self._immunity_s,
        )


def _failure(
    messages: Sequence[Message],
    receipts: Mapping[int, SendReceipt],
    errors: Mapping[int, OrbitError],
) -> OrbitError:
    first = next(iter(errors.values()))
    if len(messages) == 1:
        return first
    return PartlySent(
        f"{len(errors)} of {len(messages)} half messages failed; the first error is "
        f"{type(first).__name__}: {first}",
        topic=", ".join(dict.fromkeys(messages[index].topic for index in errors))[:200],
        send_id=getattr(first, "send_id", ""),
        receipts=[receipts.get(index) for index in range(len(messages))],
        errors=errors,
    )
