"""Reads the records that answer one pull: those of a queue from an offset on, within limits.

The limits and the order of the checks are those of Java's ``DefaultMessageStore.getMessage``. The
first record is always returned, whatever its size. A pull never crosses the end of a consume queue
file. Records far before the end of the log count as being on disk, and a pull returns fewer of
those.

Unlike Java, a pull skips an entry that points to no record, as in a damaged file: a client drops
everything in a response after bytes that it can't decode, including good messages.
"""

import enum
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from orbitmq.errors import CorruptRecord
from orbitmq.message.record import LEAST_SIZE, MAGICS, SIZE_AND_MAGIC
from orbitmq.message.record_view import RecordView
from orbitmq.store.layout import EXT_ADDRESS_LIMIT
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.batch_entry import BatchEntry
from orbitmq.store.queues.batch_queue import BatchQueue
from orbitmq.store.queues.consume_queues import AnyQueue
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE
from orbitmq.store.settings import StoreSettings

__all__ = [
    "PULL_BYTES_MAX",
    "Extended",
    "GetMessageResult",
    "GetMessageStatus",
    "PullReader",
    "RecordFilter",
    "Wants",
]

log = logging.getLogger("orbitmq.store")

Wants: TypeAlias = Callable[[int], bool]
"""Returns whether a consumer may want a record with this tags code."""


class RecordFilter(Protocol):
    """Returns whether a consumer wants a record, by the properties in the log."""

    @property
    def terms(self) -> int:
        """About how many operands have to be read and compared."""

    def matches(self, properties: str) -> bool:
        """Return whether a record with properties of this text is wanted."""


Extended: TypeAlias = Callable[[int], int | None]
"""Returns the tags code at an address in a queue extension; None if there is none."""

_NO_HEAD: Final = (0, 0)
_NO_FILE: Final = memoryview(b"")
_NO_RUN: Final = -1
_SCANNED_BYTES_MIN: Final = 16_000
_BYTES_MIN: Final = 100
_RECORD_TERMS: Final = 10
"""Reading the properties of a record takes as long as about ten operands."""
_FILTER_TERMS_MAX: Final = 16_000
"""Operands in one pull, some milliseconds of work; Java has no such limit."""
PULL_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most bytes that one pull returns, whatever the consumer and the settings allow."""


class GetMessageStatus(enum.Enum):
    """How a pull ended, by Java's names."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"
    """Set by the broker when an operator moved the group's offset; the store never returns it."""


class GetMessageResult(msgspec.Struct, kw_only=True):
    """The records that answer a pull, and where the next pull begins."""

    status: GetMessageStatus
    views: list[memoryview] = msgspec.field(default_factory=list)
    """The records, as views of the log. Those that follow each other there may share a view."""
    count: int = 0
    """The messages in the records."""
    next_offset: int = 0
    min_offset: int = 0
    max_offset: int = 0
    size: int = 0
    """The total bytes of the records."""
    from_disk: bool = False
    """Whether the last record read is too old to be in memory; a slave could serve it."""


