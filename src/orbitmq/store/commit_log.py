"""The commit log: every record of every topic, one behind the other.

The owner hands over all messages of one turn at once; they become one write per segment.

Laws:

- A record fits a segment only if eight bytes are left behind it, for the blank that ends the file.
  A batch is never split over two files.
- The time of storing never goes back along the log.
- The end moves, and queue offsets are taken, only after the write has succeeded. What a failed
  write left behind the end is zeroed before the next one: a whole record there could be taken by
  recovery for the one after a shorter, later log.
- A prepared or rolled-back message has no place in a queue: its queue offset is 0, and the queue
  does not move on.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from orbitmq.errors import CorruptRecord, DiskFailed, LocalProtocolError, StoreError
from orbitmq.message import batch, flags, properties, record
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import (
    BLANK_SIZE,
    CRC_PROPERTY_SIZE,
    LEAST_SIZE,
    MAGICS,
    SIZE_AND_MAGIC,
    Record,
)
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.store.put import Incoming, PutResult, PutStatus
from orbitmq.store.segment_chain import Segment, SegmentChain, is_directory_name
from orbitmq.store.settings import StoreSettings

__all__ = ["Appended", "CommitLog"]

log = logging.getLogger("orbitmq.store")

_PROPERTIES_MAX: Final = 32_767
_WITHOUT_QUEUE: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)

QueueKey = tuple[str, int]


class Appended(msgspec.Struct, gc=False):
    """One record that has just been written: what its indexes need, before anybody reads it."""

    filed: Filed
    size: int


class _Turn(msgspec.Struct):
    """What one call of ``append`` has made so far, all of it still to be written."""

    position: int
    now_ms: int
    room: int = 0
    """What still fits behind ``position`` into the file that the turn has come to."""
    writes: list[tuple[Segment, int, list[Buffer]]] = msgspec.field(default_factory=list)
    appended: list[Appended] = msgspec.field(default_factory=list)
    queue_offsets: dict[QueueKey, int] = msgspec.field(default_factory=dict)


class CommitLog:
    """Appends records and finds them again.

    Args:
        chain: the files.
        settings: sizes and limits.
        next_queue_offset: tells the offset that the next message of a queue gets, from the
            consume queues, when a queue is first written to after a start.

    """

    def __init__(
        self,
        chain: SegmentChain,
        settings: StoreSettings,
        next_queue_offset: Callable[[str, int], int],
    ) -> None:
        self._chain = chain
        self._body_bytes_max = settings.max_message_bytes
        self._record_bytes_max = settings.record_bytes_max
        self._batch_bytes_max = settings.segment_bytes - BLANK_SIZE
        self._append_crc = settings.append_crc
        self._first_queue_offset = next_queue_offset
        self._queue_offsets: dict[QueueKey, int] = {}
        self._topics: dict[str, bytes] = {}
        self.end = 0
        """Where the next record will begin."""
        self.last_store_ms = 0
        """When the last record was stored."""
        self.failure: DiskFailed | None = None
        """Why nothing can be appended any more; None while all is well."""

    def __repr__(self) -> str:
        return f"<CommitLog {self._chain.first_offset} to {self.end}>"

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self._chain.first_offset

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return ``size`` bytes of the log without a copy; None if they are not all there."""
        segment = self._chain.segment_at(offset)
        if segment is None or offset + size > min(segment.end, self.end):
            return None
        at = offset - segment.base
        return segment.view[at : at + size]

    def record(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if none begins there."""
        head = self.view(commit_log_offset, LEAST_SIZE)
        if head is None:
            return None
        size, magic = SIZE_AND_MAGIC.unpack_from(head)
        view = self.view(commit_log_offset, size) if size >= LEAST_SIZE else None
        if view is None or magic not in MAGICS:
            return None
        found = RecordView(view, 0, size)
        return found if found.commit_log_offset == commit_log_offset else None

    def next_segment_offset(self, offset: int) -> int:
        """Return where the file after the one with ``offset`` begins."""
        return offset - offset % self._chain.segment_bytes + self._chain.segment_bytes

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue will get."""
        key = (topic, queue_id)
        offset = self._queue_offsets.get(key)
        if offset is None:
            offset = self._queue_offsets[key] = self._first_queue_offset(topic, queue_id)
        return offset

    def forget_queues(self, topic: str) -> None:
        """Forget how far the queues of a topic have come; it was deleted."""
        for key in [key for key in self._queue_offsets if key[0] == topic]:
            del self._queue_offsets[key]

    def append(
        self, messages: Sequence[Incoming], now_ms: int
    ) -> tuple[list[PutResult], list[Appended]]:
        """Append the messages of one turn; return what became of each, and what was written.

        A message that can't be stored doesn't keep the others from it. If the disk fails, none of
        them is stored, and the results say so.
        """
        turn = _Turn(self.end, max(now_ms, self.last_store_ms))
        results = [self._place(message, turn) for message in messages]
        try:
            for segment, offset, buffers in turn.writes:
                segment.write(buffers, offset)
        except DiskFailed as error:
            log.error("an append failed: %s", error)
            self._wipe(turn)
            return [_refused(PutStatus.UNKNOWN_ERROR, str(error)) for _ in messages], []
        if turn.appended:
            self.end = turn.position
            self.last_store_ms = turn.now_ms
            self._queue_offsets.update(turn.queue_offsets)
        return results, turn.appended

    def _wipe(self, turn: _Turn) -> None:
        """Write zeros over what a failed append may have left behind the end."""
        try:
            for segment, offset, buffers in turn.writes:
                segment.write([bytes(sum(map(len, buffers)))], offset)
        except DiskFailed as error:
            log.critical("nor can it be undone, and the log takes no more writes: %s", error)
            self.failure = error

    # Placing: all decisions, no writes

    def _place(self, message: Incoming, turn: _Turn) -> PutResult:
        try:
            records = self._split(message) if message.is_batch else [self._whole(message)]
            if fault := self._fault(message, records):
                return fault
            encoded = [record.encode(one) for one in records]
        except (CorruptRecord, LocalProtocolError) as error:
            return _refused(PutStatus.MESSAGE_ILLEGAL, str(error))
        size = len(encoded[0]) if len(encoded) == 1 else sum(map(len, encoded))
        if size > self._record_bytes_max and (fault := self._too_large(encoded, size)):
            return fault
        if size > turn.room:
            try:
                self._make_room(size, turn)
            except StoreError as error:
                log.error("the next file of the log can't be made: %s", error)
                return _refused(PutStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        return self._write_down(message, records, encoded, turn)

    def _write_down(
        self, message: Incoming, records: list[Record], encoded: list[bytearray], turn: _Turn
    ) -> PutResult:
        """Take records into the turn; their places are final unless the write fails."""
        queue_id, sys_flag, now_ms = message.queue_id, message.sys_flag, turn.now_ms
        key = (message.topic, queue_id)
        in_queue = sys_flag & flags.TRANSACTION_MASK not in _WITHOUT_QUEUE
        first = 0
        if in_queue:
            first = turn.queue_offsets.get(key, -1)
            if first < 0:
                first = self.next_queue_offset(*key)
        buffers, appended = turn.writes[-1][2], turn.appended
        offsets = []
        queue_offset, position = first, turn.position
        for one, raw in zip(records, encoded, strict=True):
            record.stamp(
                raw,
                queue_offset=queue_offset,
                commit_log_offset=position,
                store_timestamp_ms=now_ms,
            )
            if self._append_crc:
                raw[-CRC_PROPERTY_SIZE:] = record.crc_property(raw[:-CRC_PROPERTY_SIZE])
            filed = Filed(
                one.topic, queue_id, queue_offset, position, sys_flag, now_ms, one.properties
            )
            size = len(raw)
            buffers.append(raw)
            appended.append(Appended(filed, size))
            offsets.append(position)
            position += size
            queue_offset += in_queue
        turn.room -= position - turn.position
        turn.position = position
        if in_queue:
            turn.queue_offsets[key] = queue_offset
        return PutResult(
            status=PutStatus.PUT_OK,
            queue_offset=first,
            offsets=tuple(offsets),
            end=position,
            store_timestamp_ms=now_ms,
        )

    def _make_room(self, size: int, turn: _Turn) -> None:
        """Let the turn go on in a file that takes ``size`` bytes, the next one if need be."""
        chain = self._chain
        segment = chain.segment_at(turn.position)
        if segment is None:
            segment = chain.add(turn.position - turn.position % chain.segment_bytes)
        left = segment.end - turn.position
        if size + BLANK_SIZE > left:
            following = chain.segment_at(segment.end) or chain.add(segment.end)
            if not turn.writes:
                turn.writes.append((segment, turn.position, []))
            turn.writes[-1][2].append(record.blank(left))
            turn.position = segment.end
            segment, left = following, following.size
        if not turn.writes or turn.writes[-1][0] is not segment:
            turn.writes.append((segment, turn.position, []))
        turn.room = left - BLANK_SIZE

    # Making records

    def _whole(self, message: Incoming) -> Record:
        return self._record(message, message.flag, message.body, message.properties)

    def _split(self, message: Incoming) -> list[Record]:
        inner = [
            self._record(message, part.flag, part.body, bytes(part.properties))
            for part in batch.split(message.body)
        ]
        if not inner:
            raise CorruptRecord("a batch without messages")
        return inner

    def _record(self, message: Incoming, flag: int, body: Buffer, text: bytes) -> Record:
        topic = self._topics.get(message.topic)
        if topic is None:
            topic = self._topics[message.topic] = _topic_bytes(message.topic)
        if self._append_crc:
            text = _with_room_for_seal(text)
        return Record(
            topic=topic,
            body=body,
            properties=text,
            queue_id=message.queue_id,
            flag=flag,
            sys_flag=message.sys_flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=0
            if message.is_batch
            else message.prepared_transaction_offset,
        )

    def _fault(self, message: Incoming, records: list[Record]) -> PutResult | None:
        if message.queue_id < 0:
            return _refused(PutStatus.MESSAGE_ILLEGAL, f"queue_id is {message.queue_id}")
        size, limit = len(message.body), self._body_bytes_max
        if size > limit:
            return _refused(
                PutStatus.MESSAGE_ILLEGAL, f"a body of {size} bytes is over the limit of {limit}"
            )
        longest = max([len(one.properties) for one in records])
        if longest > _PROPERTIES_MAX:
            return _refused(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {longest} bytes are over the limit of {_PROPERTIES_MAX}",
            )
        return None

    def _too_large(self, encoded: list[bytearray], size: int) -> PutResult | None:
        largest = max(map(len, encoded))
        if largest <= self._record_bytes_max and size <= self._batch_bytes_max:
            return None
        return _refused(
            PutStatus.MESSAGE_ILLEGAL,
            f"{size} bytes, the largest record {largest}, are over the limit of "
            f"{self._record_bytes_max} for a record, and of {self._batch_bytes_max} for a batch",
        )


def _topic_bytes(topic: str) -> bytes:
    """Return a topic as it is stored.

    Raises:
        LocalProtocolError: no directory can have that name, so the record could have no queue, and
            every start of the store would fail at it.

    """
    if not is_directory_name(topic):
        raise LocalProtocolError(
            f"a topic of {len(topic)} characters can't be the name of a directory: it is empty, "
            "over 255 bytes, not UTF-8, or holds a / or a 0"
        )
    return topic.encode()


def _with_room_for_seal(text: bytes) -> bytes:
    """Return properties without a seal of somebody else's, ending in room for ours."""
    if properties.get(text, properties.CRC32.encode()) is not None:
        kept = properties.decode(text)
        del kept[properties.CRC32]
        text = properties.encode(kept)
    if text and not text.endswith(b"\x02"):
        text += b"\x02"
    return text + bytes(CRC_PROPERTY_SIZE)


def _refused(status: PutStatus, remark: str) -> PutResult:
    return PutResult(status=status, remark=remark)
