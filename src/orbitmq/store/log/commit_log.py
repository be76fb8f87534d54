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
from functools import lru_cache
from typing import Final

import msgspec

from orbitmq.errors import CorruptRecord, DiskFailed, LocalProtocolError, StoreError
from orbitmq.message import batch, flags, properties, record
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import (
    BLANK_SIZE,
    CRC_PROPERTY_SIZE,
    INT,
    LEAST_SIZE,
    Form,
)
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.store.layout import is_directory_name
from orbitmq.store.log.append import NOT_TRIED, Incoming, PutResult, PutStatus
from orbitmq.store.log.record_rows import sound_row
from orbitmq.store.log.segments import Segment, SegmentChain
from orbitmq.store.settings import StoreSettings

__all__ = ["CommitLog"]

log = logging.getLogger("orbitmq.store")

_PROPERTIES_MAX: Final = 32_767
_REMEMBERED_FORMS: Final = 16_384
_WITHOUT_QUEUE: Final = flags.TRANSACTION_PREPARED  # a bit that rolled-back ones have as well
_PUT_OK: Final = PutStatus.PUT_OK  # finding a member of an enum takes as long as making a struct

QueueKey = tuple[str, int]


class _Turn(msgspec.Struct):
    """What one call of ``append`` has made so far, all of it still to be written."""

    position: int
    now_ms: int
    is_forward: bool = False
    """Whether its messages were taken before, when limits may have been others."""
    room: int = 0
    """What still fits behind ``position`` into the file that the turn has come to."""
    writes: list[tuple[Segment, int, list[Buffer]]] = msgspec.field(default_factory=list)
    buffers: list[Buffer] = msgspec.field(default_factory=list)
    """What is to be written into that file, the last of ``writes``."""
    appended: list[Filed] = msgspec.field(default_factory=list)
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
        self._batch_bytes_max = settings.segment_bytes - BLANK_SIZE
        self._append_crc = settings.append_crc
        self.apply(settings)
        self._first_queue_offset = next_queue_offset
        self._queue_offsets: dict[QueueKey, int] = {}
        self.end = 0
        """Where the next record will begin."""
        self.last_store_ms = 0
        """When the last record was stored."""
        self.failure: DiskFailed | None = None
        """Why nothing can be appended any more; None while all is well."""

    def __repr__(self) -> str:
        return f"<CommitLog {self._chain.first_offset} to {self.end}>"

    def apply(self, settings: StoreSettings) -> None:
        """Take messages up to the size that these settings say, from now on."""
        self._body_bytes_max = settings.max_message_bytes
        self._record_bytes_max = settings.record_bytes_max
        self._least_limit = min(self._body_bytes_max, self._record_bytes_max, _PROPERTIES_MAX)

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self._chain.first_offset

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return ``size`` bytes of the log without a copy; None if they are not all there."""
        segment = self._chain.segment_at(offset)
        if segment is None:
            return None
        at = offset - segment.base
        end = at + size
        if end > segment.size or offset + size > self.end:
            return None
        return segment.view[at:end]

    def record(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if none begins there, or a damaged one.

        Its parts add up to its size; checksums are not looked at.
        """
        head = self.view(commit_log_offset, LEAST_SIZE)
        if head is None:
            return None
        (size,) = INT.unpack_from(head)
        view = self.view(commit_log_offset, size) if size >= LEAST_SIZE else None
        if view is None or sound_row(view, commit_log_offset, 0) is None:
            return None
        return RecordView(view, 0, size)

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
    ) -> tuple[list[PutResult], list[Filed]]:
        """Append the messages of one turn; return what became of each, and what was written.

        A message that can't be stored doesn't keep the others from it. If the disk fails, none of
        them is stored, and the results say so.
        """
        turn = _Turn(self.end, max(now_ms, self.last_store_ms))
        results = [self._place(message, turn) for message in messages]
        return self._written(results, turn)

    def forward(
        self, messages: Sequence[Incoming], now_ms: int
    ) -> tuple[list[PutResult], list[Filed]]:
        """Append messages that the log has already, in another queue; return what ``append`` does.

        They keep their order: behind one that can't be stored none is, and the results say that it
        was not tried. They were taken once, so they may be larger than a send may be by now.
        """
        turn = _Turn(self.end, max(now_ms, self.last_store_ms), is_forward=True)
        results: list[PutResult] = []
        for message in messages:
            results.append(self._place(message, turn))
            if not results[-1].status.is_stored:
                break
        results += [NOT_TRIED] * (len(messages) - len(results))
        return self._written(results, turn)

    def _written(
        self, results: list[PutResult], turn: _Turn
    ) -> tuple[list[PutResult], list[Filed]]:
        """Write a turn; return what became of its messages, and what was written."""
        if not turn.appended:
            return results, []
        try:
            for segment, offset, buffers in turn.writes:
                segment.write(buffers, offset)
        except DiskFailed as error:
            log.error("an append failed: %s", error)
            self._wipe(turn)
            failed = PutResult(status=PutStatus.UNKNOWN_ERROR, remark=str(error))
            return [failed for _ in results], []
        self.end = turn.position
        self.last_store_ms = turn.now_ms
        self._queue_offsets.update(turn.queue_offsets)
        return results, turn.appended

    def _wipe(self, turn: _Turn) -> None:
        """Write zeros over what a failed append may have left behind the end."""
        try:
            for segment, offset, buffers in turn.writes:
                segment.write([bytes(sum(map(len, buffers)))], offset)
                segment.file.sync()  # the system may have written back what was refused
        except DiskFailed as error:
            log.critical("nor can it be undone, and the log takes no more writes: %s", error)
            self.failure = error

    # Placing: all decisions, no writes

    def _place(self, message: Incoming, turn: _Turn) -> PutResult:
        try:
            form = _form_of(message.topic, len(message.born_host.ip), len(message.store_host.ip))
            if message.is_batch or self._append_crc:
                inner = self._inner(message)
                size = sum(form.overhead + len(one.body) + len(one.properties) for one in inner)
            else:
                inner = [message]
                size = form.overhead + len(message.body) + len(message.properties)
            if size > self._least_limit or message.queue_id < 0:
                self._check(message, inner, size, form.overhead, turn)
            if size > turn.room:
                self._make_room(size, turn)
                turn.buffers = turn.writes[-1][2]
            if len(inner) == 1:
                return self._write_down(inner[0], form, turn)
            return _of_batch([self._write_down(one, form, turn) for one in inner])
        except _Refused as refused:
            return PutResult(status=refused.status, remark=str(refused))
        except (CorruptRecord, LocalProtocolError) as error:
            return PutResult(status=PutStatus.MESSAGE_ILLEGAL, remark=str(error))
        except StoreError as error:
            log.error("the log has no space for a message: %s", error)
            return PutResult(status=PutStatus.CREATE_MAPPED_FILE_FAILED, remark=str(error))

    def _write_down(self, message: Incoming, form: Form, turn: _Turn) -> PutResult:
        """Take one record into the turn; its place is final unless the write fails.

        Raises:
            LocalProtocolError: a number does not fit its field; the turn is as it was. It is a
                number that all messages of a batch have, so the first of them tells.

        """
        key = (message.topic, message.queue_id)
        in_queue = not message.sys_flag & _WITHOUT_QUEUE
        queue_offset = 0
        if in_queue:
            queue_offset = turn.queue_offsets.get(key, -1)
            if queue_offset < 0:
                queue_offset = self.next_queue_offset(*key)
        offset, now_ms = turn.position, turn.now_ms
        head, body, tail = record.parts(message, form, queue_offset, offset, now_ms)
        if self._append_crc:
            tail = _sealed(head, body, tail)
        size = len(head) + len(body) + len(tail)
        turn.buffers += (head, body, tail)
        turn.appended.append(
            Filed(
                form.topic,
                message.queue_id,
                queue_offset,
                offset,
                size,
                message.sys_flag,
                now_ms,
                message.properties,
            )
        )
        if in_queue:
            turn.queue_offsets[key] = queue_offset + 1
        turn.room -= size
        turn.position = end = offset + size
        return PutResult(
            status=_PUT_OK,
            queue_offset=queue_offset,
            offsets=(offset,),
            end=end,
            store_timestamp_ms=now_ms,
        )

    def _make_room(self, size: int, turn: _Turn) -> None:
        """Let the turn go on in a file that takes ``size`` bytes, the next one if need be.

        Raises:
            DiskFailed: there is no space; the turn is as it was.

        """
        chain = self._chain
        segment = chain.segment_at(turn.position)
        if segment is None:
            segment = chain.add(turn.position - turn.position % chain.segment_bytes)
        left = segment.end - turn.position
        if size + BLANK_SIZE > left:
            chain.reserve(segment, turn.position, BLANK_SIZE)
            following = chain.segment_at(segment.end) or chain.add(segment.end)
            chain.reserve(following, following.base, size + BLANK_SIZE)
            if not turn.writes:
                turn.writes.append((segment, turn.position, []))
            turn.writes[-1][2].append(record.blank(left))
            turn.position = segment.end
            segment = following
        else:
            chain.reserve(segment, turn.position, size + BLANK_SIZE)
            chain.prepare(segment, turn.position)
        if not turn.writes or turn.writes[-1][0] is not segment:
            turn.writes.append((segment, turn.position, []))
        turn.room = segment.reserved - turn.position - BLANK_SIZE

    def _inner(self, message: Incoming) -> list[Incoming]:
        """Return the messages that become a record each, in the shape that they are stored in.

        Raises:
            CorruptRecord: a batch is none.

        """
        inner = _split(message) if message.is_batch else [message]
        return [_with_room_for_seal(one) for one in inner] if self._append_crc else inner

    def _check(
        self, message: Incoming, inner: list[Incoming], size: int, overhead: int, turn: _Turn
    ) -> None:
        """Check a message against all limits; Java's limits, and its statuses.

        What is not larger than the least limit, taken as a whole, keeps them all.

        Raises:
            _Refused: it breaks one.

        """
        if message.queue_id < 0:
            raise _Refused(PutStatus.MESSAGE_ILLEGAL, f"queue_id is {message.queue_id}")
        body_size, limit = len(message.body), self._body_bytes_max
        if body_size > limit and not turn.is_forward:
            raise _Refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"a body of {body_size} bytes is over the limit of {limit}",
            )
        longest = max(len(one.properties) for one in inner)
        if longest > _PROPERTIES_MAX:
            raise _Refused(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {longest} bytes are over the limit of {_PROPERTIES_MAX}",
            )
        largest = overhead + max(len(one.body) + len(one.properties) for one in inner)
        record_max = self._batch_bytes_max if turn.is_forward else self._record_bytes_max
        if largest > record_max or size > self._batch_bytes_max:
            raise _Refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"{size} bytes, the largest record {largest}, are over the limit of "
                f"{record_max} for a record, and of {self._batch_bytes_max} for a batch",
            )


