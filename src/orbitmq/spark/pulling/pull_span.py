"""How many offsets one pull covers: learnt from the answers, so that the next pulls need not wait.

A broker gives what it likes: 32 records or 256 KiB, of old ones 8 or 64 KiB, with a filter as many
as it finds in 800 entries. Several pulls can be on their way at once only if one knows where the
one before will end; so each gets a stretch of the queue, and what an answer leaves of it has to be
asked for once more. Too long a stretch costs that second question, too short a one gives answers
that could be larger.
"""

from typing import Final

__all__ = ["Stride"]

_PATIENCE_MIN: Final = 128
_PATIENCE_MAX: Final = 4_096


class Stride:
    """The length of the next stretch. Pure: it is told how far answers went.

    It shrinks at once to what an answer covered, and grows by a quarter after many answers that
    covered all they were asked for. Growing in vain makes it wait twice as long before the next
    try: where all records have one size, nearly every answer is whole.

    Args:
        most: what an answer may cover at best.

    >>> stride = Stride(1024)
    >>> stride.learn(asked=1024, covered=32)
    >>> stride.length
    32

    """

    def __init__(self, most: int) -> None:
        self.length = most
        self._most = most
        self._patience = _PATIENCE_MIN
        self._whole = 0

    def __repr__(self) -> str:
        return f"<Stride of {self.length}, at most {self._most}>"

    def learn(self, *, asked: int, covered: int) -> None:
        """Take note of an answer to a stretch of ``asked`` offsets, which went ``covered`` far."""
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
