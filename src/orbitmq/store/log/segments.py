"""The commit log's files: one stream of bytes in files of one size, named by where they begin.

::

    00000000000000000000   00000000001073741824   00000000002147483648
    +--------------------+ +--------------------+ +--------------------+
    | records … blank    | | records … blank    | | records …  zeros   |
    +--------------------+ +--------------------+ +--------------------+
    first_offset                                            ^ end     (not stored anywhere)

Invariants:

- A file in use has its full size; Java refuses a directory with any other file.
- Files follow each other without a gap. Old ones are removed at the beginning, new ones are added
  at the end.
- A file is read through one read-only map, which lives as long as a view of it.
- A full file that is on disk is closed, except for the descriptor that Python keeps for a map: the
  log may have more files than a process may open.
- A worker reserves space in steps before the log needs it; the rest of a file is a hole. Nothing is
  written without reserved space: on a full disk a message is refused, and no write fails half-way.
- A worker creates the next file when the last one is nearly full. It has its final name, as with
  Java's AllocateMappedFileService, but is not part of the log until ``add``. A crash leaves it full
  of zeros, which every start, Java's too, recognizes.
"""

import logging
from typing import Final, NamedTuple

from orbitmq.errors import DiskFailed, StoreDamaged, StoreError
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import blank
from orbitmq.store.disk.disk import Disk, DiskFile, set_read_ahead
from orbitmq.store.disk.durable import make_durable_directory
from orbitmq.store.disk.open_files import MakeRoom, with_room
from orbitmq.store.disk.stream_files import file_name, file_path, load_stream
from orbitmq.threads import Future, Workers

__all__ = ["Segment", "Segments"]

log = logging.getLogger("orbitmq.store")

SPACE_STEP: Final = 64 * 1024 * 1024
"""How much space is reserved at a time; a worker begins when half of it is left."""


class Segment:
    """One file of the log, opened when it is used."""

    __slots__ = (
        *("_disk", "_file", "_make_room", "_read_ahead", "_view"),
        *("base", "path", "reserved", "size"),
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        base: int,
        size: int,
        file: DiskFile | None = None,
        make_room: MakeRoom = lambda: None,
    ) -> None:
        self._disk = disk
        self.path = path
        self.base = base
        self.size = size
        self._file = file
        self._make_room = make_room
        self._view: memoryview | None = None
        self._read_ahead = True
        self.reserved = base
        """From the end of the log up to this offset, space is reserved."""

    def __repr__(self) -> str:
        return f"<Segment {file_name(self.base)}>"

    @property
    def end(self) -> int:
        """The log offset at which the next file begins."""
        return self.base + self.size

    @property
    def file(self) -> DiskFile:
        """The open file."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    @property
    def view(self) -> memoryview:
        """The bytes of the file, including those written later."""
        if self._view is None:
            was_closed = self._file is None
            self._view = with_room(self._map, self._make_room)
            if not self._read_ahead:
                set_read_ahead(self._view, on=False)
            if was_closed:
                self.close()
        return self._view

    def _map(self) -> memoryview:
        return self.file.map()

    def set_read_ahead(self, on: bool) -> None:
        """Say whether reads of the file take further pages along; at first they do."""
        self._read_ahead = on
        if self._view is not None:
            set_read_ahead(self._view, on=on)

    def write(self, buffers: list[Buffer], offset: int) -> None:
        """Write buffers at an offset of the log."""
        self.file.write(buffers, offset - self.base)

    def close(self) -> None:
        """Close the file until it is used again; its map stays."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def drop(self) -> None:
        """Close the file and release its map; views that others hold stay readable."""
        self._view = None
        self.close()


class _Reserving(NamedTuple):
    """Space that a worker reserves in a file, up to an offset of the log."""

    segment: Segment
    end: int
    work: Future[None]