class _Refused(Exception):
    """A message breaks a limit; ``append`` makes a result of it."""

    def __init__(self, status: PutStatus, remark: str) -> None:
        super().__init__(remark)
        self.status = status


def _of_batch(results: list[PutResult]) -> PutResult:
    """Return what became of a batch, given what became of its messages."""
    first, last = results[0], results[-1]
    return PutResult(
        status=first.status,
        queue_offset=first.queue_offset,
        offsets=tuple(result.offsets[0] for result in results),
        end=last.end,
        store_timestamp_ms=last.store_timestamp_ms,
    )


def _split(message: Incoming) -> list[Incoming]:
    """Return the messages of a batch.

    Raises:
        CorruptRecord: it is none.

    """
    inner = [
        msgspec.structs.replace(
            message,
            flag=part.flag,
            body=part.body,
            properties=bytes(part.properties),
            prepared_transaction_offset=0,
        )
        for part in batch.split(message.body)
    ]
    if not inner:
        raise CorruptRecord("a batch without messages")
    return inner


@lru_cache(maxsize=_REMEMBERED_FORMS)
def _form_of(topic: str, born_ip_length: int, store_ip_length: int) -> Form:
    return record.form_of(_topic_bytes(topic), born_ip_length, store_ip_length)


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


def _with_room_for_seal(message: Incoming) -> Incoming:
    """Return a message without a seal of somebody else's, and with room for ours at its end."""
    text = message.properties
    if properties.get(text, properties.CRC32.encode()) is not None:
        kept = properties.decode(text)
        del kept[properties.CRC32]
        text = properties.encode(kept)
    if text and not text.endswith(b"\x02"):
        text += b"\x02"
    return msgspec.structs.replace(message, properties=text + bytes(CRC_PROPERTY_SIZE))


def _sealed(head: bytes, body: Buffer, tail: bytes) -> bytes:
    """Return the last part of a record, the seal in the room that was left for it."""
    before = tail[:-CRC_PROPERTY_SIZE]
    return before + record.crc_property(head, body, before)
