"""The key index: which records of the commit log have a key, by the hash of ``topic#key``.

Laws:

- Keys of a record are indexed in the order unique key, keys, tags. A full file is followed by the
  next in the middle of a record, if need be.
- File names are local times and only sort the files: a new one is always the last.
- After a crash full files are trusted that were synced before the last checkpoint, and of the one
  that was growing the entries that it speaks for.
- Files follow each other without a gap: no record with keys lies in the log behind the end of one
  and before the begin of the next. What is behind a gap goes, and is made again from the log.
- After an orderly stop the last file tells how far the index reaches, be it over records without
  keys: the next start need not look at them again.
"""

import enum
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from orbitmq.errors import InvalidInput
from orbitmq.message import flags, properties
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import MakeRoom, OpenFiles, Unsynced
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.index.index_file import GrowingIndexFile, IndexKey, IndexShape
from orbitmq.store.layout import key_hash, key_hash_utf8

__all__ = ["FindKeyed", "IndexMark", "KeyIndex", "KeyKind"]

log = logging.getLogger("orbitmq.store")

_OPEN_FILES_MAX: Final = 16
_NAME_DIGITS: Final = 17  # yyyyMMddHHmmssSSS
_STATE: Final = flags.TRANSACTION_MASK
_ROLLED_BACK: Final = flags.TRANSACTION_ROLLBACK
_KEY_SEPARATOR: Final = properties.KEY_SEPARATOR.encode()
_REMEMBERED_TOPICS: Final = 16_384
_REMEMBERED_TAGS: Final = 16_384
_REMEMBERED_LENGTH: Final = 64

FindKeyed: TypeAlias = Callable[[int, int], int | None]
"""Returns where in the log the first record with keys is, behind the one at an offset (-1: from the
beginning on) and before another offset; None if there is none, or nobody knows."""


class KeyKind(enum.Enum):
    """What a text is looked up as; the value stands between topic and text."""

    KEY = "#"
    """A unique key, or one of the keys."""
    TAGS = "#T#"
    """The tags; indexed since RocketMQ 5.4.0."""


class IndexMark(NamedTuple):
    """How much of the key index is on the disk besides full files, and how far it reaches."""

    name: int = 0
    """The file that grows; file names are numbers."""
    number: int = 0
    """All its entries before this one are on the disk. Its slots are not: entries tell them."""
    offset: int = 0
    """The keys of all records before this offset of the log are among them, or in older files."""


