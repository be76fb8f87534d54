"""The key index: which records of the commit log have a key, by the hash of ``topic#key``.

Laws:

- Keys of a record are indexed in the order unique key, keys, tags. A full file is followed by the
  next in the middle of a record, if need be.
- File names are local times and only sort the files: a new one is always the last.
- After a crash no file is trusted that was not full, and synced, before the last checkpoint.
"""

import enum
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from orbitmq.errors import InvalidInput
from orbitmq.message import flags
from orbitmq.message.tags import java_hash
from orbitmq.store.disk import Disk
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.index_file import GrowingIndexFile, IndexShape
from orbitmq.store.layout import key_hash
from orbitmq.store.open_files import OpenFiles, Unsynced

__all__ = ["KeyIndex", "KeyKind"]

_OPEN_FILES_MAX: Final = 16
_NAME_DIGITS: Final = 17  # yyyyMMddHHmmssSSS
_SIGN_CLEARED: Final = 0x7FFF_FFFF
_REMEMBERED_TAGS: Final = 1024
_REMEMBERED_LENGTH: Final = 64


class KeyKind(enum.Enum):
    """What a text is looked up as; the value stands between topic and text."""

    KEY = "#"
    """A unique key, or one of the keys."""
    TAGS = "#T#"
    """The tags; indexed since RocketMQ 5.4.0."""


class KeyIndex:
    """The index files of a store: ``<directory>/<yyyyMMddHHmmssSSS>``.

    Args:
        directory: the ``index`` of the store.
        slots: hash slots of a file, and
        entries: entries of a file, one of which is never used; as the store was made with.
        file_name: returns a name for a file made now, local time; the caller has the clock.
        tag_keys: whether tags are indexed too, as RocketMQ 5.4.0 does and older ones don't.

    >>> from tempfile import TemporaryDirectory
    >>> from orbitmq.store.disk import RealDisk
    >>> with TemporaryDirectory() as directory:
    ...     index = KeyIndex(RealDisk(), directory, slots=100, entries=300,
    ...                      file_name=lambda: "20240229120000000")
    ...     index.put(Dispatched(topic="orders", queue_id=0, queue_offset=0, commit_log_offset=640,
    ...         size=200, tags_code=0, store_timestamp_ms=1000, sys_flag=0, unique_key=None,
    ...         keys="o-41 o-42", tags=None))
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
        self._open_files = OpenFiles(disk, limit=_OPEN_FILES_MAX)
        self._files: list[GrowingIndexFile] = []

    def __repr__(self) -> str:
        return f"<KeyIndex {self._directory}: {len(self._files)} files>"

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
    def end_offset(self) -> int:
        """The commit log offset of the last record indexed; 0 without."""
        return self._files[-1].end_offset if self._files else 0

    def load(self, *, clean_stop: bool, checkpoint_ms: int) -> list[str]:
        """Find the files; return the paths of those removed, whose keys must be indexed again.

        After a crash these are the files with records younger than ``checkpoint_ms``, as in Java's
        IndexService, and also one that was not full, since its header may be older than its
        entries, and one that is too short.

        Raises:
            StoreDamaged: a file does not have the length that ``slots`` and ``entries`` give.

        """
        removed = []
        for name in self._disk.list(self._directory):
            path = f"{self._directory}/{name}"
            # Java takes no notice of other names either.
            if not (name.isascii() and name.isdecimal()) or self._disk.is_directory(path):
                continue
            if self._was_being_made(path, clean_stop=clean_stop):
                self._open_files.remove(path)
                removed.append(path)
                continue
            file = GrowingIndexFile.load(self._open_files, path, self._shape)
            # Behind a file that is gone, another would claim that its keys are all indexed.
            trusted = not removed and file.is_full and file.end_timestamp_ms <= checkpoint_ms
            if clean_stop or trusted:
                self._files.append(file)
            else:
                self._open_files.remove(path)
                removed.append(path)
        return removed

    def _was_being_made(self, path: str, *, clean_stop: bool) -> bool:
        length = self._disk.size(path)
        return length == 0 or (not clean_stop and length < self._shape.file_bytes)

    def put(self, entry: Dispatched) -> None:
        """Index the keys of a record.

        Nothing is done for a record that was rolled back, and for one before the last indexed.
        That last one itself is indexed again, as in Java: a record split between two files is.

        Raises:
            DiskFailed: a new file could not be made, or a full one not written.

        """
        file = self._file_with_room()
        if entry.commit_log_offset < file.end_offset:
            return
        if entry.sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_ROLLBACK:
            return
        hashes = self._hashes(entry)
        added = file.add(hashes, entry.commit_log_offset, entry.store_timestamp_ms)
        while added < len(hashes):
            hashes = hashes[added:]
            file = self._file_with_room()
            added = file.add(hashes, entry.commit_log_offset, entry.store_timestamp_ms)

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

    def take_unsynced(self) -> Unsynced:
        """Return what was written and not synced yet; ``Unsynced.sync`` may run on a worker."""
        return self._open_files.take_unsynced()

    def sync(self) -> None:
        """Write what is in memory, and return when all is on the disk."""
        self.write()
        self.take_unsynced().sync(self._disk)

    def close(self) -> None:
        """Close the files; what was not written is lost."""
        self._open_files.close()

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove files whose records are all before an offset, never the last; return the paths."""
        removed = []
        while len(self._files) > 1 and self._files[0].end_offset < commit_log_start:
            removed.append(self._files.pop(0).path)
            self._open_files.remove(removed[-1])
        return removed

    def _hashes(self, entry: Dispatched) -> list[int]:
        topic = entry.topic
        hashes = []
        # Spelled out what key_hash does, twice per message: a call less is worth it here.
        if entry.unique_key is not None:
            hashes.append(abs(java_hash(f"{topic}#{entry.unique_key}")) & _SIGN_CLEARED)
        if entry.keys:
            for key in entry.keys.split(" "):
                if key:
                    hashes.append(abs(java_hash(f"{topic}#{key}")) & _SIGN_CLEARED)  # noqa: PERF401
        if self._tag_keys and entry.tags:
            hash_of = _remembered_tags_hash if len(entry.tags) <= _REMEMBERED_LENGTH else _tags_hash
            hashes.append(hash_of(topic, entry.tags))
        return hashes

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
        if self._files:
            name = max(name, int(self._files[-1].path.rpartition("/")[2]) + 1)
        return f"{name:0{_NAME_DIGITS}d}"


def _tags_hash(topic: str, tags: str) -> int:
    return key_hash(f"{topic}{KeyKind.TAGS.value}{tags}")


# The tags of a topic are few and short, and come with every message.
_remembered_tags_hash = lru_cache(maxsize=_REMEMBERED_TAGS)(_tags_hash)
