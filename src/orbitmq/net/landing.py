"""Memory of a caller that a connection receives into, so that bodies need not be copied.

::

    memory   │ kept bodies │ frame │ frame │ begin of a frame │ room │
                                           parsed             used

Frames stay where they arrive, and bodies are views of them. The memory is never used again from the
front: when it is full, the connection goes on with memory of its own.
"""

from collections.abc import Iterator

from orbitmq.wire.frame import LEAD_SIZE, Buffer, Frame, unpack_lead
from orbitmq.wire.session import Session

__all__ = ["Landing"]

_ROOM_MIN = 4_096
"""With less room, reads would become many and small."""


class Landing:
    """How much of some writable memory is used, and what of it are whole frames.

    >>> landing = Landing(memoryview(bytearray(10_000)))
    >>> bytes(landing.place(b"kept") or b""), landing
    (b'kept', <Landing 4 of 10000 bytes used>)
    """

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._parsed = 0
        self._used = 0

    def __repr__(self) -> str:
        return f"<Landing {self._used} of {len(self._memory)} bytes used>"

    def place(self, data: Buffer) -> memoryview | None:
        """Copy the body of a frame here; return where it is now, None if there is no room.

        Only before the first byte of a frame is received.
        """
        placed = self._add(data)
        if placed is not None:
            self._parsed = self._used
        return placed

    def begin(self, data: Buffer) -> bool:
        """Take the beginning of a frame, the rest of which is still to come; False: no room."""
        return self._add(data) is not None

    def room(self) -> memoryview | None:
        """Return where the next bytes go; None if the next frame won't fit."""
        need = self._used + _ROOM_MIN
        if self._used - self._parsed >= LEAD_SIZE:
            total, _ = unpack_lead(self._memory, self._parsed)
            need = max(need, self._parsed + 4 + total)
        return None if need > len(self._memory) else self._memory[self._used :]

    def receive(self, size: int, session: Session[None]) -> Iterator[Frame]:
        """Yield the frames that ``size`` bytes, now at the start of the room, complete.

        Exhaust the iterator before the next call. Raise RemoteProtocolError as the session does.
        """
        self._used += size
        begin = session.position
        yield from session.receive_whole(self._memory[self._parsed : self._used])
        self._parsed += session.position - begin

    def rest(self) -> memoryview:
        """Return what was received of an incomplete frame."""
        return self._memory[self._parsed : self._used]

    def _add(self, data: Buffer) -> memoryview | None:
        end = self._used + len(data)
        if end > len(self._memory):
            return None
        added = self._memory[self._used : end]
        added[:] = data
        self._used = end
        return added
