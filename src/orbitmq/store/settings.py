"""The numbers of a store. Defaults are Java's; ``docs/settings.md`` lists the fields."""

import enum
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.store.layout import COMMIT_LOG, path_join

__all__ = ["CHANGEABLE", "FlushMode", "StoreSettings", "delay_levels"]

_DELAY_UNITS_MS: Final[Mapping[str, int]] = {
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_RATIO_MAX: Final = 100
_SMALLEST_SEGMENT: Final = 1024
_TIMER_PRECISIONS_MS: Final = (100, 200, 500, 1_000)


class FlushMode(enum.Enum):
    """Whether a send is acknowledged before its record is on disk, or after."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a store: files, flushing, retention, limits of pulls.

    Raises:
        InvalidInput: a value is out of its range.
    """

    commit_log_path: str = ""
    """The directory of the commit log; empty: ``commitlog`` below the root (storePathCommitLog)."""
    segment_bytes: int = 1024 * 1024 * 1024
    """The size of a commit log file (mappedFileSizeCommitLog)."""
    queue_file_entries: int = 300_000
    """Entries per consume queue file (mappedFileSizeConsumeQueue, in bytes there)."""
    batch_queue_file_entries: int = 300_000
    """Entries per batch queue file (mapperFileSizeBatchConsumeQueue, in bytes there)."""
    index_enabled: bool = True
    """Whether keys can be looked up (messageIndexEnable)."""
    index_slots: int = 5_000_000
    """Hash slots per index file (maxHashSlotNum)."""
    index_entries: int = 20_000_000
    """Keys per index file, plus one (maxIndexNum)."""
    max_message_bytes: int = 4 * 1024 * 1024
    """The largest body (maxMessageSize)."""
    append_crc: bool = False
    """Add a checksum of the whole record to each record (enabledAppendPropCRC)."""
    lmq_enabled: bool = False
    """Whether messages are also in the light queues that they name (enableLmq)."""
    multi_dispatch_enabled: bool = False
    """The same as lmq_enabled: Java needs both (enableMultiDispatch)."""
    lmq_queues_max: int = 20_000
    """The most light queues; a message that names one more is refused (maxLmqConsumeQueueNum)."""
    flush_mode: FlushMode = FlushMode.ASYNC
    """Whether a send waits until it is on disk (flushDiskType)."""
    flush_interval_ms: int = 500
    """How often dirty pages are flushed, if there are enough (flushIntervalCommitLog)."""
    flush_least_pages: int = 4
    """Fewer dirty pages of 4 KiB are not flushed yet (flushCommitLogLeastPages)."""
    flush_thorough_interval_ms: int = 10_000
    """How often all dirty pages are flushed (flushCommitLogThoroughInterval)."""
    sync_flush_timeout_ms: int = 5_000
    """How long a send waits until it is on disk (syncFlushTimeout)."""
    queue_flush_thorough_interval_ms: int = 60_000
    """How often all consume queues are flushed (flushConsumeQueueThoroughInterval)."""
    reserved_hours: int = 72
    """How long commit log files are kept (fileReservedTime)."""
    delete_when: str = "04"
    """The hours at which expired files are removed, separated by ``;``; 24: never (deleteWhen)."""
    disk_used_max_percent: int = 75
    """Above this disk usage expired files are removed at any hour; 10 to 95
    (diskMaxUsedSpaceRatio)."""
    disk_clean_forcibly_percent: int = 85
    """Above this the oldest files are removed whatever their age; 30 to 85
    (diskSpaceCleanForciblyRatio)."""
    disk_full_percent: int = 90
    """Above this no writes are accepted; 35 to 90 (diskSpaceWarningLevelRatio)."""
    read_ahead: bool = True
    """Whether reads of the log take further pages along (dataReadAheadEnable)."""
    memory_percent: int = 40
    """The fraction of memory that recent records are assumed to fill
    (accessMessageInMemoryMaxRatio)."""
    pull_bytes_in_memory: int = 256 * 1024
    """Bytes of recent records per pull, at most (maxTransferBytesOnMessageInMemory)."""
    pull_count_in_memory: int = 32
    """Recent records per pull, at most (maxTransferCountOnMessageInMemory)."""
    pull_bytes_on_disk: int = 64 * 1024
    """Bytes of older records per pull, at most (maxTransferBytesOnMessageInDisk)."""
    pull_count_on_disk: int = 8
    """Older records per pull, at most (maxTransferCountOnMessageInDisk)."""
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of levels 1, 2, … (messageDelayLevel)."""
    timer_wheel_enabled: bool = True
    """Whether messages may have a delivery time (timerWheelEnable)."""
    timer_precision_ms: int = 1_000
    """The length of a slot, 100, 200, 500 or 1000 (timerPrecisionMs)."""
    timer_max_delay_s: int = 3 * 86_400
    """The longest delay of a message, in seconds (timerMaxDelaySec)."""
    timer_roll_window_slots: int = 2 * 86_400
    """A message that waits for more slots is put back on the way (timerRollWindowSlot)."""
    timer_log_file_bytes: int = 100 * 1024 * 1024
    """The size of a timer log file (mappedFileSizeTimerLog)."""
    timer_flush_interval_ms: int = 1_000
    """How often timer log, wheel and their checkpoint are flushed (timerFlushIntervalMs)."""
    timer_slot_messages_max: int = 2**31 - 1
    """With more messages in a slot, further ones are refused by chance, from twice as many on all
    (timerCongestNumEachSlot)."""
    timer_stop_enqueue: bool = False
    """Whether messages stay in the timer topic (timerStopEnqueue)."""
    timer_stop_dequeue: bool = False
    """Whether messages that are due stay in the wheel (timerStopDequeue)."""
    timer_delete_key_with_topic: bool = False
    """Whether a recall names the topic too, as brokers before 5.4 require
    (appendTopicForTimerDeleteKey)."""
    accept_loss: bool = False
    """Start even if files at the end of the log are missing; their messages are lost
    (acceptLoss, ours)."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is int and value <= 0:
                raise InvalidInput(f"{name} is {value}; it must be 1 or more", field=name)
            if name.endswith("_percent") and value > _RATIO_MAX:
                raise InvalidInput(f"{name} is {value}; it is a percentage", field=name)
        if not _SMALLEST_SEGMENT <= self.segment_bytes < 2**31:
            raise InvalidInput(
                f"segment_bytes is {self.segment_bytes}; it must be from {_SMALLEST_SEGMENT} to "
                "2147483647",
                field="segment_bytes",
            )
        if self.timer_precision_ms not in _TIMER_PRECISIONS_MS:
            raise InvalidInput(
                f"timer_precision_ms is {self.timer_precision_ms}; it must be 100, 200, 500 or "
                "1000",
                field="timer_precision_ms",
            )
        if self.timer_log_file_bytes < _SMALLEST_SEGMENT:
            raise InvalidInput(
                f"timer_log_file_bytes is {self.timer_log_file_bytes}; it must be "
                f"{_SMALLEST_SEGMENT} or more",
                field="timer_log_file_bytes",
            )
        if "," in self.commit_log_path:
            raise InvalidInput(
                f"commit_log_path is {self.commit_log_path!r}; a log in several directories, as "
                "Java has it, is not supported: give one, on a volume that is large enough",
                field="commit_log_path",
            )
        if self.lmq_enabled is not self.multi_dispatch_enabled:
            raise InvalidInput(
                "lmq_enabled and multi_dispatch_enabled differ; messages get into light queues "
                "only with both, so set both or none",
                field="lmq_enabled",
            )
        _check_hours(self.delete_when)
        delay_levels(self.message_delay_level)

    @property
    def record_bytes_max(self) -> int:
        """The largest record: Java allows 64 KiB besides the body (MessageExtEncoder)."""
        return min(self.max_message_bytes + 64 * 1024, self.segment_bytes - 8)

    def log_directory(self, root: str) -> str:
        """Return the directory of the commit log of a store.

        All other paths derive from the root, as in Java.

        >>> StoreSettings(commit_log_path="/fast/commitlog").log_directory("/data")
        '/fast/commitlog'
        """
        return self.commit_log_path.rstrip("/") or path_join(root, COMMIT_LOG)


CHANGEABLE: Final = frozenset(
    {
        *("max_message_bytes", "lmq_queues_max"),
        *("flush_interval_ms", "flush_least_pages", "flush_thorough_interval_ms"),
        *("sync_flush_timeout_ms", "queue_flush_thorough_interval_ms"),
        *("reserved_hours", "delete_when"),
        *("disk_used_max_percent", "disk_clean_forcibly_percent", "disk_full_percent"),
        *("read_ahead", "memory_percent", "pull_bytes_in_memory", "pull_count_in_memory"),
        *("pull_bytes_on_disk", "pull_count_on_disk"),
        *("timer_max_delay_s", "timer_roll_window_slots", "timer_flush_interval_ms"),
        *("timer_slot_messages_max", "timer_stop_enqueue", "timer_stop_dequeue"),
        "timer_delete_key_with_topic",
    }
)
"""Fields that can be changed while the store runs."""


def _check_hours(text: str) -> None:
    for word in text.split(";"):
        if re.fullmatch(r"\s*(\d|[01]\d|2[0-4])\s*", word, re.ASCII) is None:
            raise InvalidInput(
                f"delete_when is {text!r}: {word!r} is not an hour from 00 to 23; write 04, or "
                "several as 04;16, or 24 to remove files by disk usage only",
                field="delete_when",
            )


def delay_levels(text: str) -> tuple[int, ...]:
    """Return the delays of levels 1, 2, … in milliseconds; a level's unit is s, m, h or d.

    >>> delay_levels("1s 5m 2h")
    (1000, 300000, 7200000)
    """
    delays = []
    for word in text.split():
        found = re.fullmatch(r"(\d{1,9})([smhd])", word, re.ASCII)
        if found is None:
            raise InvalidInput(
                f"delay level {word!r} must be a number followed by s, m, h or d",
                field="message_delay_level",
            )
        delays.append(int(found[1]) * _DELAY_UNITS_MS[found[2]])
    return tuple(delays)
