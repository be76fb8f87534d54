"""One file of the log, as parts: what it has for each queue, its keys, and a summary.

::

    log file ──▶ QueuePart  places of one queue's records, in order of the log
             ├─▶ KeyPart    keys, in order of the log; ``first`` counts from the file's first key
             └─▶ LogFile    the last: where the file's records end, how many keys, what is damaged

Every log file begins with a record, so files are read independently, by as many tasks as there are.
"""

import struct
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

from orbitmq.errors import StoreDamaged
from orbitmq.message import flags
from orbitmq.message.record import Row
from orbitmq.message.record_view import filed_of
from orbitmq.store.damage import Damage
from orbitmq.store.disk.stream_files import map_file
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.index.index_file import IndexKey
from orbitmq.store.index.key_hashes import index_keys
from orbitmq.store.log.record_rows import Checked, is_blank
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.reader_walk import ReaderWalk
from orbitmq.store.settings import StoreSettings, delay_levels

__all__ = ["KeyPart", "LogFile", "Part", "QueuePart", "keys_of", "log_files", "parts", "places_of"]

_PLACE: Final = struct.Struct(
    ">q"  # queue offset
    "q"  # commit log offset
    "i"  # size of the record
    "q"  # tags code
    "q"  # store timestamp, ms
    "i"  # system flag
    "i"  # messages in the record
)
_KEY: Final = struct.Struct(
    ">i"  # hash of the key
    "q"  # commit log offset of its record
    "q"  # store timestamp, ms
)
_PLACES_HELD: Final = 1 << 16
"""Places of all queues in memory: 2.6 MB."""
_KEYS_HELD: Final = 1 << 15
_FOREVER: Final = (1 << 63) - 1


class QueuePart(NamedTuple):
    """Places of records of one queue; ``number`` orders the parts of a log file."""

    topic: str
    queue_id: int
    number: int
    entries: int
    data: bytes


class KeyPart(NamedTuple):
    """Some keys of a log file."""

    first: int
    keys: int
    data: bytes


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """What reading one log file has shown. Times and offsets are 0 without records."""

    base: int
    end: int
    """Where its last record ends, or the file, if a blank follows that."""
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0
    last_offset: int = 0
    """Where its last record begins."""
    keys: int = 0
    last_keyed: int = -1
    """Where its last record with keys begins."""
    batch_topics: tuple[str, ...] = ()
    """Topics of inner batches."""
    damages: tuple[Damage, ...] = ()


Part: TypeAlias = QueuePart | KeyPart | LogFile


def log_files(reader: StoreReader) -> list[int]:
    """Return the offsets at which log files begin.

    Raises:
        StoreDamaged: there is no file, or one is missing between two.
    """
    files = reader.segments
    if not files:
        raise StoreDamaged(
            f"{reader.log_directory} has no log file, and queues are made from the log alone; "
            "give the directory above commitlog/",
            path=reader.log_directory,
        )
    for before, file in pairwise(files):
        if file.base != before.end:
            raise StoreDamaged(
                f"the log lacks the file that begins at {before.end}, before {file.path}; put it "
                "back, or have a broker start on the store, which says what is lost",
                path=reader.log_directory,
                position=before.end,
            )
    return [file.base for file in files]


def parts(
    reader: StoreReader, base: int, settings: StoreSettings, *, tag_keys: bool = True
) -> Iterator[Part]:
    """Yield the parts of the log file that begins at ``base``; its summary is the last.

    With ``tag_keys`` tags are keys too, as since RocketMQ 5.4.0.
    """
    return _FileParts(reader, base, settings, tag_keys).all()


def places_of(part: QueuePart) -> Iterator[Dispatched]:
    """Yield the entries of a part."""
    for offset, log_offset, size, code, stored_ms, sys_flag, count in _PLACE.iter_unpack(part.data):
        yield Dispatched(
            *(part.topic, part.queue_id, offset, log_offset, size, stored_ms, sys_flag, code),
            *(None, b"", None, count),
        )


def keys_of(data: bytes) -> list[IndexKey]:
    """Return the keys of a part's data."""
    return list(_KEY.iter_unpack(data))


class _FileParts:
    """One log file being read."""

    def __init__(
        self, reader: StoreReader, base: int, settings: StoreSettings, tag_keys: bool
    ) -> None:
        self._reader = reader
        self._base = base
        self._settings = settings
        self._tag_keys = tag_keys
        self._places: dict[tuple[str, int], bytearray] = {}
        self._placed = self._parts = 0
        self._keys = bytearray()
        self._key_count = 0
        self._last_keyed = -1
        self._batch_topics: set[str] = set()
        self._damages: list[Damage] = []

    def all(self) -> Iterator[Part]:
        files = self._reader.segments
        (file,) = (file for file in files if file.base == self._base)
        sealed = self._settings.append_crc
        walk = ReaderWalk(
            files,
            open_file=partial(map_file, self._reader.disk),
            claimed=lambda _offset: False,  # queues are what is made; old ones prove nothing
            on_damage=self._damages.append,
            checked=Checked.BODY_AND_SEAL if sealed else Checked.BODY,
        )
        dispatcher = Dispatcher(delay_levels(self._settings.message_delay_level))
        records, first_ms, last_ms = 0, 0, 0
        last: Row | None = None
        for buffer, rows in walk.records(file.base, _FOREVER if file is files[-1] else file.end):
            filed = [filed_of(buffer, row) for row in rows]
            first_ms = first_ms if records else filed[0].store_timestamp_ms
            last_ms = filed[-1].store_timestamp_ms
            records += len(rows)
            last = rows[-1]
            self._take(dispatcher.entries_of(filed))
            yield from self._flushed(_PLACES_HELD, _KEYS_HELD)
        yield from self._flushed(0, 0)
        end = file.base
        if last is not None:
            mapped = map_file(self._reader.disk, file)
            is_ended = mapped is not None and is_blank(mapped, last[1])
            end = file.end if is_ended else file.base + last[1]
        yield LogFile(
            base=file.base,
            end=end,
            records=records,
            first_ms=first_ms,
            last_ms=last_ms,
            last_offset=0 if last is None else file.base + last[0],
            keys=self._key_count,
            last_keyed=self._last_keyed,
            batch_topics=tuple(sorted(self._batch_topics)),
            damages=tuple(self._damages),
        )

    def _take(self, entries: list[Dispatched]) -> None:
        places = self._places
        for entry in entries:
            if not entry.in_queue:
                continue
            if entry.sys_flag & flags.INNER_BATCH:
                self._batch_topics.add(entry.topic)
            held = places.setdefault((entry.topic, entry.queue_id), bytearray())
            held += _PLACE.pack(
                *(entry.queue_offset, entry.commit_log_offset, entry.size, entry.tags_code),
                *(entry.store_timestamp_ms, entry.sys_flag, entry.messages),
            )
            self._placed += 1
        if self._settings.index_enabled:
            found = index_keys(entries, 0, self._tag_keys)
            self._keys += b"".join(_KEY.pack(*key) for key in found)
            if found:
                self._last_keyed = found[-1][1]

    def _flushed(self, most_places: int, most_keys: int) -> Iterator[Part]:
        """Yield what is held, if it is more than what may be."""
        if self._placed > most_places:
            for (topic, queue_id), held in self._places.items():
                count = len(held) // _PLACE.size
                yield QueuePart(topic, queue_id, self._parts, count, bytes(held))
                self._parts += 1
            self._places.clear()
            self._placed = 0
        if (count := len(self._keys) // _KEY.size) > most_keys:
            yield KeyPart(self._key_count, count, bytes(self._keys))
            self._key_count += count
            self._keys.clear()
