r"""Stable ids of written rows: a row of a task has the same id each time it is sent.

A Spark write is at least once: Spark retries a failed task and replays a streaming batch whose
commit failed, and a broker may have stored a message whose answer was lost. So each written message
has the property ``ORBIT_ID``, by which ``drop_duplicates`` finds copies::

    scope   = hash(query id and batch id, or the id of a batch write; partition id)
    content = hash, under the scope, of all columns of the message
    id      = content                      for the first row with this content in the task
              hash(content, n)             for the n-th equal row after it

Guaranteed:

- A retried task gives its rows the same ids, in any order: equal rows are numbered by count, not by
  position.
- Rows that are equal on purpose have different ids: within a task by n, across tasks by the
  partition id.
- Different rows have different ids, except for a collision of 128 bits.

Not guaranteed:

- A replayed streaming batch has the same ids only if Spark divides it into the same partitions, as
  it does for the same offsets and options. Otherwise copies have different ids, and stay. The
  partition id is still part of the scope: without it, equal rows of two partitions would have the
  same id, and dropping copies would lose a row.
- A batch write that you start again is another write, with other ids.

If rows have ids already, name the column by the option ``idColumn``, and none of this applies.
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
    """The ids of the rows of one task, which ``partition`` identifies in the write.

    ``origin`` identifies the write: query id and batch id, or the id of a batch write.

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
        """Return an id per row; a row is a tuple of texts, bytes, numbers, lists of them and None.

        Equal rows are counted over all calls.
        """
        encode, key = _encode, self._key
        contents = [blake2b(encode(row), digest_size=_ID_BYTES, key=key).digest() for row in rows]
        ids = [content.hex() for content in contents]
        # A content is two numbers; the first is enough to find equal rows.
        numbers = self._equal.count(np.frombuffer(b"".join(contents), "<u8")[::2])
        for index, number in numbers.items():
            again = b"%s%d" % (contents[index], number)
            ids[index] = blake2b(again, digest_size=_ID_BYTES, key=key).hexdigest()
        return ids


class EqualRows:
    """Counts equal rows by the first eight bytes of their hashes, in about eight bytes per row.

    A partition may have ten million rows, for which a dict would take a gigabyte. So hashes are
    kept in sorted arrays, each more than twice as long as the next, and only repeated ones in a
    dict. If different rows have the same eight bytes, they are counted together: their ids still
    differ, but depend on the order.

    >>> rows = EqualRows()
    >>> rows.count(np.array([5, 6, 5], np.uint64)), rows.count(np.array([6, 7], np.uint64))
    ({2: 1}, {0: 1})
    """

    def __init__(self) -> None:
        self._seen: list[Prefixes] = []
        self._counts: dict[int, int] = {}

    def count(self, prefixes: Prefixes) -> dict[int, int]:
        """Return how many equal rows came before, by index; leaves out rows without any."""
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
    """Return for each prefix whether it is in a sorted run."""
    if not len(run):
        return np.zeros(len(prefixes), bool)
    places = np.minimum(np.searchsorted(run, prefixes), len(run) - 1)
    found: npt.NDArray[np.bool_] = run[places] == prefixes
    return found


_encode: Final = msgspec.msgpack.Encoder().encode
