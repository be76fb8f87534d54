"""Files and directories that know what was synced, and what a power loss may leave of them.

A file has its bytes as written (the page cache, which every reader sees) and the pages that have
reached the disk. A directory has its current names and the names that have reached the disk. What a
real disk may do, this one does:

- Synced bytes survive. Unsynced ones survive or not, page by page, sector by sector.
- The system may write a page back at any time, even in the middle of a write to it.
- The length of a file may be lost with the bytes that extended it. It may also survive without
  them, and then they are zeros.
- Changes of one directory reach the disk in order; those of two directories are independent.
- A file whose name is lost is lost, even if it was synced.
- After a failed sync the system considers the pages clean: a later sync doesn't write them.

>>> contents = Contents(now_ms=0)
>>> contents.write(b"synced, ", 0, chance=None)
>>> contents.sync()
>>> contents.write(b"not yet", 8, chance=None)
>>> bytes(contents.data), bytes(contents.surviving(None).data)
(b'synced, not yet', b'synced, ')

"""

import threading
from typing import Final, TypeAlias

from orbitmq.randomness import Randomness

__all__ = ["Contents", "Folder", "Node"]

PAGE: Final = 4096
SECTOR: Final = 512

_WRITES_PER_WRITE_BACK: Final = 8
"""One in this many writes is written back at once, whole or torn: often enough to occur in a run
of a hundred steps, rarely enough that most unsynced writes can still be lost."""


