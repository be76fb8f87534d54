"""The commit log: every record of every topic, one behind the other.

The owner hands over all messages of one turn at once; they become one write per segment.

Laws:

- A record fits a segment only if eight bytes are left behind it, for the blank that ends the file.
  A batch is never split over two files.
- The time of storing never goes back along the log.
- The end moves, and queue offsets are taken, only after the write has succeeded: a failed write
  leaves nothing but bytes behind the end, which the next one overwrites.
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
from orbitmq.message.record import BLANK_SIZE, CRC_PROPERTY_SIZE, Record
from orbitmq.store.put import Incoming, PutResult, PutStatus
from orbitmq.store.segment_chain import Segment, SegmentChain
from orbitmq.store.settings import StoreSettings

__all__ = ["Appended", "CommitLog"]

log = logging.getLogger("orbitmq.store")

_PROPERTIES_MAX: Final = 32_767
_WITHOUT_QUEUE: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)

QueueKey = tuple[str, int]


class Appended(msgspec.Struct, gc=False):
    """One record that has just been written: its bytes, and where they are in the log."""

    offset: int
    raw: bytearray


class _Turn(msgspec.Struct):
    """What one call of ``append`` has made so far, all of it still to be written."""

    position: int
    now_ms: int
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
        self._settings = settings
        self._first_queue_offset = next_queue_offset
        self._queue_offsets: dict[QueueKey, int] = {}
        self._topics: dict[str, bytes] = {}
        self.end = 0
        """Where the next record will begin."""
        self.last_store_ms = 0
        """When the last record was stored."""

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
            return [_refused(PutStatus.UNKNOWN_ERROR, str(error)) for _ in messages], []
        if turn.appended:
            self.end = turn.position
            self.last_store_ms = turn.now_ms
            self._queue_offsets.update(turn.queue_offsets)
        return results, turn.appended

    # Placing: all decisions, no writes

    def _place(self, message: Incoming, turn: _Turn) -> PutResult:
        try:
            records = self._split(message) if message.is_batch else [self._whole(message)]
            if fault := self._fault(message, records):
                return fault
            encoded = [record.encode(one) for one in records]
        except (CorruptRecord, LocalProtocolError) as error:
            return _refused(PutStatus.MESSAGE_ILLEGAL, str(error))
        size, largest = sum(map(len, encoded)), max(map(len, encoded))
        if (
            largest > self._settings.record_bytes_max
            or size + BLANK_SIZE > self._chain.segment_bytes
        ):
            return _refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"{size} bytes, the largest record {largest}, are over the limit of "
                f"{self._settings.record_bytes_max} for a record, and of "
                f"{self._chain.segment_bytes - BLANK_SIZE} for a batch",
            )
        try:
            segment = self._segment_for(size, turn)
        except StoreError as error:
            log.error("the next file of the log can't be made: %s", error)
            return _refused(PutStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        return self._write_down(message, encoded, segment, turn)

    def _write_down(
        self, message: Incoming, encoded: list[bytearray], segment: Segment, turn: _Turn
    ) -> PutResult:
        """Take records into the turn; their places are final unless the write fails."""
        key = (message.topic, message.queue_id)
        in_queue = message.sys_flag & flags.TRANSACTION_MASK not in _WITHOUT_QUEUE
        queue_offset = 0
        if in_queue:
            queue_offset = turn.queue_offsets.get(key, -1)
            if queue_offset < 0:
                queue_offset = self.next_queue_offset(*key)
        buffers = self._buffers_of(segment, turn)
        offsets = []
        for index, raw in enumerate(encoded):
            record.stamp(
                raw,
                queue_offset=queue_offset + index if in_queue else 0,
                commit_log_offset=turn.position,
                store_timestamp_ms=turn.now_ms,
            )
            if self._settings.append_crc:
                raw[-CRC_PROPERTY_SIZE:] = record.crc_property(raw[:-CRC_PROPERTY_SIZE])
            buffers.append(raw)
            turn.appended.append(Appended(turn.position, raw))
            offsets.append(turn.position)
            turn.position += len(raw)
        if in_queue:
            turn.queue_offsets[key] = queue_offset + len(encoded)
        return PutResult(
            status=PutStatus.PUT_OK,
            queue_offset=queue_offset,
            offsets=tuple(offsets),
            end=turn.position,
            store_timestamp_ms=turn.now_ms,
        )

    def _buffers_of(self, segment: Segment, turn: _Turn) -> list[Buffer]:
        if not turn.writes or turn.writes[-1][0] is not segment:
            turn.writes.append((segment, turn.position, []))
        return turn.writes[-1][2]

    def _segment_for(self, size: int, turn: _Turn) -> Segment:
        """Return the file that takes ``size`` bytes; the turn rolls to the next one if need be."""
        segment = self._chain.segment_at(turn.position)
        if segment is None:
            segment = self._chain.add(turn.position - turn.position % self._chain.segment_bytes)
        left = segment.end - turn.position
        if size + BLANK_SIZE <= left:
            return segment
        following = self._chain.segment_at(segment.end) or self._chain.add(segment.end)
        self._buffers_of(segment, turn).append(record.blank(left))
        turn.position = segment.end
        return following

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
            topic = self._topics[message.topic] = message.topic.encode()
        if self._settings.append_crc:
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
        limit = self._settings.max_message_bytes
        if len(message.body) > limit:
            return _refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"a body of {len(message.body)} bytes is over the limit of {limit}",
            )
        longest = max(len(one.properties) for one in records)
        if longest > _PROPERTIES_MAX:
            return _refused(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {longest} bytes are over the limit of {_PROPERTIES_MAX}",
            )
        return None


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
