"""Faults of a broker under test: what happens to which requests, and how often.

Everything here runs on the broker's loop, but for what a test reads of a ``Fault``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from orbitmq.errors import InvalidInput
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame

__all__ = [
    "AnswerLost",
    "Answered",
    "CutOff",
    "DiskFull",
    "Effect",
    "Fault",
    "Faults",
    "Late",
    "Lost",
    "Requests",
    "Unreachable",
    "codes_of",
]


@dataclass(frozen=True)
class Answered:
    """The request is not carried out, and answered with this code and remark."""

    code: int
    remark: str


@dataclass(frozen=True)
class Lost:
    """The request never arrives."""


@dataclass(frozen=True)
class AnswerLost:
    """The request is carried out, and its answer never arrives."""


@dataclass(frozen=True)
class Late:
    """The request arrives some seconds later."""

    seconds: float


@dataclass(frozen=True)
class CutOff:
    """The connection is reset, and the request is not carried out."""


@dataclass(frozen=True)
class Unreachable:
    """All connections are reset, new ones too."""


@dataclass(frozen=True)
class DiskFull:
    """The broker's file system is full."""


Effect: TypeAlias = Answered | Lost | AnswerLost | Late | CutOff | Unreachable | DiskFull
Requests: TypeAlias = str | RequestCode | Iterable[RequestCode]
"""``send``, ``pull`` and so on, or request codes."""

_NAMED: Final = {
    "send": (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ),
    "send_back": (RequestCode.CONSUMER_SEND_MSG_BACK,),
    "end_transaction": (RequestCode.END_TRANSACTION,),
    "pull": (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE),
    "commit": (RequestCode.UPDATE_CONSUMER_OFFSET,),
    "heartbeat": (RequestCode.HEART_BEAT,),
    "any": tuple(RequestCode),
}
_OF_CONNECTIONS: Final = (Answered, Lost, AnswerLost, Late, CutOff)


def codes_of(requests: Requests) -> frozenset[int]:
    """Return the codes of the requests that a fault strikes.

    >>> sorted(codes_of("pull")), codes_of(RequestCode.HEART_BEAT) == {34}
    ([11, 361], True)
    """
    if isinstance(requests, str):
        if requests not in _NAMED:
            raise InvalidInput(
                f"requests is {requests!r}; give one of {', '.join(_NAMED)}, or request codes "
                "(orbitmq.wire.codes.RequestCode)",
                field="requests",
            )
        return frozenset(map(int, _NAMED[requests]))
    codes = [requests] if isinstance(requests, int) else requests
    return frozenset(int(RequestCode(code)) for code in codes)


class Fault:
    """A fault that lasts until ``end``, the end of its ``with``, or its last time.

    >>> with Fault(Lost(), codes_of("send"), times=1, on_end=lambda _fault: None) as fault:
    ...     fault.hits
    0
    """

    def __init__(
        self,
        effect: Effect,
        codes: frozenset[int],
        *,
        topic: str | None = None,
        times: int | None = None,
        on_end: Callable[["Fault"], None],
    ) -> None:
        if times is not None and times < 1:
            raise InvalidInput(f"times is {times}; it must be at least 1", field="times")
        self.effect = effect
        self.hits = 0
        """How many requests it has struck."""
        self._codes = codes
        self._topic = topic
        self._times = times
        self._on_end = on_end

    def __repr__(self) -> str:
        return f"<Fault {self.effect}, {self.hits} hits>"

    def end(self) -> None:
        """End it; a second call does nothing."""
        self._on_end(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    @property
    def is_over(self) -> bool:
        """Whether it has struck as often as it was to."""
        return self._times is not None and self.hits >= self._times

    def strikes(self, request: Frame) -> bool:
        """Return whether it strikes a request."""
        if not isinstance(self.effect, _OF_CONNECTIONS) or request.code not in self._codes:
            return False
        return not self.is_over and self._topic in (None, _topic_of(request))


class Faults:
    """The faults that are there now, in the order in which they came."""

    def __init__(self) -> None:
        self.all: list[Fault] = []

    def __repr__(self) -> str:
        return f"<Faults {self.all}>"

    @property
    def is_unreachable(self) -> bool:
        """Whether no connection is served."""
        return any(isinstance(fault.effect, Unreachable) for fault in self.all)

    @property
    def is_disk_full(self) -> bool:
        """Whether the broker's file system is full."""
        return any(isinstance(fault.effect, DiskFull) for fault in self.all)

    def remove(self, fault: Fault) -> None:
        """Remove a fault; does nothing if it isn't there."""
        self.all = [one for one in self.all if one is not fault]

    def strike(self, request: Frame) -> Effect | None:
        """Return what happens to a request, and count it; None if it passes."""
        for fault in self.all:
            if fault.strikes(request):
                fault.hits += 1
                if fault.is_over:
                    self.remove(fault)
                return fault.effect
        return None


def _topic_of(request: Frame) -> str | None:
    fields = request.texts()
    # The short send header has letters in place of names.
    return fields.get("b" if request.code in _SHORT else "topic")


_SHORT: Final = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
