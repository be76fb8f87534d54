"""A message to be stored, the records that it becomes, and the result of storing it."""

import enum
from typing import Final, TypeAlias

import msgspec

from orbitmq.message.buffer import Buffer
from orbitmq.message.host import Host
from orbitmq.message.ids import offset_id
from orbitmq.message.record import Storable
from orbitmq.store.dispatch import Dispatched

__all__ = [
    "NOT_TRIED",
    "NO_HOST",
    "Incoming",
    "InnerBatch",
    "NewRecord",
    "Part",
    "PutRecords",
    "PutResult",
    "PutStatus",
    "result_of",
]


NO_HOST: Final = Host(bytes(4), 0)


class PutStatus(enum.Enum):
    """Whether a message was stored; the names are those of Java's ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, but not on disk within the time allowed."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored, but not by enough replicas within the time allowed."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored, but there were not enough replicas that it could be copied to."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Not stored: the body or the topic is too long, or a batch can't be read."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    """Not stored: the properties are too long."""
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """Not stored: the store is stopping, its disk is full, or has failed."""
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    """Not stored: the log has no space, or its next file could not be made."""
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    """Not stored: it names a light queue that would be one too many."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    """Not stored: the write failed."""
    NOT_TRIED = "NOT_TRIED"
    """Not stored: a message that it has to follow was not. Java has no such status."""

    @property
    def is_stored(self) -> bool:
        """Whether the record is in the log."""
        return self in _STORED


_STORED: Final = (
    PutStatus.PUT_OK,
    PutStatus.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE,
)


class Incoming(Storable, frozen=True, kw_only=True, gc=False):
    """A message to be stored; the body of a batch contains its messages."""

    topic: str
    is_batch: bool = False
    wait: bool = True
    """Whether the sender waits until it is on disk, in a store with SYNC_FLUSH."""


class InnerBatch(Incoming, frozen=True, kw_only=True, gc=False):
    """A batch to be stored as one record; a type of its own, so that other messages stay small."""

    count: int
    """The number of its messages."""
    is_batch: bool = True

    @classmethod
    def of(cls, message: Incoming, count: int, **changed: object) -> "InnerBatch":
        """Return a message as an inner batch, with some fields changed."""
        given = {name: getattr(message, name) for name in message.__struct_fields__}
        return cls(**{**given, **changed, "count": count, "is_batch": True})


class NewRecord(Dispatched, gc=False):
    """A record to be written: a message whose properties are read, and whose size is allowed.

    It is its own entry in queues and index: the log fills in its place, size and store time.
    """

    body: Buffer = b""
    properties: bytes = b""
    flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = NO_HOST
    store_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    has_inner: bool = False
    """Whether properties concern an inner batch or light queues, which need more entries."""


class PutResult(msgspec.Struct, kw_only=True, gc=False):
    """Where a message was stored, or why it was not."""

    status: PutStatus
    remark: str = ""
    """Why it was not stored, for people."""
    queue_offset: int = 0
    """The queue offset; for a batch, that of its first message."""
    offsets: tuple[int, ...] = ()
    """The commit log offset of each message; those of an inner batch have the same."""
    end: int = 0
    """The log offset after it."""
    store_timestamp_ms: int = 0

    def message_ids(self, store_host: Host) -> str:
        """Return the offset message ids, separated by commas as in Java's answer to a batch.

        An inner batch has one.
        """
        return ",".join(offset_id(store_host, offset) for offset in dict.fromkeys(self.offsets))


NOT_TRIED: Final = PutResult(
    status=PutStatus.NOT_TRIED, remark="a message before it was not stored"
)
"""The result of a message that has to follow one that was not stored."""


class PutRecords(msgspec.Struct, gc=False):
    """How many records of a list were stored, which now have their places."""

    stored: int
    failure: PutResult | None
    """Why the others were not."""


Part: TypeAlias = Incoming | list[NewRecord]
"""What is appended: a message, or records that need no check, of at most ``checked_bytes`` each."""


def result_of(part: Part, failure: PutResult) -> PutResult | PutRecords:
    """Return the result of a part of which nothing is stored."""
    return PutRecords(0, failure) if isinstance(part, list) else failure
