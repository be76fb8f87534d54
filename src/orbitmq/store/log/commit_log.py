"""The commit log: every record of every topic, one after the other.

The owner appends all messages of one turn at once; they become one write per segment.

Invariants:

- A record fits into a segment only if eight bytes are left after it, for the blank that ends the
  file. A batch is never split over two files.
- Store timestamps never decrease along the log.
- The end and the queue offsets move only after a successful write. What a failed write left after
  the end is overwritten with zeros: recovery could mistake it for a record of the log.
- A prepared or rolled-back message has no place in a queue: its queue offset is 0, and the end of
  the queue does not move.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, overload

import msgspec

from orbitmq.errors import (
    CorruptRecord,
    DiskFailed,
    LocalProtocolError,
    StoreDamaged,
    StoreError,
)
from orbitmq.message import flags, properties, record
from orbitmq.message.batch import BatchedMessage
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import (
    BLANK_SIZE,
    CRC_PROPERTY_SIZE,
    INT,
    LEAST_SIZE,
)
from orbitmq.message.record_view import RecordView
from orbitmq.store.disk.open_files import is_full
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.log import light_queues
from orbitmq.store.log.append import (
    NOT_TRIED,
    Incoming,
    InnerBatch,
    NewRecord,
    Part,
    PutRecords,
    PutResult,
    PutStatus,
    result_of,
)
from orbitmq.store.log.new_records import batch_records, new_record, split, usual_batch_records
from orbitmq.store.log.placing import QueueKey, form_of, place_leading, place_records
from orbitmq.store.log.record_rows import sound_row
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.settings import StoreSettings, delay_levels

__all__ = ["CommitLog"]

log = logging.getLogger("orbitmq.store")

_PROPERTIES_MAX: Final = record.LONGEST_TEXT
_VALUE_END: Final = properties.VALUE_END.encode()
_own_seal = properties.finder(properties.CRC32.encode())
_WITHOUT_QUEUE: Final = flags.TRANSACTION_PREPARED  # a bit that rolled-back messages have, too
_PUT_OK: Final = PutStatus.PUT_OK  # looking up an enum member takes as long as making a struct


class _Turn(msgspec.Struct):
    """What one call of ``append`` has prepared so far; nothing of it is written yet."""

    position: int
    now_ms: int
    is_forward: bool = False
    """Whether its messages are in the log already; limits may have been larger then."""
    room: int = 0
    """How many bytes fit into the current file after ``position``."""
    writes: list[tuple[Segment, int, list[Buffer]]] = msgspec.field(default_factory=list)
    buffers: list[Buffer] = msgspec.field(default_factory=list)
    """What is to be written to that file, the last of ``writes``."""
    appended: list[Dispatched] = msgspec.field(default_factory=list)
    queue_offsets: dict[QueueKey, int] = msgspec.field(default_factory=dict)


class CommitLog:
    """Appends records, and reads them.

    ``next_queue_offset`` returns the offset of the next message of a queue, from the consume
    queues; it is called when a queue is first written after a start.
    """

    def __init__(
        self,
        segments: Segments,
        settings: StoreSettings,
        next_queue_offset: Callable[[str, int], int],
        dispatcher: Dispatcher | None = None,
    ) -> None:
        self._segments = segments
        self._dispatcher = dispatcher or Dispatcher(delay_levels(settings.message_delay_level))
        self._batch_bytes_max = settings.segment_bytes - BLANK_SIZE
        self._append_crc = settings.append_crc
        self._lmq_enabled = settings.lmq_enabled
        self._rewrites = self._append_crc or self._lmq_enabled
        self._put = self._place_with_light if self._lmq_enabled else self._place
        self._light_offsets: dict[QueueKey, int] = {}  # of queues that a message names, after it
        self.may_make_light: Callable[[str, int], bool] = lambda _name, _new: True
        """Returns whether a light queue exists or may be created."""
        self.apply(settings)
        self._first_queue_offset = next_queue_offset
        self._queue_offsets: dict[QueueKey, int] = {}
        self.end = 0
        """Where the next record will begin."""
        self.last_store_ms = 0
        """The store timestamp of the last record."""
        self.failure: DiskFailed | None = None
        """Why nothing can be appended any more, or until there is space if ``is_full``."""
        self._unwiped: list[tuple[Segment, int, int]] = []  # what a failed append left, and where
        self._lacks_space = False

    def __repr__(self) -> str:
        return f"<CommitLog {self._segments.first_offset} to {self.end}>"

    def apply(self, settings: StoreSettings) -> None:
        """Use the size limits and the way of reading of these settings from now on."""
        self._segments.set_read_ahead(settings.read_ahead)
        self._body_bytes_max = settings.max_message_bytes
        self._record_bytes_max = settings.record_bytes_max
        self._least_limit = min(self._body_bytes_max, self._record_bytes_max, _PROPERTIES_MAX)

    @property
    def first_offset(self) -> int:
        """The offset of the oldest byte that is left."""
        return self._segments.first_offset

    @property
    def is_full(self) -> bool:
        """Whether a full disk keeps the log from being written, and ``wipe_rest`` may end that."""
        return self.failure is not None and bool(self._unwiped)

    @property
    def segment_bytes(self) -> int:
        """The size of its files."""
        return self._segments.segment_bytes

    @property
    def directory(self) -> str:
        """Where its files are."""
        return self._segments.directory

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return ``size`` bytes of the log without copying; None unless all of them exist."""
        segment = self._segments.segment_at(offset)
        if segment is None:
            return None
        at = offset - segment.base
        end = at + size
        if end > segment.size or offset + size > self.end:
            return None
        return segment.view[at:end]

    def file_view(self, offset: int, size: int) -> tuple[memoryview, int] | None:
        """Return the written bytes of the file that contains ``size`` bytes from ``offset`` on.

        And the offset at which they begin; None unless all of the bytes exist.
        """
        segment = self._segments.segment_at(offset)
        if segment is None:
            return None
        end = min(segment.size, self.end - segment.base)
        return None if offset - segment.base + size > end else (segment.view[:end], segment.base)

    def record(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if no sound record begins there.

        Its lengths are checked, its checksums are not.
        """
        segment = self._segments.segment_at(commit_log_offset)
        if segment is None:
            return None
        at = commit_log_offset - segment.base
        room = min(segment.size - at, self.end - commit_log_offset)
        if room < LEAST_SIZE:
            return None
        (size,) = INT.unpack_from(segment.view, at)
        if not LEAST_SIZE <= size <= room:
            return None
        view = segment.view[at : at + size]
        row = sound_row(view, commit_log_offset, 0)
        return None if row is None else RecordView(view, 0, size, row)

    def next_segment_offset(self, offset: int) -> int:
        """Return where the file after the one that contains ``offset`` begins."""
        return offset - offset % self._segments.segment_bytes + self._segments.segment_bytes

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue will get."""
        key = (topic, queue_id)
        offset = self._queue_offsets.get(key)
        if offset is None:
            offset = self._queue_offsets[key] = self._first_queue_offset(topic, queue_id)
        return offset

    def forget_queues(self, topic: str) -> None:
        """Forget the offsets of the queues of a deleted topic."""
        for key in [key for key in self._queue_offsets if key[0] == topic]:
            del self._queue_offsets[key]

    @property
    def takes_records(self) -> bool:
        """Whether records may be appended: messages are stored as they are."""
        return not self._rewrites

    @property
    def checked_bytes(self) -> int:
        """A record of at most this size is within all limits."""
        return self._least_limit

    @overload
    def append(
        self, parts: Sequence[Incoming], now_ms: int
    ) -> tuple[list[PutResult], list[Dispatched]]: ...
    @overload
    def append(
        self, parts: Sequence[Part], now_ms: int
    ) -> tuple[Sequence[PutResult | PutRecords], list[Dispatched]]: ...
    def append(
        self, parts: Sequence[Part], now_ms: int
    ) -> tuple[Sequence[PutResult | PutRecords], list[Dispatched]]:
        """Append what one turn brought; return the result of each part, and what was written.

        Lists of records are allowed if ``takes_records``. A part that can't be stored doesn't
        affect the others; if the disk is full, the first records of a list may be stored. If it
        fails, nothing is stored.
        """
        turn = _Turn(self.end, max(now_ms, self.last_store_ms))
        results = [
            self._put_records(part, turn) if isinstance(part, list) else self._put(part, turn)
            for part in parts
        ]
        if failed := self._write(turn):
            return [result_of(part, failed) for part in parts], []
        return results, turn.appended

    def forward(
        self, messages: Sequence[Incoming], now_ms: int
    ) -> tuple[list[PutResult], list[Dispatched]]:
        """Append messages that the log already has in another queue; return what ``append`` does.

        They keep their order: after one that can't be stored, the others are not tried. They may be
        larger than sends may be by now.
        """
        turn = _Turn(self.end, max(now_ms, self.last_store_ms), is_forward=True)
        results: list[PutResult] = []
        for message in messages:
            results.append(self._put(message, turn))
            if not results[-1].status.is_stored:
                break
        results += [NOT_TRIED] * (len(messages) - len(results))
        if failed := self._write(turn):
            return [failed for _ in results], []
        return results, turn.appended

    def begin_copy(self, offset: int) -> None:
        """Let an empty log begin at an offset, at which a file of another log begins.

        Raise StoreDamaged if the log is not empty, or no file of this size can begin there.
        """
        if self.end != self.first_offset or offset % self.segment_bytes:
            raise StoreDamaged(
                f"a log from {self.first_offset} to {self.end}, with files of {self.segment_bytes} "
                f"bytes, can't begin at {offset}",
                path=self.directory,
                position=offset,
            )
        while self._segments.files:
            self._segments.remove_last()
        self.end = offset

    def truncated(self, end: int, last_store_ms: int) -> None:
        """Note that the files were cut at an offset, before which a record of that time ends."""
        self.end = end
        self.last_store_ms = last_store_ms
        self._queue_offsets.clear()

    def append_copy(self, data: memoryview, entries: list[Dispatched]) -> None:
        """Append whole records of another log, or a blank, which lie in one file as they do there.

        Raise StoreError if the disk is full or fails; nothing is appended then.
        """
        segments, offset = self._segments, self.end
        segment = segments.segment_at(offset) or segments.add(offset - offset % self.segment_bytes)
        segments.reserve(segment, offset, len(data))
        segments.prepare(segment, offset)
        store_ms = entries[-1].store_timestamp_ms if entries else 0
        turn = _Turn(offset + len(data), max(store_ms, self.last_store_ms))
        turn.writes.append((segment, offset, [data]))
        self._queue_offsets.clear()  # they are read from the queues if this becomes the primary
        self._write_out(turn)

    def _write(self, turn: _Turn) -> PutResult | None:
        """Write a turn; return why it could not be written."""
        if not turn.appended:
            return None
        try:
            self._write_out(turn)
        except DiskFailed as error:
            return PutResult(status=PutStatus.UNKNOWN_ERROR, remark=str(error))
        return None

    def _write_out(self, turn: _Turn) -> None:
        """Write a turn; if the disk fails, raise DiskFailed, and nothing is written."""
        try:
            for segment, offset, buffers in turn.writes:
                segment.write(buffers, offset)
        except DiskFailed as error:
            log.error("append failed: %s", error)
            self._wipe(turn)
            raise
        self.end = turn.position
        self.last_store_ms = turn.now_ms
        self._queue_offsets.update(turn.queue_offsets)

    def _wipe(self, turn: _Turn) -> None:
        """Overwrite with zeros what a failed append may have left after the end."""
        self._unwiped = [
            (segment, offset, sum(map(len, buffers))) for segment, offset, buffers in turn.writes
        ]
        self.wipe_rest()

    def wipe_rest(self) -> None:
        """Go on to wipe what a failed append left, if a full disk prevented that; cheap if not."""
        if not self._unwiped:
            return
        try:
            for segment, offset, size in self._unwiped:
                segment.write([bytes(size)], offset)
                segment.file.sync()  # the system may have written parts of it back
        except DiskFailed as error:
            if not is_full(error):
                self._unwiped = []
                log.critical("the failed append can't be undone; writing stops: %s", error)
            elif self.failure is None:
                log.error("the failed append can't be undone yet; writing waits: %s", error)
            self.failure = error
            return
        self._unwiped = []
        self.failure = None

    # Placing: all decisions, no writes

    def _place_with_light(self, message: Incoming, turn: _Turn) -> PutResult:
        self._light_offsets = {}
        result = self._place(message, turn)
        if result.status is _PUT_OK:
            turn.queue_offsets.update(self._light_offsets)
        return result

    def _put_records(self, records: list[NewRecord], turn: _Turn) -> PutRecords:
        before, failure = len(turn.appended), None
        try:
            self._add(records, turn)
        except StoreError as error:
            failure = self._refused_for_space(error)
        return PutRecords(len(turn.appended) - before, failure)

    def _place(self, message: Incoming, turn: _Turn) -> PutResult:
        try:
            records = self._records(message, turn)
            overhead = form_of(records[0]).overhead
            size = sum([overhead + len(one.body) + len(one.properties) for one in records])
            if size > self._least_limit or message.queue_id < 0:
                self._check(message, records, size, overhead, turn)
            if size > turn.room:
                self._make_room(size, turn)
            self._add(records, turn)
        except _Refused as refused:
            return PutResult(status=refused.status, remark=str(refused))
        except (CorruptRecord, LocalProtocolError) as error:
            return PutResult(status=PutStatus.MESSAGE_ILLEGAL, remark=str(error))
        except StoreError as error:
            return self._refused_for_space(error)
        if isinstance(message, InnerBatch):
            self._count_inner(message, records[0], turn)
        return _result(records, turn.position)

    def _add(self, records: Sequence[NewRecord], turn: _Turn) -> None:
        """Add records to the turn; their places are final unless the write fails.

        The records of a turn are written by this alone. Raise StoreError if the disk is full, and
        LocalProtocolError if a number does not fit its field; the turn then has the records before.
        """
        placed, appended = 0, turn.appended
        while placed < len(records):
            one = records[placed]
            size = form_of(one).overhead + len(one.body) + len(one.properties)
            if size > turn.room:
                self._make_room(size, turn)
            more = self._place_some(records, placed, turn)
            appended += records[placed : placed + more]
            placed += more
            last = records[placed - 1]
            if last.has_inner:
                appended += self._dispatcher.inner_entries(last, last.properties)

    def _place_some(self, records: Sequence[NewRecord], start: int, turn: _Turn) -> int:
        """Place records in the turn's file, which has room for the first; return how many."""
        queues = (turn.queue_offsets, self.next_queue_offset)
        given = (records, start, form_of, *queues, turn.position, turn.room, turn.now_ms)
        if self._append_crc:
            count, end, buffers = place_records(*given)
            _seal(buffers)
        else:
            count, end, buffers = place_leading(*given)
            if not count:  # only Python understands the first
                count, end, buffers = place_records(*given)
        turn.buffers += buffers
        turn.room -= end - turn.position
        turn.position = end
        return count

    def _count_inner(self, message: InnerBatch, record: NewRecord, turn: _Turn) -> None:
        """Let the messages of a batch that is one record take consecutive queue offsets."""
        turn.queue_offsets[message.topic, message.queue_id] = record.queue_offset + message.count

    def _make_room(self, size: int, turn: _Turn) -> None:
        """Continue the turn in a file with room for ``size`` bytes, the next one if necessary.

        If the disk is full, the turn is unchanged.
        """
        segments = self._segments
        segment = segments.segment_at(turn.position)
        if segment is None:
            segment = segments.add(turn.position - turn.position % segments.segment_bytes)
        left = segment.end - turn.position
        if size + BLANK_SIZE > left:
            segments.reserve(segment, turn.position, BLANK_SIZE)
            following = segments.segment_at(segment.end) or segments.add(segment.end)
            segments.reserve(following, following.base, size + BLANK_SIZE)
            if not turn.writes:
                turn.writes.append((segment, turn.position, []))
            turn.writes[-1][2].append(record.blank(left))
            turn.position = segment.end
            segment = following
        else:
            segments.reserve(segment, turn.position, size + BLANK_SIZE)
            segments.prepare(segment, turn.position)
        if not turn.writes or turn.writes[-1][0] is not segment:
            turn.writes.append((segment, turn.position, []))
        turn.buffers = turn.writes[-1][2]
        turn.room = segment.reserved - turn.position - BLANK_SIZE
        if self._lacks_space:
            self._lacks_space = False
            log.warning("the log has space again: messages are accepted")

    def _refused_for_space(self, error: StoreError) -> PutResult:
        """Return the result of a message for which there is no space; the first one is logged."""
        if not self._lacks_space:
            self._lacks_space = True
            log.error("the log has no space, messages are refused until it has: %s", error)
        return PutResult(status=PutStatus.CREATE_MAPPED_FILE_FAILED, remark=str(error))

    def _records(self, message: Incoming, turn: _Turn) -> list[NewRecord]:
        """Return the records that a message becomes, with space for the seal."""
        labels_of, now_ms = self._dispatcher.labels, turn.now_ms
        if isinstance(message, InnerBatch):
            inner: list[Incoming] = [self._with_base(message, turn)]
        elif not self._rewrites:
            if not message.is_batch:
                return [new_record(message, message, message.properties, labels_of, now_ms)]
            usual = usual_batch_records(message, labels_of, now_ms)
            return usual or batch_records(message, labels_of, now_ms)
        else:
            inner = [message]
            if message.is_batch:
                inner = [_alone(message, one) for one in split(message)]
            if self._lmq_enabled and not message.sys_flag & _WITHOUT_QUEUE:
                inner = [self._numbered(one, turn) for one in inner]
        if self._append_crc:
            inner = [_with_room_for_seal(one) for one in inner]
        return [new_record(one, one, one.properties, labels_of, now_ms) for one in inner]

    def _with_base(self, message: InnerBatch, turn: _Turn) -> InnerBatch:
        """Return an inner batch with the queue offset of its first message as a property."""
        if message.sys_flag & _WITHOUT_QUEUE:
            raise _Refused(PutStatus.MESSAGE_ILLEGAL, "an inner batch can't be a half message")
        key = (message.topic, message.queue_id)
        base = turn.queue_offsets.get(key, -1)
        if base < 0:
            base = self.next_queue_offset(*key)
        text = message.properties + properties.join({properties.INNER_BASE: str(base)})
        return msgspec.structs.replace(message, properties=text)

    def _numbered(self, message: Incoming, turn: _Turn) -> Incoming:
        """Return a message with its offsets in the light queues that it names."""
        light, new = dict(self._light_offsets), 0

        def take_offset(name: str) -> int:
            nonlocal new
            key = (name, 0)
            offset = light.get(key, turn.queue_offsets.get(key, -1))
            if offset < 0:
                offset = self.next_queue_offset(*key)
            if offset == 0:
                if not self.may_make_light(name, new):
                    raise _Refused(
                        PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
                        f"light queue {name} would be one more than maxLmqConsumeQueueNum",
                    )
                new += 1
            light[key] = offset + 1
            return offset

        try:
            message = light_queues.numbered(message, take_offset)
        except (_Refused, LocalProtocolError) as error:
            if not turn.is_forward:
                raise
            # Messages behind it would wait for it, so it is stored without light queues.
            log.error("a message of %s is not in its light queues: %s", message.topic, error)
            return light_queues.unnumbered(message)
        self._light_offsets = light
        return message

    def _check(
        self, message: Incoming, inner: list[NewRecord], size: int, overhead: int, turn: _Turn
    ) -> None:
        """Check a message against Java's limits; raise _Refused if it exceeds one.

        The caller skips this if the whole message is within the least of them.
        """
        if message.queue_id < 0:
            raise _Refused(PutStatus.MESSAGE_ILLEGAL, f"queue_id is {message.queue_id}")
        body_size, limit = len(message.body), self._body_bytes_max
        if body_size > limit and not turn.is_forward:
            raise _Refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"the body has {body_size} bytes; the limit is {limit}",
            )
        longest = max(len(one.properties) for one in inner)
        if longest > _PROPERTIES_MAX:
            raise _Refused(
                PutStatus.PROPERTIES_SIZE_EXCEEDED,
                f"the properties have {longest} bytes; the limit is {_PROPERTIES_MAX}",
            )
        largest = overhead + max(len(one.body) + len(one.properties) for one in inner)
        record_max = self._batch_bytes_max if turn.is_forward else self._record_bytes_max
        if largest > record_max or size > self._batch_bytes_max:
            raise _Refused(
                PutStatus.MESSAGE_ILLEGAL,
                f"the message takes {size} bytes, its largest record {largest}; the limit is "
                f"{record_max} for a record and {self._batch_bytes_max} for a batch",
            )


