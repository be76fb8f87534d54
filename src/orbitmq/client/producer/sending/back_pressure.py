"""How many sends, and how many bytes of bodies, may be on their way at once.

A send that finds room takes it without waiting. The others wait in the order of their calls, each
until its own time is over. Room is handed to the first in line by whoever gives it back, so that
nobody slips in between, and nobody who went away holds it.
"""

import asyncio
import enum
from collections import OrderedDict
from typing import Final

import msgspec

__all__ = ["WAITING_MAX", "Permits", "Shortage", "ShortageKind"]

WAITING_MAX: Final = 50_000
"""Sends that may wait for room: as many as Java's executor of async sends holds."""


class ShortageKind(enum.Enum):
    """Why there was no room."""

    COUNT = "as many sends as may be are on their way"
    BYTES = "as many bytes as may be are on their way"
    WAITING = "as many sends as may wait for room do"
    CLOSED = "the producer is closed"


class Shortage(msgspec.Struct, frozen=True):
    """Why a send got no room, and how things stood then.

    Attributes:
        kind: which bound was met.
        in_flight: sends on their way.
        in_flight_bytes: the bytes of their bodies.
        waiting: sends that wait for room.

    """

    kind: ShortageKind
    in_flight: int
    in_flight_bytes: int
    waiting: int


Turn = asyncio.Future[Shortage | None]
"""A place in line: None once there is room, or why there was none."""


class Permits:
    """Room for sends on their way. Belongs to one loop.

    Each :meth:`take` or :meth:`wait` that succeeded is followed by one :meth:`give_back` of the
    same size, whatever became of the send.

    Args:
        count_max: sends that may be on their way.
        bytes_max: the bytes of their bodies. A larger one goes alone.
        waiting_max: sends that may wait; one more gets no room at once.

    """

    def __init__(self, count_max: int, bytes_max: int, waiting_max: int = WAITING_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._waiting_max = waiting_max
        self.in_flight = 0
        self.in_flight_bytes = 0
        self._line: OrderedDict[Turn, int] = OrderedDict()
        self._emptied: asyncio.Event | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """Sends that wait for room."""
        return len(self._line)

    def take(self, size: int) -> bool:
        """Take room for a body of that many bytes, if there is and nobody waits for it."""
        # Every send comes here, so that ``_fits`` and ``_add`` are written out.
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
        """Take room as soon as there is; None once it is taken, and why not if time is over.

        A caller that is cancelled has taken nothing.
        """
        if self.take(size):
            return None
        if self._closed or timeout_ms <= 0 or len(self._line) >= self._waiting_max:
            return self._shortage()
        loop = asyncio.get_running_loop()
        turn: Turn = loop.create_future()
        self._line[turn] = size
        timer = loop.call_later(timeout_ms / 1_000, self._leave, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            self._withdraw(turn, size)
            raise
        finally:
            timer.cancel()

    def give_back(self, size: int) -> None:
        """Give back the room of a send that has ended."""
        assert self.in_flight > 0, "a send gave back its room twice"
        self.in_flight -= 1
        most = self._bytes_max
        self.in_flight_bytes -= size if size < most else most  # noqa: FURB136 - fast
        if self._line:
            self._admit()
        if self._emptied is not None and not self.in_flight:
            self._emptied.set()
            self._emptied = None

    async def drained(self) -> None:
        """Return once nothing is on its way and nobody waits; the caller bounds the time."""
        while self.in_flight:  # and while it is 0, nobody waits
            if self._emptied is None:
                self._emptied = asyncio.Event()
            await self._emptied.wait()

    def close(self) -> None:
        """Give room to nobody any more; those who wait for it are told."""
        self._closed = True
        shortage = self._shortage()
        for turn in self._line:
            if not turn.done():
                turn.set_result(shortage)
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
        """Hand room to the first in line, as far as it reaches."""
        while self._line:
            turn, size = next(iter(self._line.items()))
            if not turn.done():  # else its caller was cancelled, and has not run since
                if not self._fits(size):
                    return
                self._add(size)
                turn.set_result(None)
            del self._line[turn]

    def _leave(self, turn: Turn) -> None:
        """Let one go whose time is over; those behind it may need less room."""
        if self._line.pop(turn, None) is not None:
            if not turn.done():
                turn.set_result(self._shortage())  # as things stand now, not when it is read
            self._admit()

    def _withdraw(self, turn: Turn, size: int) -> None:
        if self._line.pop(turn, None) is not None:
            self._admit()
        elif not turn.cancelled() and turn.result() is None:
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
