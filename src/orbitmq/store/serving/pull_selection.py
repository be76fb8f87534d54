"""What one pull gets: records of a queue from an offset on, under RocketMQ's limits.

The order of the checks and the limits are those of Java's ``DefaultMessageStore.getMessage``. The
first record is always taken, whatever its size; a pull never goes past the end of one consume
queue file; and records that lie far behind the end of the log count as being on the disk, of which
one pull gets less.

Unlike Java's, a pull passes over an entry that leads to no record, as in a damaged file: a client
drops the rest of an answer behind bytes that it can't decode, and with it good messages.
"""

import enum
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from orbitmq.message.record import LEAST_SIZE, MAGICS, SIZE_AND_MAGIC
from orbitmq.store.layout import EXT_ADDRESS_LIMIT
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE
from orbitmq.store.settings import StoreSettings

__all__ = [
    "PULL_BYTES_MAX",
    "Extended",
    "Log",
    "Queue",
    "Selected",
    "Selection",
    "Selector",
    "Wants",
]

log = logging.getLogger("orbitmq.store")

Wants: TypeAlias = Callable[[int], bool]
"""Tells from a tags code whether a consumer may want a record."""
Extended: TypeAlias = Callable[[int], int | None]
"""Returns the tags code that an address in an extension stands for; None if it can't be found."""

_NO_HEAD: Final = (0, 0)
_SCANNED_BYTES_MIN: Final = 16_000
_BYTES_MIN: Final = 100
PULL_BYTES_MAX: Final = 128 * 1024 * 1024
"""What one pull gets at most, whatever the consumer asks for and the settings say."""


class Selected(enum.Enum):
    """How a pull ended; the names are those of Java's ``GetMessageStatus``."""

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
    """Said by a broker whose operator moved the group; no selection ends so."""


class Selection(msgspec.Struct, kw_only=True):
    """The answer to a pull."""

    status: Selected
    views: list[memoryview] = msgspec.field(default_factory=list)
    """The records, as views of the log."""
    next_offset: int = 0
    """Where the next pull should begin."""
    min_offset: int = 0
    max_offset: int = 0
    size: int = 0
    """The bytes of all records."""
    from_disk: bool = False
    """Whether the last record looked at is too old to be in memory: a slave might serve it."""


class Queue(Protocol):
    """What a pull needs of a consume queue."""

    @property
    def min_offset(self) -> int:
        """The oldest entry that is kept."""
        ...

    @property
    def max_offset(self) -> int:
        """One past the newest entry."""
        ...

    def entries(self, offset: int, count: int) -> bytes:
        """Return entries from an offset on, at most to the end of its file."""
        ...

    def next_file_offset(self, offset: int) -> int:
        """Return the first offset of the file after the one that holds ``offset``."""
        ...