class _Refused(Exception):
    """A message exceeds a limit; ``append`` turns it into a result."""

    def __init__(self, status: PutStatus, remark: str) -> None:
        super().__init__(remark)
        self.status = status


def _result(records: list[NewRecord], end: int) -> PutResult:
    """Return the result of a message that became some records, which end where the turn does."""
    first = records[0]
    offsets = tuple([record.commit_log_offset for record in records])
    return PutResult(
        status=_PUT_OK,
        queue_offset=first.queue_offset,
        offsets=offsets * first.messages,  # more than one only in an inner batch
        end=end,
        store_timestamp_ms=first.store_timestamp_ms,
    )


def _alone(message: Incoming, part: BatchedMessage) -> Incoming:
    """Return one message of a batch as a message to be stored."""
    return msgspec.structs.replace(
        message,
        flag=part.flag,
        body=part.body,
        properties=bytes(part.properties),
        prepared_transaction_offset=0,
    )


def _with_room_for_seal(message: Incoming) -> Incoming:
    """Return a message without a seal of its sender, and with space for ours."""
    text = message.properties
    if _own_seal(text) is not None:
        kept = properties.decode(text)
        del kept[properties.CRC32]
        text = properties.join(kept)
    if text and not text.endswith(_VALUE_END):
        text += _VALUE_END
    return msgspec.structs.replace(message, properties=text + bytes(CRC_PROPERTY_SIZE))


def _seal(buffers: list[Buffer]) -> None:
    """Put the seal of each record, which has three buffers, at its end."""
    for at in range(0, len(buffers), 3):
        head, body, tail = buffers[at : at + 3]
        before = tail[:-CRC_PROPERTY_SIZE]
        buffers[at + 2] = bytes(before) + record.crc_property(head, body, before)
