"""The limits on sends in flight, by number and by bytes.

A send takes a permit at once if there is one. Otherwise it waits in line, in the order of calls,
until its time ends. A permit that is given back goes to the first in line, so that no later send
overtakes it.
"""

import asyncio
import enum
from collections import OrderedDict
from typing import Final

import msgspec

__all__ = ["WAITING_MAX", "Permits", "Shortage", "ShortageKind"]

WAITING_MAX: Final = 50_000
"""Sends that may wait for a permit: as many as Java's executor of async sends holds."""


class ShortageKind(enum.Enum):
    """Why there was no permit."""

    COUNT = "the limit on sends in flight is reached"
    BYTES = "the limit on bytes in flight is reached"
    WAITING = "the limit on waiting sends is reached"
    CLOSED = "the producer is closed"


class Shortage(msgspec.Struct, frozen=True):
    """Why a send got no permit, and the numbers at that time; the bytes are those of bodies."""

    kind: ShortageKind
    in_flight: int
    in_flight_bytes: int
    waiting: int


Place = asyncio.Future[Shortage | None]
"""A place in line; its result is None for a permit, or why there was none."""


class Permits:
    """Permits for sends in flight. Belongs to one loop.

    Each successful :meth:`take` or :meth:`wait` is followed by one :meth:`give_back` of the same
    size, however the send ends.

    The limits are on sends in flight, on the bytes of their bodies (a larger body is sent alone),
    and on sends that wait; one more is rejected at once.
    """

    def __init__(self, count_max: int, bytes_max: int, waiting_max: int = WAITING_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._waiting_max = waiting_max
        self.in_flight = 0
        self.in_flight_bytes = 0
        self._line: OrderedDict[Place, int] = OrderedDict()
        self._emptied: asyncio.Event | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """Sends that wait for a permit."""
        return len(self._line)

    def take(self, size: int) -> bool:
        """Take a permit for a body of that many bytes, if there is one and no other send waits."""
        # Every send calls this, so ``_fits`` and ``_add`` are inlined.
        if self._line or self._closed or self.in_flight >= self._count_max:
            return False
        most = self._bytes_max
        held = self.in_flight_bytes + (size if size < most else most)  # noqa: FURB136 - fast
        if held > most:
            return False
        self.in_flight += 1
        self.in_flight_bytes = held
        return True

    async def wait(self, size: int, timeout_ms: int) -> Shortage | None:
        """Take a permit as soon as there is one; return None, or why there was none in time.

        A caller that is cancelled has taken none.
        """
        if self.take(size):
            return None
        if self._closed or timeout_ms <= 0 or len(self._line) >= self._waiting_max:
            return self._shortage()
        loop = asyncio.get_running_loop()
        place: Place = loop.create_future()
        self._line[place] = size
        timer = loop.call_later(timeout_ms / 1_000, self._leave, place)
        try:
            return await place
        except asyncio.CancelledError:
            self._withdraw(place, size)
            raise
        finally:
            timer.cancel()

    def give_back(self, size: int, count: int = 1) -> None:
        """Give back the permit of a send that has ended.

        Or of several at once: ``size`` is that of all bodies then, each within the limit on bytes.
        """
        assert self.in_flight >= count, "a send gave back its permit twice"
        self.in_flight -= count
        if count == 1:
            size = min(size, self._bytes_max)
        self.in_flight_bytes -= size
        if self._line:
            self._admit()
        if self._emptied is not None and not self.in_flight:
            self._emptied.set()
            self._emptied = None

    async def drained(self) -> None:
        """Return when no send is in flight or waits; the caller limits the time."""
        while self.in_flight:  # none waits while it is 0
            if self._emptied is None:
                self._emptied = asyncio.Event()
            await self._emptied.wait()

    def close(self) -> None:
        """Give out no more permits, and end the wait of all sends."""
        self._closed = True
        shortage = self._shortage()
        for place in self._line:
            if not place.done():
                place.set_result(shortage)
        self._line.clear()

    def __repr__(self) -> str:
        return (
            f"<Permits {self.in_flight} of {self._count_max} sends, {self.in_flight_bytes} of "
            f"{self._bytes_max} bytes, {self.waiting} waiting>"
        )

    def _fits(self, size: int) -> bool:
        free = self._bytes_max - self.in_flight_bytes
        return self.in_flight < self._count_max and min(size, self._bytes_max) <= free

    def _add(self, size: int) -> None:
        self.in_flight += 1
        self.in_flight_bytes += min(size, self._bytes_max)

    def _admit(self) -> None:
        """Give permits to the first in line, as far as they fit."""
        while self._line:
            place, size = next(iter(self._line.items()))
            if not place.done():  # otherwise its caller was cancelled, and has not run since
                if not self._fits(size):
                    return
                self._add(size)
                place.set_result(None)
            del self._line[place]

    def _leave(self, place: Place) -> None:
        """End the wait of a send whose time ended; those behind it may be smaller."""
        if self._line.pop(place, None) is not None:
            if not place.done():
                place.set_result(self._shortage())  # the numbers of now, not of when it is read
            self._admit()

    def _withdraw(self, place: Place, size: int) -> None:
        if self._line.pop(place, None) is not None:
            self._admit()
        elif not place.cancelled() and place.result() is None:
            self.give_back(size)

    def _shortage(self) -> Shortage:
        if self._closed:
            kind = ShortageKind.CLOSED
        elif len(self._line) >= self._waiting_max:
            kind = ShortageKind.WAITING
        elif self.in_flight >= self._count_max:
            kind = ShortageKind.COUNT
        else:
            kind = ShortageKind.BYTES
        return Shortage(kind, self.in_flight, self.in_flight_bytes, len(self._line))
