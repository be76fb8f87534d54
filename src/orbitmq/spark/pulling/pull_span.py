"""How many offsets one pull should cover, learned from the answers.

The broker decides how much it returns: 32 records or 256 KiB, of old records 8 or 64 KiB, with a
filter what it finds in 800 entries. To have several pulls in flight, the client must guess where
each answer ends. So each pull gets a span of offsets, and what the answer leaves of it is pulled
again. A span that is too long costs that second pull; one that is too short makes answers smaller
than they could be.
"""

from typing import Final

__all__ = ["PullSpan"]

_PATIENCE_MIN: Final = 128
_PATIENCE_MAX: Final = 4_096


class PullSpan:
    """The number of offsets for the next pull, at most ``most``.

    It shrinks at once to what an answer covered, and grows by a quarter after many answers that
    covered everything requested. If growing was a mistake, it waits twice as long before it grows
    again: if all records have the same size, nearly every answer is complete.

    >>> span = PullSpan(1024)
    >>> span.learn(asked=1024, covered=32)
    >>> span.length
    32
    """

    def __init__(self, most: int) -> None:
        self.length = most
        self._most = most
        self._patience = _PATIENCE_MIN
        self._whole = 0

    def __repr__(self) -> str:
        return f"<PullSpan of {self.length}, at most {self._most}>"

    def learn(self, *, asked: int, covered: int) -> None:
        """Note that an answer to a pull of ``asked`` offsets covered ``covered`` of them."""
        if covered < asked:
            if covered < self.length:
                self.length = max(covered, 1)
                self._patience = min(2 * self._patience, _PATIENCE_MAX)
            self._whole = 0
        elif asked >= self.length:
            self._whole += 1
            if self._whole >= self._patience:
                self.length = min(self.length + max(1, self.length // 4), self._most)
                self._whole = 0