class Log(Protocol):
    """What a pull needs of the commit log."""

    end: int

    @property
    def first_offset(self) -> int:
        """The oldest byte that is kept."""
        ...

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return bytes of the log, None if they are gone."""
        ...

    def next_segment_offset(self, offset: int) -> int:
        """Return where the file after the one with ``offset`` begins."""
        ...


class Selector:
    """Answers pulls.

    Args:
        commit_log: where the records are.
        settings: the limits.
        memory_bytes: the memory of the machine, or of the container.

    """

    def __init__(self, commit_log: Log, settings: StoreSettings, memory_bytes: int) -> None:
        self._log = commit_log
        self._told: set[int] = set()  # the ends of damaged files that were told of
        self._memory_bytes = memory_bytes
        self.apply(settings)

    def apply(self, settings: StoreSettings) -> None:
        """Answer within these limits from now on."""
        self._settings = settings
        self._near_bytes = self._memory_bytes * settings.memory_percent // 100

    def is_near(self, commit_log_offset: int) -> bool:
        """Return whether a record is held to be in memory: it lies not far from the end."""
        return self._log.end - commit_log_offset <= self._near_bytes

    def select(
        self,
        queue: Queue | None,
        offset: int,
        *,
        max_count: int,
        max_bytes: int = PULL_BYTES_MAX,
        wants: Wants | None = None,
        extended: Extended = lambda _address: None,
    ) -> Selection:
        """Return what a pull gets.

        Args:
            queue: the queue; None if there is none.
            offset: where to begin.
            max_count: the most records the consumer takes.
            max_bytes: the most bytes it takes.
            wants: tells from an entry's tags code whether the consumer may want the record.
            extended: asked where an entry has an address in place of its tags code.

        """
        if queue is None:
            return Selection(status=Selected.NO_MATCHED_LOGIC_QUEUE)
        outside = _outside(queue, offset)
        if outside is not None:
            return outside
        scanned = max(1, max_count)  # without a filter every entry is got, or ends the pull
        if wants is not None:
            scanned = max(_SCANNED_BYTES_MIN // ENTRY_SIZE, max_count)
        entries = queue.entries(offset, scanned)
        selection = Selection(
            status=Selected.NO_MATCHED_MESSAGE,
            next_offset=offset,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
        )
        if not entries:
            selection.status = Selected.OFFSET_FOUND_NULL
            selection.next_offset = queue.next_file_offset(offset)
            return selection
        limit = min(max(max_bytes, _BYTES_MIN), PULL_BYTES_MAX)
        self._collect(entries, selection, max_count, limit, wants, extended)
        return selection

    def _collect(
        self,
        entries: bytes,
        selection: Selection,
        max_count: int,
        max_bytes: int,
        wants: Wants | None,
        extended: Extended,
    ) -> None:
        skip_to, taken, passed, from_disk = 0, 0, 0, False
        views, view_of = selection.views, self._log.view
        head_of = SIZE_AND_MAGIC.unpack_from
        near_from = self._log.end - self._near_bytes
        for position, size, code in ENTRY.iter_unpack(entries):
            is_far = position < near_from
            if views and self._is_full(len(views), taken + size, max_count, max_bytes, is_far):
                break
            from_disk = is_far
            passed += 1
            if position < skip_to:  # in a file that is gone
                continue
            if (
                wants is not None
                and not wants(code)
                and (code >= EXT_ADDRESS_LIMIT or not _wants_extended(wants, extended(code)))
            ):
                if not views:
                    selection.status = Selected.NO_MATCHED_MESSAGE
                continue
            view = view_of(position, size)
            if view is None:
                if not views:
                    selection.status = Selected.MESSAGE_WAS_REMOVING
                skip_to = self._log.next_segment_offset(position)
                continue
            skip_to = 0
            # No more of a record is looked at, and that here: a call for each would cost as much.
            found_size, magic = head_of(view) if size >= LEAST_SIZE else _NO_HEAD
            if found_size != size or magic not in MAGICS:
                self._tell_of_damage(position)
                continue
            views.append(view)
            taken += size
        if views:
            selection.status = Selected.FOUND
        selection.size, selection.from_disk = taken, from_disk
        selection.next_offset += passed

    def _tell_of_damage(self, position: int) -> None:
        """Log that an entry leads to no record, once for each file of the log."""
        file_end = self._log.next_segment_offset(position)
        if file_end not in self._told:
            self._told.add(file_end)
            log.error(
                "a pull passes over byte %d of the log, where a queue has a message and no record "
                "begins; more in the same file are passed over silently, and orbitmq store verify "
                "shows all of them",
                position,
            )

    def _is_full(
        self, count: int, total: int, max_count: int, max_bytes: int, from_disk: bool
    ) -> bool:
        """Return whether one more record is too many, with which there would be ``total`` bytes."""
        if count >= max_count or total > max_bytes:
            return True
        settings = self._settings
        if from_disk:
            return total > settings.pull_bytes_on_disk or count >= settings.pull_count_on_disk
        return total > settings.pull_bytes_in_memory or count >= settings.pull_count_in_memory


def _wants_extended(wants: Wants, code: int | None) -> bool:
    """Return what a filter says of an entry with an extension; where that is gone, it says yes.

    So does Java's ``DefaultMessageFilter``: the client compares the tags themselves.
    """
    return code is None or wants(code)


def _outside(queue: Queue, offset: int) -> Selection | None:
    """Return the answer to a pull whose offset is not in the queue, None if it is."""
    lowest, highest = queue.min_offset, queue.max_offset
    if highest == 0:
        status, next_offset = Selected.NO_MESSAGE_IN_QUEUE, 0
    elif offset < lowest:
        status, next_offset = Selected.OFFSET_TOO_SMALL, lowest
    elif offset == highest:
        status, next_offset = Selected.OFFSET_OVERFLOW_ONE, offset
    elif offset > highest:
        status, next_offset = Selected.OFFSET_OVERFLOW_BADLY, highest
    else:
        return None
    return Selection(status=status, next_offset=next_offset, min_offset=lowest, max_offset=highest)
