"""What is put into a store, and what becomes of it."""

import enum
from typing import Final

import msgspec

from orbitmq.message.host import Host
from orbitmq.message.ids import offset_id
from orbitmq.message.record import Storable

__all__ = ["NOT_TRIED", "Incoming", "PutResult", "PutStatus"]


class PutStatus(enum.Enum):
    """How a put ended; the names are those of Java's ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, and not on the disk in the time allowed."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Not stored: the body or the topic is too long, or a batch is no batch."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    """Not stored: the properties are too long."""
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """Not stored: the store is stopping, its disk is full, or has failed."""
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    """Not stored: the log has no space, or its next file could not be made."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    """Not stored: the write failed."""
    NOT_TRIED = "NOT_TRIED"
    """Not stored: one before it, which it has to follow, was not. Java has no name for it."""

    @property
    def is_stored(self) -> bool:
        """Whether the record is in the log."""
        return self in (PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT)


class Incoming(Storable, frozen=True, kw_only=True, gc=False):
    """A message on its way into the store; for a batch, the body holds its messages."""

    topic: str
    is_batch: bool = False
    wait: bool = True
    """Whether the sender wants to wait for the disk, if the store does."""


class PutResult(msgspec.Struct, kw_only=True, gc=False):
    """Where a message was stored, or why it was not."""

    status: PutStatus
    remark: str = ""
    """For people: why it was not stored."""
    queue_offset: int = 0
    """The place in the queue; of a batch, that of its first message."""
    offsets: tuple[int, ...] = ()
    """The commit log offset of each message."""
    end: int = 0
    """Where the log goes on behind it."""
    store_timestamp_ms: int = 0

    def message_ids(self, store_host: Host) -> str:
        """Return the offset message ids, separated by commas, as Java answers a batch."""
        return ",".join(offset_id(store_host, offset) for offset in self.offsets)


NOT_TRIED: Final = PutResult(
    status=PutStatus.NOT_TRIED, remark="a message before it was not stored"
)
"""What becomes of a message that has to follow one that was not stored."""
