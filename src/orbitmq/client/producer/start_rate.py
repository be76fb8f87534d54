"""The rate of producer starts: one producer per message is a mistake, and logged once."""

import logging
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Final

__all__ = ["StartRate", "call_site", "called_from"]

log = logging.getLogger("orbitmq.client")

_STARTS_MAX: Final = 10
_MINUTE_MS: Final = 60_000
_OWN: Final = __name__.partition(".")[0]

_given_site: ContextVar[str | None] = ContextVar("orbitmq_call_site", default=None)


class StartRate:
    """Counts starts, and warns once about too many in a minute."""

    def __init__(self) -> None:
        self._starts: deque[int] = deque(maxlen=_STARTS_MAX + 1)
        self._has_warned = False

    def note(self, now_ms: int) -> None:
        """Count a start, at a time of a monotonic clock."""
        self._starts.append(now_ms)
        many = len(self._starts) > _STARTS_MAX and now_ms - self._starts[0] < _MINUTE_MS
        if many and not self._has_warned:
            self._has_warned = True
            log.warning(
                "more than %d producers were started within a minute, the last one at %s; create "
                "one producer and share it: each start asks nameservers and connects to brokers",
                _STARTS_MAX,
                _given_site.get() or call_site(),
            )


def call_site() -> str:
    """Return the caller outside of this package, as ``file:line``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in (_OWN, "asyncio"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"


@contextmanager
def called_from(site: str) -> Iterator[None]:
    """Use this call site for starts in the block, which run on another thread."""
    token = _given_site.set(site)
    try:
        yield
    finally:
        _given_site.reset(token)
