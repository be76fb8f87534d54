"""Answers received into one piece of memory, and the records in all of them, found together.

::

    memory   │ header │ records of an answer │ header │ records of an answer │ header │ …
                      ├──── its body ────────┤        ├──── its body ────────┤

All bodies are walked at once, one record of each per step, so that numpy reads the sizes of
hundreds of records in a few steps in C. Only plain records that follow each other without a gap are
read like this. If there is any other, `AnswerBatch.records` returns None, and the caller reads the
answers one by one.
"""

from ctypes import addressof, c_char
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orbitmq.message.buffer import Buffer
from orbitmq.message.record import AT, LEAST_SIZE, SIZE_AT, dtype
from orbitmq.spark.pulling.opened_records import NOT_PLAIN
from orbitmq.spark.pulling.record_run import Records

__all__ = ["ANSWER_BYTES", "AnswerBatch", "PulledAnswer"]

ANSWER_BYTES: Final = 5 * 1024 * 1024
"""Memory for what arrives while a batch fills: a window of answers of 256 KiB. It is seldom used,
and memory that isn't used costs nothing."""


class PulledAnswer(NamedTuple):
    """The body of an answer, whose records go from one offset to another if none is missing."""

    start: int
    reached: int
    body: memoryview


class AnswerBatch:
    """Memory to receive into, and the answers in it.

    Args:
        rows: a batch with as many records is full.
        size: a batch with as many bytes is full.
        margin: bytes of the memory that nothing is received into, so that readers of the last
            record may look beyond it.

    """

    def __init__(self, rows: int, size: int, margin: int) -> None:
        self._rows = rows
        self._size = size
        self._bytes = np.empty(size + ANSWER_BYTES + margin, np.uint8)
        self.memory = self._bytes.data[: size + ANSWER_BYTES]
        """Where a connection should put what it receives."""
        self._begin = _address(self.memory)
        self.answers: list[PulledAnswer] = []
        self._bases: list[int] = []
        self._total = 0

    def __repr__(self) -> str:
        return f"<AnswerBatch of {len(self.answers)} answers, {self._total} bytes>"

    def add(self, body: Buffer, start: int, reached: int) -> bool:
        """Add the next answer; False if it doesn't lie in the memory, or has no body."""
        if not isinstance(body, memoryview) or not body or body.obj is not self.memory.obj:
            return False
        self.answers.append(PulledAnswer(start, reached, body))
        self._bases.append(_address(body) - self._begin)
        self._total += len(body)
        return True

    @property
    def is_full(self) -> bool:
        """Whether the answers fill a batch."""
        if not self.answers:
            return False
        return (
            self._total >= self._size
            or self.answers[-1].reached - self.answers[0].start >= self._rows
        )

    def clear(self) -> None:
        """Drop the answers."""
        self.answers, self._bases, self._total = [], [], 0

    def records(self) -> Records | None:
        """Return all records, in order; None if they aren't plain, or one is missing.

        They stay valid as long as nothing is received into the memory.
        """
        starts = self._starts()
        if starts is None:
            return None
        first = self.answers[0].start
        offsets = self._read(starts + AT["queue_offset"], dtype("queue_offset"))
        sys_flags = self._read(starts + AT["sys_flag"], dtype("sys_flag"))
        if (sys_flags & NOT_PLAIN).any():
            return None
        if (offsets != np.arange(first, first + len(starts))).any():
            return None
        return Records(self._bytes.data, starts, is_batch=True)

    def _starts(self) -> NDArray[np.int64] | None:
        """Return where the records begin; None if an answer doesn't have those it should."""
        counts = np.array([one.reached - one.start for one in self.answers])
        positions = np.array(self._bases, np.int64)
        ends = positions + [len(one.body) for one in self.answers]
        rows = np.cumsum(counts) - counts  # of the first record of each answer
        starts = np.empty(int(counts.sum()), np.int64)
        steps = 0
        while len(positions):
            if (positions + LEAST_SIZE > ends).any():
                return None
            starts[rows + steps] = positions
            sizes = self._read(positions + SIZE_AT, dtype("size"))
            if (sizes < LEAST_SIZE).any():
                return None
            positions = positions + sizes
            steps += 1
            if (counts == steps).any():
                goes_on = counts > steps
                if (positions != ends)[~goes_on].any():
                    return None
                positions, ends = positions[goes_on], ends[goes_on]
                rows, counts = rows[goes_on], counts[goes_on]
        return starts

    def _read(self, places: NDArray[np.int64], kind: str) -> NDArray[np.int64]:
        """Return the integers that begin at some places."""
        size = np.dtype(kind).itemsize
        at_every_byte: NDArray[np.int64] = np.ndarray(
            (len(self._bytes) - size + 1,), kind, self._bytes.data, strides=(1,)
        )
        return at_every_byte[places].astype(np.int64)


def _address(memory: memoryview) -> int:
    """Return where writable memory begins, four times as fast as numpy does."""
    return addressof(c_char.from_buffer(memory))
