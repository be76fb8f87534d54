"""The key index: finds records of the commit log by the hash of ``topic#key``.

Laws:

- Keys of a record are indexed in the order unique key, keys, tags. A file may become full in the
  middle of a record; the next file then has the other keys.
- File names are local times and only sort the files: a new file is always the last.
- After a crash full files are trusted if they were synced before the last checkpoint; the growing
  file is trusted as far as the checkpoint's mark reaches.
- Files follow each other without a gap: the log has no record with keys between the end of one and
  the beginning of the next. Files after a gap are removed and rebuilt from the log.
- After an orderly stop the last file covers the log to its end, including records without keys, so
  the next start does not read them again.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from orbitmq.errors import InvalidInput
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import MakeRoom, OpenFiles, Unsynced
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.index.index_file import GrowingIndexFile, IndexKey, IndexShape
from orbitmq.store.index.key_hashes import KeyKind, index_keys
from orbitmq.store.layout import key_hash

__all__ = ["FindKeyed", "IndexMark", "KeyIndex", "KeyKind"]

log = logging.getLogger("orbitmq.store")

_OPEN_FILES_MAX: Final = 16
_NAME_DIGITS: Final = 17  # yyyyMMddHHmmssSSS

FindKeyed: TypeAlias = Callable[[int, int], int | None]
"""Returns the offset of the first record with keys after the record at one offset (-1: from the
beginning of the log) and before another offset; None if none was found."""


class IndexMark(NamedTuple):
    """How much of the growing index file is on disk, and how far in the log it reaches."""

    name: int = 0
    """The name of the growing file; file names are numbers."""
    number: int = 0
    """All its entries before this one are on disk. Its slots are not; they follow from entries."""
    offset: int = 0
    """The keys of all records before this log offset are on disk, in this or older files."""


class KeyIndex:
    """The index files of a store: ``<directory>/<yyyyMMddHHmmssSSS>``.

    ``slots`` and ``entries`` per file are those the store was created with; one entry is never
    used. ``file_name`` returns a name for a new file, the local time. With ``tag_keys`` tags are
    indexed too, as in RocketMQ 5.4.0 but not in older releases. ``make_room`` closes other idle
    files when the process can't open more.

    >>> from tempfile import TemporaryDirectory
    >>> from orbitmq.store.disk.disk import RealDisk
    >>> with TemporaryDirectory() as directory:
    ...     index = KeyIndex(RealDisk(), directory, slots=100, entries=300,
    ...                      file_name=lambda: "20240229120000000")
    ...     index.put(Dispatched(topic="orders", queue_id=0, queue_offset=0, commit_log_offset=640,
    ...         size=200, tags_code=0, store_timestamp_ms=1000, sys_flag=0, unique_key=None,
    ...         keys=b"o-41 o-42", tags=None))
    ...     index.query("orders", "o-42", max_count=32, begin_ms=0, end_ms=2000)
    [640]
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        slots: int = 5_000_000,
        entries: int = 20_000_000,
        file_name: Callable[[], str],
        tag_keys: bool = True,
        make_room: MakeRoom = lambda: None,
    ) -> None:
        if slots < 1 or entries < 2:
            raise InvalidInput(
                f"slots is {slots} and entries {entries}; an index file has at least 1 and 2",
                field="slots" if slots < 1 else "entries",
            )
        self._disk = disk
        self._directory = directory
        self._shape = IndexShape(slots, entries)
        self._file_name = file_name
        self._tag_keys = tag_keys
        self._open_files = OpenFiles(disk, limit=_OPEN_FILES_MAX, make_room=make_room)
        self._files: list[GrowingIndexFile] = []
        self._waiting: list[IndexKey] = []  # keys that the last ``put_all`` could not write

    def __repr__(self) -> str:
        return f"<KeyIndex {self._directory}: {len(self._files)} files>"

    @property
    def last_name(self) -> int:
        """The name of the last file as a number; 0 if there is none."""
        return int(self._files[-1].path.rpartition("/")[2]) if self._files else 0

    @property
    def last_timestamp_ms(self) -> int:
        """The store time of the last indexed record; 0 if there is none."""
        return self._files[-1].end_timestamp_ms if self._files else 0

    @property
    def filled_timestamp_ms(self) -> int:
        """The store time of the last record in a full file; 0 if no file is full.

        It goes into the checkpoint once those files are synced; a crash loses newer keys.
        """
        return max((file.end_timestamp_ms for file in self._files if file.is_full), default=0)

    @property
    def filled_end_offset(self) -> int:
        """The log offset of the last record in a full file; -1 if no file is full."""
        return max((file.end_offset for file in self._files if file.is_full), default=-1)

    @property
    def filled(self) -> tuple[int, int]:
        """``filled_timestamp_ms`` and ``filled_end_offset``."""
        return self.filled_timestamp_ms, self.filled_end_offset

    @property
    def end_offset(self) -> int:
        """The log offset of the last indexed record; 0 if there is none."""
        return self._files[-1].end_offset if self._files else 0

    @property
    def ends_full(self) -> bool:
        """Whether the last file is full: other keys of its last record may be in a next file."""
        return bool(self._files) and self._files[-1].is_full

    def load(
        self,
        *,
        clean_stop: bool,
        checkpoint_ms: int,
        mark: IndexMark | None = None,
        find_keyed: FindKeyed = lambda _after, _before: None,
    ) -> list[str]:
        """Find the files; return the paths of removed ones, whose keys must be indexed again.

        After a crash, files with records newer than ``checkpoint_ms`` are removed, as in Java's
        IndexService, and so are files that are not full or too short. The file of the ``mark`` is
        kept as far as the mark reaches. The checkpoint has the end time of a full file; later full
        files that end at the same time, because the clock did not advance, may not have been synced
        and are removed too.

        Files after a gap are always removed: ``find_keyed`` finds records with keys that no file
        covers. Raise StoreDamaged if a file does not have the length that ``slots`` and ``entries``
        require.
        """
        removed: list[str] = []
        is_cut = False
        for name in self._names():
            path = f"{self._directory}/{name}"
            file = None if is_cut else self._loaded(path, clean_stop, checkpoint_ms, mark)
            if file is not None and not self._is_behind_gap(file, find_keyed):
                self._files.append(file)
                continue
            self._open_files.remove(path)
            removed.append(path)
            # A file after a removed one would claim that all keys before it are indexed.
            is_cut = is_cut or not clean_stop or file is not None
        return removed

    def _loaded(
        self, path: str, clean_stop: bool, checkpoint_ms: int, mark: IndexMark | None
    ) -> GrowingIndexFile | None:
        """Return a file with its trusted entries; None if it can't be trusted."""
        if self._was_being_made(path, clean_stop=clean_stop):
            return None
        file = GrowingIndexFile.load(self._open_files, path, self._shape)
        if clean_stop or (file.is_full and self._is_vouched(file, checkpoint_ms)):
            return file
        return None if mark is None else self._replayed(path, mark)

    def _is_behind_gap(self, file: GrowingIndexFile, find_keyed: FindKeyed) -> bool:
        """Return, and log, whether a file is missing between the last one and this."""
        last = self._files[-1].end_offset if self._files else -1
        lost = find_keyed(last, file.begin_offset)
        if lost is not None:
            log.warning(
                "%s begins at byte %d of the log, and no file before it has the keys of the record "
                "at byte %d: rebuilding the index from there",
                file.path,
                file.begin_offset,
                lost,
            )
        return lost is not None

    def _replayed(self, path: str, mark: IndexMark) -> GrowingIndexFile | None:
        """Return the growing file as far as the mark reaches; None if the mark is not for it."""
        if int(path.rpartition("/")[2]) != mark.name:
            return None
        file = GrowingIndexFile.replay(self._open_files, path, self._shape, mark.number)
        if file is None or file.end_offset >= mark.offset:
            return None
        file.reach(mark.offset - 1)
        return file

    def _is_vouched(self, file: GrowingIndexFile, checkpoint_ms: int) -> bool:
        """Return whether a checkpoint vouches for a full file, given that it does for the last."""
        is_next = not self._files or self.last_timestamp_ms < checkpoint_ms
        return is_next and file.end_timestamp_ms <= checkpoint_ms

    def _was_being_made(self, path: str, *, clean_stop: bool) -> bool:
        length = self._disk.size(path)
        return length == 0 or (not clean_stop and length < self._shape.file_bytes)

    def reach(self, offset: int) -> None:
        """Note for the next start that all records up to an offset of the log are indexed.

        The header then has this offset instead of that of the last record with keys. Java's
        IndexService reads it the same way: it does not index records before it again.
        """
        if self._files:
            self._files[-1].reach(offset)

    def put(self, entry: Dispatched) -> None:
        """Index the keys of one record."""
        self.put_all((entry,))

    def put_all(self, entries: Iterable[Dispatched]) -> None:
        """Index the keys of records, in the order of the log.

        Rolled-back records, and records before the last indexed one, are skipped. The last indexed
        one is indexed again, as in Java: its keys may be split between two files.

        After DiskFailed call ``put_waiting``, or this with later records: the keys are kept.
        """
        self._waiting += index_keys(entries, self.end_offset, self._tag_keys)
        # Created even if no record has a key, as in Java's IndexService.buildIndex.
        self._file_with_room()
        self.put_waiting()

    def put_waiting(self) -> None:
        """Index the keys that could not be written before, and no file if there are none."""
        while self._waiting:
            file = self._file_with_room()
            del self._waiting[: file.add(self._waiting)]
            if file.is_full:
                file.finish()  # at once: from now on a checkpoint may claim it
        if self._files:
            self._files[-1].write_many()

    def query(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        *,
        kind: KeyKind = KeyKind.KEY,
    ) -> list[int]:
        """Return log offsets of records with a key, stored within a time range, newest first.

        As in Java's IndexService, the search ends at the first file that begins before
        ``begin_ms``, even if the clock was set back. Other keys may have the same hash, so the
        caller must check the records.
        """
        wanted = key_hash(f"{topic}{kind.value}{key}")
        found: list[int] = []
        for file in reversed(self._files):
            if begin_ms <= file.end_timestamp_ms and file.begin_timestamp_ms <= end_ms:
                found += file.select(wanted, max_count - len(found), begin_ms, end_ms)
            if file.begin_timestamp_ms < begin_ms or len(found) >= max_count:
                break
        return found

    def write(self) -> None:
        """Write the data that is in memory only, for other readers and before a stop.

        Queries in this process don't need it. At worst it writes all slots, 20 MB with Java's
        sizes. After DiskFailed call again: unwritten data is kept.
        """
        if self._files:
            self._files[-1].write()

    def write_mark(self, offset: int) -> IndexMark | None:
        """Write the entries of the growing file; return its mark, valid after the next sync.

        None if no file is growing, or if Java, which trusts a file by its time alone, would read
        this one as a full file. The keys of all records before ``offset`` must have been put. After
        DiskFailed call again: unwritten data is kept.
        """
        file = self._files[-1] if self._files else None
        if file is None or file.is_full or file.end_timestamp_ms <= self.filled_timestamp_ms:
            return None
        if self._waiting:  # of records before ``offset``
            return None
        file.write_entries()
        return IndexMark(self.last_name, file.next_number, offset)

    def sync_mark(self, offset: int) -> IndexMark | None:
        """Write and sync the index; return the mark of the growing file."""
        mark = self.write_mark(offset)
        self._open_files.sync_all()
        return mark

    def take_unsynced(self) -> Unsynced:
        """Return the files to sync; ``Unsynced.sync`` may run on a worker."""
        return self._open_files.take_unsynced()

    def sync(self) -> None:
        """Write the data in memory and sync all files."""
        self.write()
        self._open_files.sync_all()

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back files that could not be synced because no descriptor was free."""
        self._open_files.put_back(unsynced)

    def close(self) -> None:
        """Close the files; they are reopened on use."""
        self._open_files.close()

    def is_untouched(self) -> bool:
        """Return whether no other process has changed the files.

        A Java broker started on a store in use removes index files and writes to the last one
        before it takes the lock (DefaultMessageStore.load).
        """
        known = [file.path.rpartition("/")[2] for file in self._files]
        return self._names() == known and (not known or self._files[-1].is_untouched())

    def remove_spoiled(self) -> None:
        """Remove all files, and sync the removal; the next start rebuilds the index.

        After an orderly stop the next start would trust the files.
        """
        log.error(
            "another process changed %s: removing it, and the next start rebuilds it from the log; "
            "check that no second broker runs on this directory",
            self._directory,
        )
        self._files.clear()
        for name in self._names():
            self._open_files.remove(f"{self._directory}/{name}")
        if self._disk.exists(self._directory):
            self._disk.sync_directory(self._directory)

    def filled_before(self, commit_log_end: int) -> tuple[int, int]:
        """Return ``filled`` of the files whose records all begin before a log offset."""
        full = [one for one in self._files if one.is_full and one.end_offset < commit_log_end]
        last = max(full, key=lambda one: one.end_offset, default=None)
        return (0, -1) if last is None else (last.end_timestamp_ms, last.end_offset)

    def truncate(self, commit_log_end: int, store_ms_of: Callable[[int], int]) -> None:
        """Drop the keys of records that begin at or after the end of the log, and write the rest.

        ``store_ms_of`` returns the store time of the record at an offset.
        """
        self._waiting = [key for key in self._waiting if key[1] < commit_log_end]
        while self._files and (last := self._files[-1]).end_offset >= commit_log_end:
            count = last.count_before(commit_log_end)
            if count:
                stored_ms = store_ms_of(last.last_offset(count))
                last.truncate(count, commit_log_end - 1, stored_ms)
            else:
                self._open_files.remove(self._files.pop().path)

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove files whose records are all before an offset, never the last; return the paths."""
        removed = []
        while len(self._files) > 1 and self._files[0].end_offset < commit_log_start:
            removed.append(self._files.pop(0).path)
            self._open_files.remove(removed[-1])
        return removed

    def _names(self) -> list[str]:
        """Return the names of the index files, the oldest first."""
        return [
            name
            for name in self._disk.list(self._directory)
            # Java ignores other names too.
            if name.isascii()
            and name.isdecimal()
            and not self._disk.is_directory(f"{self._directory}/{name}")
        ]

    def _file_with_room(self) -> GrowingIndexFile:
        files = self._files
        if files and not files[-1].is_full:
            return files[-1]
        last = files[-1] if files else None
        if last is not None:
            last.finish()
        path = f"{self._directory}/{self._next_name()}"
        file = GrowingIndexFile.create(self._open_files, path, self._shape, previous=last)
        files.append(file)
        return file

    def _next_name(self) -> str:
        """Return a name for a new file: the current time, but after the name of the last file.

        A clock that was set back would otherwise overwrite a file or break the order.
        """
        name = int(self._file_name())
        name = max(name, self.last_name + 1)
        return f"{name:0{_NAME_DIGITS}d}"
