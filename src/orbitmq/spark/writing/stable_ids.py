r"""Stable ids of written rows: the same row of a task has the same id however often it is sent.

A Spark write is at least once: a task that fails half-way is run again, a streaming batch whose
commit failed is replayed, and brokers may store a message whose answer was lost. Each written
message therefore carries the property ``ORBIT_ID``, by which ``drop_duplicates`` finds copies::

    scope   = hash(query id and batch id, or the id of a batch write; partition id)
    content = hash, under the scope, of all columns that make the message
    id      = content                      of the first row with this content in the task
              hash(content, n)             of the n-th equal one after it

What that promises:

- A task that is run again gives its rows the ids they had, in whatever order they come: the n-th of
  equal rows is n-th by count, not by place.
- Rows that are equal, and were meant to be, keep different ids: within a task by n, across tasks
  by the partition id.
- Of different rows no two have the same id, but for a collision of 128 bits.

What it doesn't:

- A replayed streaming batch has the ids it had as long as Spark cuts it into the same partitions,
  as it does for the same offsets and options. If it is cut otherwise, copies differ in their ids,
  and stay. The partition id is part of the scope all the same: without it, equal rows of two
  partitions would have one id, and dropping copies would lose a row.
- A batch write that you start again is another write, with other ids.

Where rows have an id of their own, the option ``idColumn`` names it, and none of this applies.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["ORBIT_ID", "EqualRows", "StableIds"]

ORBIT_ID: Final = "ORBIT_ID"
"""The property that holds the id."""

_ID_BYTES: Final = 16
_SCOPE_BYTES: Final = 32

Prefixes = npt.NDArray[np.uint64]


class StableIds:
    """The ids of the rows of one task.

    Args:
        origin: what the write is: query id and batch id, or the id of a batch write.
        partition: which task of the write it is.

    >>> ids = StableIds(("query", "7"), partition=0)
    >>> first = ids.of([(b"paid",), (b"paid",), (b"late",)])
    >>> len(set(first)), len(first[0])
    (3, 32)
    >>> again = StableIds(("query", "7"), partition=0).of([(b"late",), (b"paid",), (b"paid",)])
    >>> sorted(again) == sorted(first)
    True

    """

    def __init__(self, origin: Sequence[str], partition: int) -> None:
        scope = _encode((*origin, partition))
        self._key = blake2b(scope, digest_size=_SCOPE_BYTES).digest()
        self._equal = EqualRows()

    def of(self, rows: Iterable[tuple[object, ...]]) -> list[str]:
        """Return an id for each row: a tuple of texts, bytes, numbers, lists of them and None.

        Rows are counted: the next call goes on where this one ended.
        """
        encode, key = _encode, self._key
        contents = [blake2b(encode(row), digest_size=_ID_BYTES, key=key).digest() for row in rows]
        ids = [content.hex() for content in contents]
        # Two numbers in a content, of which the first will do to tell whether rows are equal.
        numbers = self._equal.count(np.frombuffer(b"".join(contents), "<u8")[::2])
        for index, number in numbers.items():
            again = b"%s%d" % (contents[index], number)
            ids[index] = blake2b(again, digest_size=_ID_BYTES, key=key).hexdigest()
        return ids


class EqualRows:
    """Counts equal rows by the first eight bytes of their hashes, in about eight bytes a row.

    A partition may have ten million rows, for which a dict would take a gigabyte. So what was seen
    is kept in sorted arrays, each more than twice as long as the next, and only what was seen twice
    in a dict. Should the eight bytes of different rows be equal, they are counted together: their
    ids still differ, and only depend on the order.

    >>> rows = EqualRows()
    >>> rows.count(np.array([5, 6, 5], np.uint64)), rows.count(np.array([6, 7], np.uint64))
    ({2: 1}, {0: 1})

    """

    def __init__(self) -> None:
        self._seen: list[Prefixes] = []
        self._counts: dict[int, int] = {}

    def count(self, prefixes: Prefixes) -> dict[int, int]:
        """Return how many equal rows came before, by index, of those that any came before."""
        fresh, counts = np.unique(prefixes, return_counts=True)
        seen = np.zeros(len(prefixes), bool)
        for run in self._seen:
            seen |= _is_in(run, prefixes)
        repeated = fresh[counts > 1]
        numbers: dict[int, int] = {}
        for index in np.flatnonzero(seen | _is_in(repeated, prefixes)).tolist():
            prefix = int(prefixes[index])
            number = self._counts.get(prefix, int(seen[index]))
            self._counts[prefix] = number + 1
            if number:
                numbers[index] = number
        self._remember(fresh)
        return numbers

    def _remember(self, run: Prefixes) -> None:
        while self._seen and len(self._seen[-1]) <= 2 * len(run):
            run = np.union1d(self._seen.pop(), run)
        if len(run):
            self._seen.append(run)


def _is_in(run: Prefixes, prefixes: Prefixes) -> npt.NDArray[np.bool_]:
    """Return of each prefix whether it is in a sorted run."""
    if not len(run):
        return np.zeros(len(prefixes), bool)
    places = np.minimum(np.searchsorted(run, prefixes), len(run) - 1)
    found: npt.NDArray[np.bool_] = run[places] == prefixes
    return found


_encode: Final = msgspec.msgpack.Encoder().encode
