r"""The property texts of many messages as names and values: whole columns at a time.

All texts together are one run of bytes. Where every separator is in its place, which is nearly
always, the separators alone say where names and values are::

    K E Y S ␁ o - 4 2 ␂ T A G S ␁ p a i d ␂ │ T A G S ␁ n e w ␂
    name      value     name      value     │ name      value       ␁ U+0001, ␂ U+0002

>>> pairs = PropertyPairs(pa.array([b"KEYS\x01o-42\x02TAGS\x01paid\x02", b""]))
>>> pairs.values_of("TAGS").to_pylist(), pairs.maps()[0].as_py()
(['paid', None], [('KEYS', 'o-42'), ('TAGS', 'paid')])
"""

from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orbitmq.message import properties

__all__ = ["PropertyPairs"]

_NAME_END, _VALUE_END = ord(properties.NAME_END), ord(properties.VALUE_END)
assert (_NAME_END, _VALUE_END) == (1, 2)  # no byte between them, and only zero below
_TABLE_MAX: Final = 1 << 24
"""Cells of the table in which repeated names are looked for; with more, they are sorted."""


class _Columns(NamedTuple):
    """The pairs of row n are those from ``offsets[n]`` up to ``offsets[n + 1]``."""

    offsets: NDArray[np.int32]
    names: pa.Array
    values: pa.Array


class PropertyPairs:
    """The properties of some messages, read as ``message.properties.decode`` reads them.

    ``texts`` is ``binary`` without nulls; each is empty, or has U+0002 at its end.
    """

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts
        self._columns = _quickly(texts) or _one_by_one(texts)
        encoded = self._columns.names.dictionary_encode()
        self._codes: NDArray[np.int32] = encoded.indices.to_numpy()
        self._names: list[str] = encoded.dictionary.to_pylist()

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property in each row, null where it has none: ``string``."""
        offsets, _, values = self._columns
        rows = len(offsets) - 1
        if name not in self._names:
            return pa.nulls(rows, pa.string())
        found = np.flatnonzero(self._codes == self._names.index(name))
        pair = np.full(rows, -1, np.int64)
        pair[self._rows()[found]] = found  # where a name repeats, the last one stays
        return values.take(pa.array(pair, mask=pair < 0))

    def maps(self) -> pa.Array:
        """Return all properties of each row: ``map<string, string>``, no name twice."""
        offsets, names, values = self._columns
        if self._has_repeats():
            offsets, names, values = _one_by_one(self._texts)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)

    def _rows(self) -> NDArray[np.int64]:
        """Return the row of each pair."""
        offsets = self._columns.offsets
        return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def _has_repeats(self) -> bool:
        """Return whether some row has a name twice."""
        rows, count = len(self._columns.offsets) - 1, len(self._names)
        cells = self._rows() * count + self._codes
        if rows * count > _TABLE_MAX:
            return len(np.unique(cells)) < len(cells)
        seen = np.zeros(rows * count, bool)
        seen[cells] = True
        return bool(np.count_nonzero(seen) < len(cells))


def _quickly(texts: pa.Array) -> _Columns | None:
    """Return the pairs if all texts are as our own clients and Java's write them, else None."""
    _, offset_buffer, data = texts.buffers()
    ends = np.frombuffer(offset_buffer, np.int32)[: len(texts) + 1]
    run = np.frombuffer(data, np.uint8)[: ends[-1]]
    separators = np.flatnonzero((run - np.uint8(_NAME_END)) < _VALUE_END).astype(np.int32)
    name_ends, value_ends = separators[0::2], separators[1::2]
    if not (
        len(name_ends) == len(value_ends)
        and (run[name_ends] == _NAME_END).all()
        and (run[value_ends] == _VALUE_END).all()
        and _is_utf8(run)
    ):
        return None
    name_starts = np.empty_like(name_ends)
    name_starts[:1] = 0
    name_starts[1:] = value_ends[:-1] + 1
    if not ((name_starts < name_ends).all() and (name_ends + 1 < value_ends).all()):
        return None
    bounds = np.stack([name_starts, name_ends, name_ends + 1, value_ends], 1)
    pieces = _laid_over(data, bounds)  # a name, U+0001, a value, U+0002, a name, …
    names = np.arange(0, len(pieces), 4)
    return _Columns(
        np.searchsorted(value_ends, ends).astype(np.int32),
        pieces.take(pa.array(names)),
        pieces.take(pa.array(names + 2)),
    )


def _is_utf8(run: NDArray[np.uint8]) -> bool:
    """Return whether all texts are; each ends in ASCII, so that none can mend the one before it."""
    text = run.tobytes()
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True


def _laid_over(data: pa.Buffer, bounds: NDArray[np.int32]) -> pa.Array:
    """Return the pieces of a run of bytes between ascending bounds: ``string``."""
    count = bounds.size
    offsets = np.empty(count + 1, np.int32)
    offsets[:count] = bounds.ravel()
    offsets[count:] = offsets[count - 1] + 1 if count else 0
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), data])


def _one_by_one(texts: pa.Array) -> _Columns:
    """Return the pairs of any texts."""
    found = [properties.decode(text) for text in texts.to_pylist()]
    offsets = np.fromiter(accumulate(map(len, found), initial=0), np.int32, len(found) + 1)
    names = pa.array([name for row in found for name in row], pa.string())
    values = pa.array([value for row in found for value in row.values()], pa.string())
    return _Columns(offsets, names, values)