class Contents:
    """The content of one file, whatever its name. One thread may write while another syncs.

    ``data`` has the bytes as written, ``modified_ms`` the time of the last change.
    """

    __slots__ = (
        *("_dirty", "_durable", "_durable_size", "_lock", "_mapped", "_reserved", "_taken"),
        *("data", "modified_ms"),
    )

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = now_ms
        self._mapped: list[bytearray] = []  # shorter versions that are still mapped
        self._dirty: set[int] = set()  # page numbers
        self._durable: dict[int, bytes] = {}  # by page number; a missing page is all zeros
        self._durable_size = 0
        self._reserved: set[int] = set()  # pages with reserved space
        self._taken: set[int] = set()  # other pages that have space; the rest are holes
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Contents {len(self.data)} bytes, {len(self._dirty)} pages not synced>"

    def write(self, data: bytes, offset: int, *, chance: Randomness | None) -> None:
        """Write ``data`` at ``offset``; by chance a part of it reaches the disk meanwhile."""
        if not data:
            return
        pages = _pages(offset, len(data))
        with self._lock:
            self._grow(offset + len(data))
            written = 0
            if chance is not None and chance.below(_WRITES_PER_WRITE_BACK) == 0:
                written = chance.below(len(data) + 1)
                self._put(data[:written], offset)
                self._write_back(pages)
            self._put(data[written:], offset + written)
            self._dirty.update(pages)
            self._taken.update(page for page in pages if page not in self._reserved)

    def grow(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, with a hole at its end."""
        with self._lock:
            self._grow(size)

    def reserve(self, size: int, offset: int) -> None:
        """Reserve space for ``size`` bytes from ``offset`` on; a shorter file is extended."""
        with self._lock:
            self._grow(offset + size)
            self._reserved.update(_pages(offset, size))
            self._taken -= self._reserved

    @property
    def space(self) -> int:
        """How many bytes of the disk it uses."""
        return (len(self._reserved) + len(self._taken)) * PAGE

    def without_space(self, offset: int, size: int) -> list[int]:
        """Return the offsets of the pages that a write would need space for, in order."""
        pages = _pages(offset, size)
        return [p * PAGE for p in pages if p not in self._reserved and p not in self._taken]

    def map(self) -> memoryview:
        """Return a read-only view of the file, which shows later writes too."""
        return memoryview(self.data).toreadonly()

    def sync(self) -> None:
        """Bring all that was written, and the length, to the disk."""
        with self._lock:
            self._write_back(self._dirty)
            self._dirty.clear()
            self._durable_size = len(self.data)

    def fail_sync(self) -> None:
        """Consider all pages clean, as the system does after a failed sync."""
        with self._lock:
            self._dirty.clear()

    def surviving(self, chance: Randomness | None) -> "Contents":
        """Return the file as a power loss leaves it; without chance nothing unsynced survives."""
        after = Contents(self.modified_ms)
        size = self._surviving_size(chance)
        after.data = bytearray(size)
        for number in self._surviving_pages(chance):
            begin = number * PAGE
            page = self._surviving_page(number, chance)[: max(0, size - begin)]
            after.data[begin : begin + len(page)] = page
            after._durable[number] = page
        after._durable_size = size
        after._reserved = {page for page in self._reserved if page in _pages(0, size)}
        after._taken = after._durable.keys() - after._reserved
        return after

    def _surviving_size(self, chance: Randomness | None) -> int:
        growth = len(self.data) - self._durable_size
        if chance is None or not growth:
            return self._durable_size
        return self._durable_size + chance.choice((0, growth, chance.below(growth + 1)))

    def _surviving_pages(self, chance: Randomness | None) -> list[int]:
        return sorted(self._durable.keys() | (self._dirty if chance is not None else set()))

    def _surviving_page(self, number: int, chance: Randomness | None) -> bytes:
        """Return the old page, the new one, or a mix of their sectors."""
        before = self._durable.get(number, b"")
        if chance is None or number not in self._dirty:
            return before
        written = self._page(number)
        outcome = chance.below(3)
        if outcome < 2:
            return (before, written)[outcome]
        before = before.ljust(len(written), b"\0")
        sectors = range(0, len(written), SECTOR)
        return b"".join(
            (before, written)[chance.below(2)][begin : begin + SECTOR] for begin in sectors
        )

    def _grow(self, size: int) -> None:
        missing = size - len(self.data)
        if missing <= 0:
            return
        try:
            self.data.extend(bytes(missing))
        except BufferError:  # it is mapped: the map keeps its length, and gets later writes
            self._mapped.append(self.data)
            self.data = bytearray(size)
            self.data[: size - missing] = self._mapped[-1]

    def _put(self, data: bytes, offset: int) -> None:
        for target in (self.data, *self._mapped):
            part = data[: max(0, len(target) - offset)]
            if part:
                target[offset : offset + len(part)] = part

    def _write_back(self, pages: "set[int] | range") -> None:
        for number in pages:
            self._durable[number] = self._page(number)

    def _page(self, number: int) -> bytes:
        return bytes(self.data[number * PAGE : (number + 1) * PAGE])


class Folder:
    """The names in one directory; ``names`` has their current meaning.

    >>> folder = Folder()
    >>> folder.change({"lock": Contents(now_ms=0)})
    >>> list(folder.names), list(folder.surviving(None, {}).names)
    (['lock'], [])
    """

    __slots__ = ("_changes", "_durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._changes: list[dict[str, Node | None]] = []

    def __repr__(self) -> str:
        return f"<Folder {len(self.names)} names, {len(self._changes)} changes not synced>"

    def change(self, names: "dict[str, Node | None]") -> None:
        """Change the meaning of names atomically; None removes a name."""
        self._changes.append(names)
        _apply(names, self.names)

    def sync(self) -> None:
        """Bring all changes of names to the disk."""
        self._durable = dict(self.names)
        self._changes.clear()

    def surviving(self, chance: Randomness | None, known: "dict[Node, Node]") -> "Folder":
        """Return the directory and everything below it as a power loss leaves them.

        ``known`` maps what was visited before to what survived of it: a file that was moved between
        directories may have two names.
        """
        names = dict(self._durable)
        if chance is not None:
            for change in self._changes[: chance.below(len(self._changes) + 1)]:
                _apply(change, names)
        after = Folder()
        known[self] = after
        for name, node in sorted(names.items()):
            if node not in known:
                known[node] = (
                    node.surviving(chance, known)
                    if isinstance(node, Folder)
                    else node.surviving(chance)
                )
            after.names[name] = known[node]
        after.sync()
        return after


Node: TypeAlias = Contents | Folder


def _pages(offset: int, size: int) -> range:
    return range(offset // PAGE, -(-(offset + size) // PAGE))


def _apply(change: dict[str, Node | None], names: dict[str, Node]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
