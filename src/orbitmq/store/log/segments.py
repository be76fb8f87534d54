"""The commit log's files: one stream of bytes in files of one size, named by where they begin.

::

    00000000000000000000   00000000001073741824   00000000002147483648
    +--------------------+ +--------------------+ +--------------------+
    | records … blank    | | records … blank    | | records …  zeros   |
    +--------------------+ +--------------------+ +--------------------+
    first_offset                                            ^ end     (not stored anywhere)

Laws:

- A file has its full size from the moment it has its name; Java refuses a directory with another.
- Files follow each other without a gap. The first may go, and a new last may come.
- A file is read through one read-only map, which lives as long as a view of it.
- A file that is full and on the disk has no open descriptor, but for the one that a map of it
  keeps in Python: the log may have more files than a process may open.
- Space is reserved in steps, by a worker, before the log needs it; the rest of the file is a hole.
  Nothing is written where no space is reserved: a full disk refuses a message, and breaks no write.
- The file after the last may be there before it is in use: a worker makes it when the last is
  nearly full. It has its final name, as with Java's AllocateMappedFileService, and no part in the
  chain until ``add`` takes it; a crash leaves a file of zeros, which every start, Java's too, takes
  for what it is.
"""

import logging
from typing import Final, NamedTuple

from orbitmq.errors import DiskFailed, StoreDamaged, StoreError
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import blank
from orbitmq.store.disk.disk import Disk, DiskFile
from orbitmq.store.disk.durable import make_durable_directory
from orbitmq.store.disk.open_files import MakeRoom, with_room
from orbitmq.store.disk.stream_files import file_name, file_path, load_stream
from orbitmq.threads import Future, Workers

__all__ = ["Segment", "SegmentChain"]

log = logging.getLogger("orbitmq.store")

SPACE_STEP: Final = 64 * 1024 * 1024
"""How much space is reserved at a time; a worker begins when half of it is left."""


class Segment:
    """One file of the log. It is opened when it is used, unless it comes open."""

    __slots__ = ("_disk", "_file", "_make_room", "_view", "base", "path", "reserved", "size")

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
        self.reserved = base
        """All that is written from now on has space before this offset of the log."""

    def __repr__(self) -> str:
        return f"<Segment {file_name(self.base)}>"

    @property
    def end(self) -> int:
        """The offset of the log at which the next file begins."""
        return self.base + self.size

    @property
    def file(self) -> DiskFile:
        """The file, open."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    @property
    def view(self) -> memoryview:
        """The bytes of the file, what is written later included."""
        if self._view is None:
            is_at_rest = self._file is None
            self._view = with_room(self._mapped, self._make_room)
            if is_at_rest:
                self.rest()
        return self._view

    def _mapped(self) -> memoryview:
        return self.file.map()

    def write(self, buffers: list[Buffer], offset: int) -> None:
        """Write buffers at an offset of the log."""
        self.file.write(buffers, offset - self.base)

    def rest(self) -> None:
        """Close the file until it is used again; what is mapped stays so."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def drop(self) -> None:
        """Let go of the file and its map; views that others hold stay readable."""
        self._view = None
        self.rest()


class _Reserving(NamedTuple):
    """A worker reserves space in a file, up to an offset of the log."""

    segment: Segment
    end: int
    work: Future[None]