class KeyIndex:
    """The index files of a store: ``<directory>/<yyyyMMddHHmmssSSS>``.

    Args:
        directory: the ``index`` of the store.
        slots: hash slots of a file, and
        entries: entries of a file, one of which is never used; as the store was made with.
        file_name: returns a name for a file made now, local time; the caller has the clock.
        tag_keys: whether tags are indexed too, as RocketMQ 5.4.0 does and older ones don't.

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

    def __repr__(self) -> str:
        return f"<KeyIndex {self._directory}: {len(self._files)} files>"

    @property
    def last_name(self) -> int:
        """The name of the last file, as the number that it is; 0 without."""
        return int(self._files[-1].path.rpartition("/")[2]) if self._files else 0

    @property
    def last_timestamp_ms(self) -> int:
        """The store time of the last record indexed; 0 without."""
        return self._files[-1].end_timestamp_ms if self._files else 0

    @property
    def filled_timestamp_ms(self) -> int:
        """The store time of the last record in a full file; 0 without.

        It belongs into the checkpoint once those files are synced: a crash costs what is younger.
        """
        return max((file.end_timestamp_ms for file in self._files if file.is_full), default=0)

    @property
    def filled_end_offset(self) -> int:
        """The commit log offset of that record; -1 without."""
        return max((file.end_offset for file in self._files if file.is_full), default=-1)

    @property
    def filled(self) -> tuple[int, int]:
        """Both of them."""
        return self.filled_timestamp_ms, self.filled_end_offset

    @property
    def end_offset(self) -> int:
        """The commit log offset of the last record indexed; 0 without."""
        return self._files[-1].end_offset if self._files else 0

    @property
    def ends_full(self) -> bool:
        """Whether the last file has no room: other keys of its last record may be in a next one."""
        return bool(self._files) and self._files[-1].is_full

    def load(
        self,
        *,
        clean_stop: bool,
        checkpoint_ms: int,
        mark: IndexMark | None = None,
        find_keyed: FindKeyed = lambda _after, _before: None,
    ) -> list[str]:
        """Find the files; return the paths of those removed, whose keys must be indexed again.

        After a crash these are the files with records younger than ``checkpoint_ms``, as in Java's
        IndexService, and also one that was not full, and one that is too short; except that the
        file of the ``mark`` is kept as far as that speaks for it. The checkpoint has the time of a
        full file. If others behind it end at the same time, because the clock stood still, nobody
        knows whether they were synced, and they go too.

        Whatever the stop was, files behind a gap go: ``find_keyed`` knows of records in the log
        that should be in a file and are in none.

        Raises:
            StoreDamaged: a file does not have the length that ``slots`` and ``entries`` give.

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
            # Behind a file that is gone, another would claim that its keys are all indexed.
            is_cut = is_cut or not clean_stop or file is not None
        return removed

    def _loaded(
        self, path: str, clean_stop: bool, checkpoint_ms: int, mark: IndexMark | None
    ) -> GrowingIndexFile | None:
        """Return a file as far as it can be trusted; None if it can't."""
        if self._was_being_made(path, clean_stop=clean_stop):
            return None
        file = GrowingIndexFile.load(self._open_files, path, self._shape)
        if clean_stop or (file.is_full and self._is_vouched(file, checkpoint_ms)):
            return file
        return None if mark is None else self._replayed(path, mark)

    def _is_behind_gap(self, file: GrowingIndexFile, find_keyed: FindKeyed) -> bool:
        """Return whether a file is missing between the last one and this, and say so."""
        last = self._files[-1].end_offset if self._files else -1
        lost = find_keyed(last, file.begin_offset)
        if lost is not None:
            log.warning(
                "%s begins at byte %d of the log, and no file before it has the keys of the record "
                "at byte %d: the index is made again from there on",
                file.path,
                file.begin_offset,
                lost,
            )
        return lost is not None

    def _replayed(self, path: str, mark: IndexMark) -> GrowingIndexFile | None:
        """Return the file that grew, as far as a mark speaks for it; None if it does not."""
        if int(path.rpartition("/")[2]) != mark.name:
            return None
        file = GrowingIndexFile.replay(self._open_files, path, self._shape, mark.number)
        if file is None or file.end_offset >= mark.offset:
            return None
        file.reach(mark.offset - 1)
        return file

    def _is_vouched(self, file: GrowingIndexFile, checkpoint_ms: int) -> bool:
        """Return whether a checkpoint speaks for a full file, those before it being vouched."""
        is_next = not self._files or self.last_timestamp_ms < checkpoint_ms
        return is_next and file.end_timestamp_ms <= checkpoint_ms

    def _was_being_made(self, path: str, *, clean_stop: bool) -> bool:
        length = self._disk.size(path)
        return length == 0 or (not clean_stop and length < self._shape.file_bytes)

    def reach(self, offset: int) -> None:
        """Note for the next start that all records up to an offset of the log are indexed.

        It stands in the header in place of the last record with keys, and means the same to Java's
        IndexService: records before it are not indexed again.
        """
        if self._files:
            self._files[-1].reach(offset)

    def put(self, entry: Dispatched) -> None:
        """Index the keys of one record; see :meth:`put_all`."""
        self.put_all((entry,))

    def put_all(self, entries: Iterable[Dispatched]) -> None:
        """Index the keys of records, in the order of the log.

        Nothing is done for a record that was rolled back, and for one before the last indexed.
        That last one itself is indexed again, as in Java: a record split between two files is.

        Raises:
            DiskFailed: a new file could not be made, or a full one not written.

        """
        # Made even if none of the records has a key, as by Java's IndexService.buildIndex.
        file = self._file_with_room()
        keys = self._keys(entries, file.end_offset)
        while keys:
            file = self._file_with_room()
            keys = keys[file.add(keys) :]
            if file.is_full:
                file.finish()  # at once: from now on a checkpoint may speak for it

    def _keys(self, entries: Iterable[Dispatched], indexed_to: int) -> list[IndexKey]:
        """Return the keys of records from an offset of the log on."""
        keys: list[IndexKey] = []
        for entry in entries:
            offset, stored_ms = entry.commit_log_offset, entry.store_timestamp_ms
            if offset < indexed_to or entry.sys_flag & _STATE == _ROLLED_BACK:
                continue
            prefix, tags = _prefix(entry.topic), entry.tags
            if entry.unique_key is not None:
                keys.append((key_hash_utf8(prefix + entry.unique_key), offset, stored_ms))
            for key in entry.keys.split(_KEY_SEPARATOR) if entry.keys else ():
                if key:
                    keys.append((key_hash_utf8(prefix + key), offset, stored_ms))  # noqa: PERF401
            if tags and self._tag_keys:
                hash_of = _remembered_tags_hash if len(tags) <= _REMEMBERED_LENGTH else _tags_hash
                keys.append((hash_of(entry.topic, tags), offset, stored_ms))
        return keys

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
        """Return commit log offsets of records with that key, stored in a span of time.

        The newest come first, from the newest file to the oldest. As in Java's IndexService the
        first file that begins before ``begin_ms`` is the last to be searched, whatever the clock
        did meanwhile. Other keys may have the same hash: the caller looks at the records.
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
        """Write what is in memory only.

        Queries here don't need it, and a crash loses the file that grows in any case; it is for
        other readers, and before a stop. At worst it writes all slots, 20 MB with Java's sizes.

        Raises:
            DiskFailed: what was not written is kept, and this may be called again.

        """
        if self._files:
            self._files[-1].write()

    def write_mark(self, offset: int) -> IndexMark | None:
        """Write the entries of the file that grows; return what a sync makes true of it.

        None if there is no such file, or if Java, which trusts a file by its time alone, could take
        this one for a full one.

        Args:
            offset: the keys of all records before it were put.

        Raises:
            DiskFailed: what was not written is kept, and this may be called again.

        """
        file = self._files[-1] if self._files else None
        if file is None or file.is_full or file.end_timestamp_ms <= self.filled_timestamp_ms:
            return None
        file.write_entries()
        return IndexMark(self.last_name, file.next_number, offset)

    def sync_mark(self, offset: int) -> IndexMark | None:
        """Return the same when that, and all that was written before, is on the disk."""
        mark = self.write_mark(offset)
        self._open_files.sync_all()
        return mark

    def take_unsynced(self) -> Unsynced:
        """Return what was written and not synced yet; ``Unsynced.sync`` may run on a worker."""
        return self._open_files.take_unsynced()

    def sync(self) -> None:
        """Write what is in memory, and return when all is on the disk."""
        self.write()
        self._open_files.sync_all()

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back what could not be synced since there was no descriptor for it."""
        self._open_files.put_back(unsynced)

    def rest(self) -> None:
        """Close the files until they are used again."""
        self._open_files.close()

    def close(self) -> None:
        """Close the files; what was not written is lost."""
        self._open_files.close()

    def is_untouched(self) -> bool:
        """Return whether the files are those made here, and nobody else has written to the last.

        A Java broker that is started on a store in use removes index files and adds to the last
        one, before it asks for the lock (DefaultMessageStore.load).
        """
        known = [file.path.rpartition("/")[2] for file in self._files]
        return self._names() == known and (not known or self._files[-1].is_untouched())

    def remove_spoiled(self) -> None:
        """Remove all files, whoever made them; the next start makes the index again.

        Returns when the names are gone from the disk: after an orderly stop what is there is
        trusted.
        """
        log.error(
            "%s was changed by another process, and is removed; the next start makes it again from "
            "the log. Was a second broker started on this directory?",
            self._directory,
        )
        self._files.clear()
        for name in self._names():
            self._open_files.remove(f"{self._directory}/{name}")
        if self._disk.exists(self._directory):
            self._disk.sync_directory(self._directory)

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove files whose records are all before an offset, never the last; return the paths."""
        removed = []
        while len(self._files) > 1 and self._files[0].end_offset < commit_log_start:
            removed.append(self._files.pop(0).path)
            self._open_files.remove(removed[-1])
        return removed

    def _names(self) -> list[str]:
        """Return the names of the index files there are, the oldest first."""
        return [
            name
            for name in self._disk.list(self._directory)
            # Java takes no notice of other names either.
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
        file = GrowingIndexFile.create(self._open_files, path, self._shape, behind=last)
        files.append(file)
        return file

    def _next_name(self) -> str:
        """Return the name of a file made now, or a millisecond behind the last if that is later.

        Names that are equal, or go back with the clock, would lose a file or its order.
        """
        name = int(self._file_name())
        name = max(name, self.last_name + 1)
        return f"{name:0{_NAME_DIGITS}d}"


@lru_cache(maxsize=_REMEMBERED_TOPICS)
def _prefix(topic: str) -> bytes:
    return f"{topic}{KeyKind.KEY.value}".encode()


def _tags_hash(topic: str, tags: bytes) -> int:
    return key_hash_utf8(f"{topic}{KeyKind.TAGS.value}".encode() + tags)


# The tags of a topic are few and short, and come with every message.
_remembered_tags_hash = lru_cache(maxsize=_REMEMBERED_TAGS)(_tags_hash)
