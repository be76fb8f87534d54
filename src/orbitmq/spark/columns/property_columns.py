r"""The property texts of many messages as names and values: whole columns at a time.

All texts together are one run of bytes. Where every separator is in its place, which is nearly
always, the separators alone say where names and values are::

    K E Y S ␁ o - 4 2 ␂ T A G S ␁ p a i d ␂ │ T A G S ␁ n e w ␂
    name      value     name      value     │ name      value       ␁ U+0001, ␂ U+0002

If all rows have the names of the first one, in its order, which is usual for a topic, the values of
a name are every n-th value, and no name is read but those of the first row.

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
        run = _Run.of(texts)
        self._alike = None if run is None else run.alike()
        if self._alike is not None:
            return
        self._columns = (run and run.columns()) or _one_by_one(texts)
        encoded = self._columns.names.dictionary_encode()
        self._codes: NDArray[np.int32] = encoded.indices.to_numpy()
        self._names: list[str] = encoded.dictionary.to_pylist()

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property in each row, null where it has none: ``string``."""
        if self._alike is not None:
            return self._alike.values_of(name)
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
        if self._alike is not None:
            return self._alike.maps()
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


class _Run(NamedTuple):
    """Texts as our own clients and Java's write them: all separators are in their places."""

    data: pa.Buffer
    bytes: NDArray[np.uint8]
    row_ends: NDArray[np.int32]
    """Where each row ends, and before them where the first one begins."""
    bounds: NDArray[np.int32]
    """Where each name begins and ends, and its value begins and ends."""

    @classmethod
    def of(cls, texts: pa.Array) -> "_Run | None":
        """Return the texts as a run; None if they are written in another way."""
        _, offset_buffer, data = texts.buffers()
        row_ends = np.frombuffer(offset_buffer, np.int32)[: len(texts) + 1]
        run = np.frombuffer(data, np.uint8)[: row_ends[-1]]
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
        return cls(data, run, row_ends, bounds)

    def columns(self) -> _Columns:
        """Return all pairs."""
        # a name, U+0001, a value, U+0002, a name, …
        pieces = _laid_over(self.data, self.bounds)
        names = np.arange(0, len(pieces), 4)
        return _Columns(
            np.searchsorted(self.bounds[:, 3], self.row_ends).astype(np.int32),
            pieces.take(pa.array(names)),
            pieces.take(pa.array(names + 2)),
        )

    def alike(self) -> "_AlikeRows | None":
        """Return the values by name if all rows have the same names, in the same order, each once.

        Every row must have a property.
        """
        rows = len(self.row_ends) - 1
        pairs = len(self.bounds) // rows if rows else 0
        if not pairs or pairs * rows != len(self.bounds):
            return None
        bounds = self.bounds.reshape(rows, pairs, 4)
        if (bounds[:, -1, 3] + 1 != self.row_ends[1:]).any():
            return None
        names = [bytes(self.bytes[begin:end]) for begin, end in bounds[0, :, :2].tolist()]
        if len(set(names)) < pairs:
            return None
        for pair, name in enumerate(names):
            begins, size = bounds[:, pair, 0], len(name)
            if (bounds[:, pair, 1] - begins != size).any():
                return None
            at_every_byte: NDArray[np.void] = np.ndarray(
                (len(self.bytes) - size + 1,), f"V{size}", self.bytes.data, strides=(1,)
            )
            if (at_every_byte[begins] != np.void(name)).any():
                return None
        return _AlikeRows(self.data, [name.decode() for name in names], bounds[:, :, 2:])


class _AlikeRows(NamedTuple):
    """Rows that all have the same names, and where the value of each begins and ends."""

    data: pa.Buffer
    names: list[str]
    values: NDArray[np.int32]

    def values_of(self, name: str) -> pa.Array:
        """Return the value of one property in each row, null if there is none."""
        if name not in self.names:
            return pa.nulls(len(self.values), pa.string())
        return self._cut(self.values[:, self.names.index(name)])

    def maps(self) -> pa.Array:
        """Return all properties of each row."""
        rows, pairs = self.values.shape[:2]
        offsets = np.arange(0, (rows + 1) * pairs, pairs, dtype=np.int32)
        names = pa.array(self.names, pa.string()).take(pa.array(np.tile(np.arange(pairs), rows)))
        return pa.MapArray.from_arrays(pa.array(offsets), names, self._cut(self.values))

    def _cut(self, bounds: NDArray[np.int32]) -> pa.Array:
        """Return the pieces between ascending bounds, begin and end of each."""
        pieces = _laid_over(self.data, bounds)
        return pieces.take(pa.array(np.arange(0, len(pieces), 2)))


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