class SegmentChain:
    """All files of the log, the oldest first.

    Args:
        disk: where they are.
        directory: the ``commitlog`` of the store.
        segment_bytes: the size of each.
        workers: reserve space, and make the next file, ahead; without, both wait for the need.
        make_room: closes other idle files, if the process can't open more.
        step_bytes: how much space is reserved at a time.

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
        self.segments: list[Segment] = []
        self._workers = workers
        self._make_room = make_room
        self._ahead: Future[DiskFile] | None = None  # the file at next_base, in the making or made
        self._reserving: _Reserving | None = None

    def __repr__(self) -> str:
        return f"<SegmentChain {self.directory}, {len(self.segments)} files>"

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is kept; 0 without any."""
        return self.segments[0].base if self.segments else 0

    @property
    def last(self) -> Segment | None:
        """The newest file."""
        return self.segments[-1] if self.segments else None

    def load(self) -> None:
        """Find the files that are there.

        Raises:
            StoreDamaged: a file has another size or is missing in the middle; the message says
                which, and what to do.

        """
        make_durable_directory(self._disk, self.directory)
        files, others = load_stream(self._disk, self.directory, self.segment_bytes)
        for path in others:
            log.warning("%s does not belong there; Java's broker would not start with it", path)
        for path, base, _ in files:
            if self.segments and base != self.next_base():
                raise StoreDamaged(
                    f"{path} comes where {file_name(self.next_base())} should: a file is missing; "
                    "put it back, or move the files before the gap away to go on without them",
                    path=path,
                    position=self.next_base(),
                )
            self._disk.open(path).close()  # fail now, not when it is read one day
            self.segments.append(self._segment(path, base))

    def segment_at(self, offset: int) -> Segment | None:
        """Return the file that holds an offset of the log, None if it is gone or not there yet."""
        index = (offset - self.first_offset) // self.segment_bytes
        return self.segments[index] if 0 <= index < len(self.segments) else None

    def next_base(self) -> int:
        """Return where the next file will begin."""
        return self.segments[-1].end if self.segments else 0

    def reserve(self, segment: Segment, position: int, size: int) -> None:
        """Have space for ``size`` bytes of a file from an offset of the log on.

        Raises:
            DiskFailed: there is no space.

        """
        reserving = self._reserving
        if reserving and (position + size > segment.reserved or reserving.segment is not segment):
            self._take_reserved()
        begin = max(position, segment.reserved)
        if position + size > begin:
            end = max(position + size, self._step_end(segment, begin))
            segment.file.allocate(end - begin, begin - segment.base)
            segment.reserved = end

    def prepare(self, segment: Segment, position: int) -> None:
        """Have a worker reserve what the log needs soon: space in its file, or the next file.

        What fails is tried again when it is needed.
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
        """Note what a worker has reserved; wait for it, unless it has not begun."""
        reserving, self._reserving = self._reserving, None
        if reserving is None or reserving.work.cancel():
            return
        error = reserving.work.exception()
        if error is None:
            reserving.segment.reserved = reserving.end
        elif isinstance(error, StoreError):
            log.warning("space for the log could not be reserved ahead: %s", error)
        else:
            raise error

    def add(self, base: int) -> Segment:
        """Take the file that begins at ``base``, all zeros, into use, and return it.

        Its name is not on the disk before its directory is synced.

        Raises:
            DiskFailed: there is no space, or the directory can't be written to.

        """
        file = self._take_ahead() or with_room(lambda: self._make(base), self._make_room)
        segment = self._segment(file.path, base, file)
        segment.reserved = base + self._step
        self.segments.append(segment)
        return segment

    def add_blank(self, base: int) -> None:
        """Add the file that begins at ``base``, without a record; return when it is on the disk.

        Its name is not on the disk before its directory is synced.

        Raises:
            DiskFailed: it can't be made.

        """
        path = file_path(self.directory, base)
        file = self._disk.open(path, create=True)
        file.extend(self.segment_bytes)
        file.write([blank(self.segment_bytes)], 0)
        file.sync()
        file.close()
        self.segments.append(self._segment(path, base))

    def rest(self, end: int) -> None:
        """Close the files that end at an offset or before it: they are full and on the disk."""
        for segment in self.segments:
            if segment.end <= end:
                segment.rest()

    def sync_names(self) -> None:
        """Return when the names of all files are on the disk."""
        self._disk.sync_directory(self.directory)

    def take_first(self) -> Segment:
        """Take the oldest file out of the log, to remove it; views that others hold stay readable.

        It is closed by then, and still there.
        """
        segment = self.segments.pop(0)
        segment.drop()
        return segment

    def put_back(self, segments: list[Segment]) -> None:
        """Let the log begin with files again that were taken out and could not be removed."""
        self.segments[:0] = segments

    def remove_last(self) -> None:
        """Remove the newest file; views that others hold stay readable."""
        segment = self.segments[-1]
        self._disk.remove(segment.path)  # first: one that can't be removed stays in use
        del self.segments[-1]
        segment.drop()

    def remove_unused(self, end: int) -> None:
        """Remove the files behind the end of the log, for a stop; the first stays in any case.

        Returns when their names are gone from the disk: a power loss may bring one back without its
        length, and a start behind an orderly stop would refuse it.

        Raises:
            DiskFailed: one can't be removed.

        """
        self._take_reserved()
        if (file := self._take_ahead()) is not None:
            file.close()
        path = file_path(self.directory, self.next_base())
        removed = self._disk.exists(path)
        if removed:  # made ahead; or it could not be made whole, and not be removed either
            self._disk.remove(path)
        while len(self.segments) > 1 and self.segments[-1].base >= end:
            self.remove_last()
            removed = True
        if self.segments and self.segments[-1].base >= end:
            # It was made and nothing was written to it: a power loss may take its length.
            self.segments[-1].file.sync()
            removed = True
        if removed:
            self.sync_names()

    def close(self) -> None:
        """Let go of all files; the workers are at rest by now."""
        self._take_reserved()
        if (file := self._take_ahead()) is not None:
            file.close()
        for segment in self.segments:
            segment.drop()
        self.segments.clear()

    def _segment(self, path: str, base: int, file: DiskFile | None = None) -> Segment:
        return Segment(self._disk, path, base, self.segment_bytes, file, self._make_room)

    def _make(self, base: int) -> DiskFile:
        """Return the file that begins at ``base``, with its full size and space for a step.

        Runs on a worker, too.
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
            # The error that is on its way says what to do. Whoever needs the file next makes it
            # whole, and a stop tries to remove it again, or leaves the start after it to mend it.
            log.error("a file of the log was left without its full size: %s", error)

    def _take_ahead(self) -> DiskFile | None:
        """Return the file made ahead, None if there is none; wait for one in the making."""
        work, self._ahead = self._ahead, None
        if work is None or work.cancel():
            return None
        error = work.exception()
        if isinstance(error, StoreError):
            log.warning("the next file of the log could not be made ahead: %s", error)
            return None
        return work.result()