class Segments:
    """All files of the log, the oldest first.

    ``workers`` reserve space, ``step_bytes`` at a time, and create the next file in advance; None:
    when they are needed. ``make_room`` closes idle files of others if the process runs out of
    descriptors.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segment_bytes: int,
        workers: Workers | None = None,
        make_room: MakeRoom = lambda: None,
        *,
        step_bytes: int = SPACE_STEP,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.segment_bytes = segment_bytes
        self._step = min(step_bytes, segment_bytes)
        self.files: list[Segment] = []
        self._read_ahead = True
        self._workers = workers
        self._make_room = make_room
        self._ahead: Future[DiskFile] | None = None  # the next file, created in advance
        self._reserving: _Reserving | None = None

    def __repr__(self) -> str:
        return f"<Segments {self.directory}, {len(self.files)} files>"

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is left; 0 if there are no files."""
        return self.files[0].base if self.files else 0

    @property
    def last(self) -> Segment | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def set_read_ahead(self, on: bool) -> None:
        """Say whether reads of all files, also later ones, take further pages along."""
        if on is not self._read_ahead:
            self._read_ahead = on
            for segment in self.files:
                segment.set_read_ahead(on)

    def load(self) -> None:
        """Find the files; raise StoreDamaged if one has another size or there is a gap."""
        make_durable_directory(self._disk, self.directory)
        files, others = load_stream(self._disk, self.directory, self.segment_bytes)
        for path in others:
            log.warning("%s does not belong there; Java's broker would not start with it", path)
        for path, base, _ in files:
            if self.files and base != self.next_base():
                raise StoreDamaged(
                    f"{path} comes where {file_name(self.next_base())} should: a file is missing; "
                    "put it back, or move the files before the gap away to go on without them",
                    path=path,
                    position=self.next_base(),
                )
            self._disk.open(path).close()  # fail now, not when it is read one day
            self.files.append(self._segment(path, base))

    def segment_at(self, offset: int) -> Segment | None:
        """Return the file that contains an offset of the log; None if there is none."""
        index = (offset - self.first_offset) // self.segment_bytes
        return self.files[index] if 0 <= index < len(self.files) else None

    def next_base(self) -> int:
        """Return the offset at which the next file will begin."""
        return self.files[-1].end if self.files else 0

    def reserve(self, segment: Segment, position: int, size: int) -> None:
        """Reserve space for ``size`` bytes of a file from an offset of the log on."""
        reserving = self._reserving
        if reserving and (position + size > segment.reserved or reserving.segment is not segment):
            self._take_reserved()
        begin = max(position, segment.reserved)
        if position + size > begin:
            end = max(position + size, self._step_end(segment, begin))
            segment.file.allocate(end - begin, begin - segment.base)
            segment.reserved = end

    def prepare(self, segment: Segment, position: int) -> None:
        """Let a worker prepare what is needed soon: space in the current file, or the next file.

        If that fails, it is repeated when it is needed.
        """
        if self._workers is None:
            return
        if self._reserving and self._reserving.work.done():
            self._take_reserved()
        soon = position + self._step // 2
        if segment.reserved < min(soon, segment.end):
            if self._reserving is None:
                begin = max(position, segment.reserved)
                end = self._step_end(segment, begin)
                size, at = end - begin, begin - segment.base
                work = self._workers.submit(segment.file.allocate, size, at)
                self._reserving = _Reserving(segment, end, work)
        elif soon >= segment.end and segment is self.last and self._ahead is None:
            self._ahead = self._workers.submit(self._make, self.next_base())

    def _step_end(self, segment: Segment, offset: int) -> int:
        return min(offset + self._step, segment.end)

    def _take_reserved(self) -> None:
        """Wait for a worker that reserves space; cancel it if it has not begun."""
        reserving, self._reserving = self._reserving, None
        if reserving is None or reserving.work.cancel():
            return
        error = reserving.work.exception()
        if error is None:
            reserving.segment.reserved = reserving.end
        elif isinstance(error, StoreError):
            log.warning("space for the log could not be reserved in advance: %s", error)
        else:
            raise error

    def add(self, base: int) -> Segment:
        """Add the file that begins at ``base``, full of zeros, and return it.

        Its name is on disk only after ``sync_names``.
        """
        file = self._take_ahead() or with_room(lambda: self._make(base), self._make_room)
        segment = self._segment(file.path, base, file)
        segment.reserved = base + self._step
        self.files.append(segment)
        return segment

    def add_blank(self, base: int) -> None:
        """Add the file that begins at ``base``, without a record, and sync it.

        Its name is on disk only after ``sync_names``.
        """
        path = file_path(self.directory, base)
        file = self._disk.open(path, create=True)
        file.extend(self.segment_bytes)
        file.write([blank(self.segment_bytes)], 0)
        file.sync()
        file.close()
        self.files.append(self._segment(path, base))

    def close_before(self, end: int) -> None:
        """Close the files that end at an offset or before it: they are full and on disk."""
        for segment in self.files:
            if segment.end <= end:
                segment.close()

    def sync_names(self) -> None:
        """Return when the names of all files are on disk."""
        self._disk.sync_directory(self.directory)

    def take_first(self) -> Segment:
        """Take the oldest file out of the log and return it; it still exists.

        Views that others hold stay readable.
        """
        segment = self.files.pop(0)
        segment.drop()
        return segment

    def put_back(self, segments: list[Segment]) -> None:
        """Put files back at the beginning that were taken out but could not be removed."""
        self.files[:0] = segments

    def remove_last(self) -> None:
        """Remove the newest file; views that others hold stay readable."""
        segment = self.files[-1]
        self._disk.remove(segment.path)  # if that fails, it stays in use
        del self.files[-1]
        segment.drop()

    def remove_unused(self, end: int) -> None:
        """Remove the files after the end of the log, for a stop, except the first of all.

        Their names are gone from disk when this returns: a power loss could bring a file back
        without its length, and a start after a clean stop would refuse it.
        """
        self._take_reserved()
        if (file := self._take_ahead()) is not None:
            file.close()
        path = file_path(self.directory, self.next_base())
        removed = self._disk.exists(path)
        if removed:  # created in advance, or left unfinished because it could not be removed
            self._disk.remove(path)
        while len(self.files) > 1 and self.files[-1].base >= end:
            self.remove_last()
            removed = True
        if self.files and self.files[-1].base >= end:
            # Nothing was written to it: without a sync a power loss may take its length.
            self.files[-1].file.sync()
            removed = True
        if removed:
            self.sync_names()

    def close(self) -> None:
        """Close all files; no worker uses them any more."""
        self._take_reserved()
        if (file := self._take_ahead()) is not None:
            file.close()
        for segment in self.files:
            segment.drop()
        self.files.clear()

    def _segment(self, path: str, base: int, file: DiskFile | None = None) -> Segment:
        segment = Segment(self._disk, path, base, self.segment_bytes, file, self._make_room)
        segment.set_read_ahead(self._read_ahead)
        return segment

    def _make(self, base: int) -> DiskFile:
        """Create the file that begins at ``base``, with its full size and space for one step.

        Also runs on a worker.
        """
        path = file_path(self.directory, base)
        file = self._disk.open(path, create=True)
        try:
            file.allocate(self._step)
            file.extend(self.segment_bytes)
        except BaseException:
            file.close()
            self._remove_unfinished(path)
            raise
        return file

    def _remove_unfinished(self, path: str) -> None:
        try:
            self._disk.remove(path)
        except DiskFailed as error:
            # The next ``add`` completes it, or a stop removes it, or the next start repairs it.
            log.error("an unfinished log file can't be removed: %s", error)

    def _take_ahead(self) -> DiskFile | None:
        """Return the file created in advance, if any; wait if a worker is creating it."""
        work, self._ahead = self._ahead, None
        if work is None or work.cancel():
            return None
        error = work.exception()
        if isinstance(error, StoreError):
            log.warning("the next log file could not be created in advance: %s", error)
            return None
        return work.result()