class PullReader:
    """Answers pulls; ``memory_bytes`` is the memory of the machine or the container."""

    def __init__(self, commit_log: CommitLog, settings: StoreSettings, memory_bytes: int) -> None:
        self._log = commit_log
        self._reported: set[int] = set()  # the ends of log files whose damage was logged
        self._memory_bytes = memory_bytes
        self.apply(settings)

    def apply(self, settings: StoreSettings) -> None:
        """Use the limits of these settings from now on."""
        self._settings = settings
        self._near_bytes = self._memory_bytes * settings.memory_percent // 100

    def is_near(self, commit_log_offset: int) -> bool:
        """Return whether a record is close enough to the end of the log to be in memory."""
        return self._log.end - commit_log_offset <= self._near_bytes

    def get_messages(
        self,
        queue: AnyQueue | None,
        offset: int,
        *,
        max_count: int,
        max_bytes: int = PULL_BYTES_MAX,
        wants: Wants | None = None,
        record_filter: RecordFilter | None = None,
        extended: Extended = lambda _address: None,
    ) -> GetMessageResult:
        """Return the records from ``offset`` on; ``queue`` is None if it does not exist.

        ``wants`` filters by tags code; ``extended`` resolves an address in place of a tags code.
        ``record_filter`` filters what is left by properties.
        """
        if queue is None:
            return GetMessageResult(status=GetMessageStatus.NO_MATCHED_LOGIC_QUEUE)
        outside = _outside(queue, offset)
        if outside is not None:
            return outside
        scanned = max(1, max_count)  # without a filter each entry is returned or ends the pull
        if wants is not None or record_filter is not None:
            scanned = max(_SCANNED_BYTES_MIN // ENTRY_SIZE, max_count)
        if record_filter is not None:
            each = _RECORD_TERMS + record_filter.terms
            scanned = min(scanned, max(1, _FILTER_TERMS_MAX // each))
        result = GetMessageResult(
            status=GetMessageStatus.NO_MATCHED_MESSAGE,
            next_offset=offset,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
        )
        limit = min(max(max_bytes, _BYTES_MIN), PULL_BYTES_MAX)
        if isinstance(queue, BatchQueue):
            batches = queue.entries(offset, scanned)
            self._collect_batches(batches, result, max_count, limit, wants, record_filter)
            return result
        entries = queue.entries(offset, scanned)
        if not entries:
            result.status = GetMessageStatus.OFFSET_FOUND_NULL
            result.next_offset = queue.next_file_offset(offset)
            return result
        self._collect(entries, result, max_count, limit, wants, record_filter, extended)
        return result

    def _collect(
        self,
        entries: bytes,
        result: GetMessageResult,
        max_count: int,
        max_bytes: int,
        wants: Wants | None,
        record_filter: RecordFilter | None,
        extended: Extended,
    ) -> None:
        """Collect the records of a consume queue; inline, since a call for each is as dear."""
        skip_to = count = taken = passed = 0
        from_disk, is_far = False, True
        near_from = self._log.end - self._near_bytes
        count_max, bytes_max = self._limits(max_count, max_bytes, is_far=True)
        views, head_of = result.views, SIZE_AND_MAGIC.unpack_from
        # The file of the last record, and in it the run of records that is not in ``views`` yet.
        file, base, room = _NO_FILE, 0, -1
        run_begin, run_end = 0, _NO_RUN
        for position, size, code in ENTRY.iter_unpack(entries):
            if is_far and position >= near_from:
                is_far = False
                count_max, bytes_max = self._limits(max_count, max_bytes, is_far=False)
            if count and (count >= count_max or taken + size > bytes_max):
                break
            from_disk = is_far
            passed += 1
            if position < skip_to:  # in a file that is gone
                continue
            if wants is not None and not wants(code) and _rejects(wants, code, extended):
                if not count:
                    result.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            begin = position - base
            if begin < 0 or begin + size > room:
                found = self._log.file_view(position, size)
                if found is None:
                    if not count:
                        result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                    skip_to = self._log.next_segment_offset(position)
                    continue
                if run_end != _NO_RUN:
                    views.append(file[run_begin:run_end])
                    run_end = _NO_RUN
                file, base = found
                begin, room = position - base, len(file)
            skip_to = 0
            found_size, magic = head_of(file, begin) if size >= LEAST_SIZE else _NO_HEAD
            if found_size != size or magic not in MAGICS:
                self._log_damage(position)
                continue
            if record_filter is not None and not self._matches(
                record_filter, RecordView(file, begin, size), position
            ):
                if not count:
                    result.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            if begin != run_end:
                if run_end != _NO_RUN:
                    views.append(file[run_begin:run_end])
                run_begin = begin
            run_end = begin + size
            count += 1
            taken += size
        if run_end != _NO_RUN:
            views.append(file[run_begin:run_end])
        if count:
            result.status = GetMessageStatus.FOUND
        result.count, result.size, result.from_disk = count, taken, from_disk
        result.next_offset += passed

    def _matches(self, record_filter: RecordFilter, view: RecordView, position: int) -> bool:
        try:
            properties = view.properties
        except CorruptRecord:
            self._log_damage(position)
            return False
        return record_filter.matches(str(properties, "utf-8", "replace"))

    def _collect_batches(
        self,
        entries: list[BatchEntry],
        result: GetMessageResult,
        max_count: int,
        max_bytes: int,
        wants: Wants | None,
        record_filter: RecordFilter | None,
    ) -> None:
        """Collect the records of a batch queue; a batch is returned whole, or not at all.

        Clients drop the messages before the offset that they asked for. An entry without tags is
        returned whatever the filter: the messages of an inner batch have their own tags, by which
        clients filter. Java's broker skips the batch, and a consumer with a filter by tags gets
        nothing (``DefaultMessageFilter``).
        """
        skip_to, count, views = 0, 0, result.views
        near_from = self._log.end - self._near_bytes
        for entry in entries:
            position, size = entry.commit_log_offset, entry.size
            is_far, total = position < near_from, result.size + size
            count_max, bytes_max = self._limits(max_count, max_bytes, is_far=is_far)
            if views and (
                count + entry.messages > max_count or count >= count_max or total > bytes_max
            ):
                break
            result.from_disk = is_far
            result.next_offset = entry.end
            if position < skip_to or (wants and entry.tags_code and not wants(entry.tags_code)):
                continue
            view = self._log.view(position, size)
            if view is None:
                if not views:
                    result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                skip_to = self._log.next_segment_offset(position)
                continue
            found_size, magic = SIZE_AND_MAGIC.unpack_from(view) if size >= LEAST_SIZE else _NO_HEAD
            if found_size != size or magic not in MAGICS:
                self._log_damage(position)
                continue
            if record_filter is not None and not self._matches(
                record_filter, RecordView(view, 0, size), position
            ):
                continue
            views.append(view)
            count += entry.messages
            result.size = total
        if views:
            result.status = GetMessageStatus.FOUND
        result.count = count

    def _log_damage(self, position: int) -> None:
        """Log that an entry points to no record, once per file of the log."""
        file_end = self._log.next_segment_offset(position)
        if file_end not in self._reported:
            self._reported.add(file_end)
            log.error(
                "a pull skipped a message: its queue entry points to byte %d of the log, where no "
                "record begins; further ones in this file are not logged, run orbitmq store verify "
                "to list them all",
                position,
            )

    def _limits(self, max_count: int, max_bytes: int, *, is_far: bool) -> tuple[int, int]:
        """Return how many records, and how many bytes, a pull may return."""
        settings = self._settings
        if is_far:
            return (
                min(max_count, settings.pull_count_on_disk),
                min(max_bytes, settings.pull_bytes_on_disk),
            )
        return (
            min(max_count, settings.pull_count_in_memory),
            min(max_bytes, settings.pull_bytes_in_memory),
        )


def _rejects(wants: Wants, code: int, extended: Extended) -> bool:
    """Return whether a filter that doesn't want a code doesn't want the extended one either.

    If the extension is missing, the record comes along, as with Java's ``DefaultMessageFilter``:
    the client compares the tags themselves.
    """
    if code >= EXT_ADDRESS_LIMIT:
        return True
    found = extended(code)
    return found is not None and not wants(found)


def _outside(queue: AnyQueue, offset: int) -> GetMessageResult | None:
    """Return the answer to a pull whose offset is outside the queue; None if it is inside."""
    lowest, highest = queue.min_offset, queue.max_offset
    if highest == 0:
        status, next_offset = GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    elif offset < lowest:
        status, next_offset = GetMessageStatus.OFFSET_TOO_SMALL, lowest
    elif offset == highest:
        status, next_offset = GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    elif offset > highest:
        status, next_offset = GetMessageStatus.OFFSET_OVERFLOW_BADLY, highest
    else:
        return None
    return GetMessageResult(
        status=status, next_offset=next_offset, min_offset=lowest, max_offset=highest
    )
