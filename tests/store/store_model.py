"""What a store must hold, kept in plain lists: the other half of ``test_store_model``.

A record, once learned, never changes. A queue is a list whose indexes are the queue offsets, gone
records included; what is gone is told by where the log begins.
"""

import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orbitmq.message import batch, flags, properties
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.message.record import BLANK_SIZE, CRC_PROPERTY_SIZE, LEAST_SIZE
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import tags_code
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from tests.store.logs import incoming

SEGMENT = 4096
BODY_MAX = 1500
LEVEL_2_MS = 5_000

QueueKey = tuple[str, int]


class Kind(enum.Enum):
    """What is sent: messages that are stored in several ways, and some that must be refused."""

    PLAIN = enum.auto()
    COMMITTED = enum.auto()
    PREPARED = enum.auto()
    ROLLED_BACK = enum.auto()
    DELAYED = enum.auto()
    BATCH = enum.auto()
    TOO_LARGE = enum.auto()
    TOO_MANY_PROPERTIES = enum.auto()
    NO_BATCH = enum.auto()
    NO_DIRECTORY = enum.auto()

    @property
    def expected(self) -> PutStatus:
        return _REFUSALS.get(self, PutStatus.PUT_OK)

    @property
    def sys_flag(self) -> int:
        return _SYS_FLAGS.get(self, flags.TRANSACTION_NONE)

    @property
    def in_queue(self) -> bool:
        return self not in (Kind.PREPARED, Kind.ROLLED_BACK)


_REFUSALS = {
    Kind.TOO_LARGE: PutStatus.MESSAGE_ILLEGAL,
    Kind.TOO_MANY_PROPERTIES: PutStatus.PROPERTIES_SIZE_EXCEEDED,
    Kind.NO_BATCH: PutStatus.MESSAGE_ILLEGAL,
    Kind.NO_DIRECTORY: PutStatus.MESSAGE_ILLEGAL,
}
_SYS_FLAGS = {
    Kind.COMMITTED: flags.TRANSACTION_COMMIT,
    Kind.PREPARED: flags.TRANSACTION_PREPARED,
    Kind.ROLLED_BACK: flags.TRANSACTION_ROLLBACK,
}


class Sent(NamedTuple):
    """A message as a test case draws it."""

    kind: Kind
    topic: str
    queue_id: int
    words: int
    tag: str = ""
    key: str = ""
    length: int = 0
    """Of the body, if it is not to follow from the words."""

    @property
    def place(self) -> QueueKey:
        return (SCHEDULE_TOPIC if self.kind is Kind.DELAYED else self.topic), self.queue_id

    @property
    def properties(self) -> bytes:
        found = {"city": "Köln", properties.KEYS: self.key, properties.TAGS: self.tag}
        if self.kind is Kind.DELAYED:
            found[properties.DELAY] = "2"
        text = properties.encode({name: value for name, value in found.items() if value})
        return text * 4096 if self.kind is Kind.TOO_MANY_PROPERTIES else text

    def bodies(self, number: int) -> list[bytes]:
        """Return the bodies of what this becomes in the log, different for each ``number``."""
        if self.length:
            return [(b"%04d " % number).ljust(self.length, b".")]
        count = 3 if self.kind is Kind.BATCH else 1
        return [b"%04d.%d " % (number, part) * self.words for part in range(count)]

    def incoming(self, number: int) -> Incoming:
        """Return it as a store takes it."""
        topic, queue_id = self.place
        bodies, text = self.bodies(number), self.properties
        body = bodies[0]
        if self.kind is Kind.BATCH:
            body = batch.encode([(0, one, text) for one in bodies])
        elif self.kind is Kind.TOO_LARGE:
            body = bytes(BODY_MAX + 1)
        return incoming(
            body,
            topic="../orders" if self.kind is Kind.NO_DIRECTORY else topic,
            queue_id=queue_id,
            properties=text,
            sys_flag=self.kind.sys_flag,
            is_batch=self.kind in (Kind.BATCH, Kind.NO_BATCH),
        )


class Awaited(NamedTuple):
    """A record that a message is to become."""

    sent: Sent
    body: bytes


class Kept(NamedTuple):
    """A record of the log, with what its indexes should say of it."""

    offset: int
    raw: bytes
    sent: Sent
    queue_offset: int
    code: int
    stored_ms: int

    @property
    def end(self) -> int:
        return self.offset + len(self.raw)


@dataclass
class KeptQueue:
    """One queue: ``records[n]`` has the queue offset n, or had it before it was removed."""

    records: list[Kept] = field(default_factory=list)
    lowest: int = 0
    """A deleted queue may come back in part: entries before this are gone, their records not."""

    def bounds(self, log_start: int, log_end: int) -> tuple[int, int]:
        """Return the least offset and the one behind the last, of records between two places."""
        offsets = [kept.offset for kept in self.records]
        end = bisect_left(offsets, log_end)
        return min(max(bisect_left(offsets, log_start), self.lowest), end), end


class StoreModel:
    """Everything that was stored, and how far it is durable.

    In a ``sealed`` store each record ends with a checksum over all of it.
    """

    def __init__(self, *, sealed: bool) -> None:
        self.seal_size = CRC_PROPERTY_SIZE if sealed else 0
        self.records: list[Kept] = []
        self.queues: dict[QueueKey, KeptQueue] = {}
        self.deleted: dict[QueueKey, list[list[Kept]]] = {}
        """The records of queues each time they were deleted; the log may still have them."""
        self.first_offset = 0
        self.end = 0
        self.durable = 0
        self.last_stored_ms = 0

    # What happens to the store

    def appended(self, turn: Sequence[tuple[Sent, int]], results: Sequence[PutResult]) -> None:
        """Note that messages were stored: where they lie follows from what was there before.

        Their bytes are learned by ``learn``.
        """
        for (sent, _), result in zip(turn, results, strict=True):
            assert result.status is sent.kind.expected, result
            assert (result.remark == "") == result.status.is_stored
            if not sent.kind.in_queue:
                assert result.queue_offset == 0

    def learn(self, view: RecordView, awaited: Awaited, now_ms: int | None) -> None:
        """Take a record in, as the next of the log, if it is the one that was awaited."""
        sent = awaited.sent
        key = sent.place
        queue = self.queues.setdefault(key, KeptQueue())
        queue_offset = len(queue.records) if sent.kind.in_queue else 0
        assert (str(view.topic, "utf-8"), view.queue_id) == key
        assert bytes(view.body) == awaited.body
        text = bytes(view.properties)
        assert text[: len(text) - self.seal_size] == sent.properties
        assert view.sys_flag == sent.kind.sys_flag
        assert view.queue_offset == queue_offset
        stored_ms = view.store_timestamp_ms
        assert stored_ms >= self.last_stored_ms
        assert now_ms is None or stored_ms == max(now_ms, self.last_stored_ms)
        code = tags_code(sent.tag or None)
        if sent.kind is Kind.DELAYED:
            code = stored_ms + LEVEL_2_MS
        offset = view.commit_log_offset
        kept = Kept(offset, bytes(view.raw), sent, queue_offset, code, stored_ms)
        self.records.append(kept)
        if sent.kind.in_queue:
            queue.records.append(kept)
        self.end = kept.end
        self.last_stored_ms = stored_ms

    def cut(self, end: int) -> None:
        """Note that the log ends earlier now: with a whole record, or with a file."""
        assert self.durable <= end
        while self.records and self.records[-1].offset >= end:
            self.records.pop()
        gone = [records for times in self.deleted.values() for records in times]
        for records in (*gone, *(queue.records for queue in self.queues.values())):
            while records and records[-1].offset >= end:
                records.pop()
        last_end = self.records[-1].end if self.records else self.first_offset
        assert end in (last_end, -(-last_end // SEGMENT) * SEGMENT)
        self.end = end
        self.last_stored_ms = self.records[-1].stored_ms if self.records else 0

    def begins_at(self, first_offset: int) -> None:
        """Note that the oldest files were removed, or came back in a power loss."""
        assert first_offset % SEGMENT == 0
        self.first_offset = first_offset

    def delete(self, keys: Iterable[QueueKey]) -> None:
        """Note that queues were deleted: their offsets begin at 0 again."""
        for key in keys:
            self.deleted.setdefault(key, []).append(self.queues.pop(key).records)

    def bring_back(self, key: QueueKey, low: int, places: Sequence[int]) -> None:
        """Note that a start shows these records of a queue, which begins at ``low``.

        As with Java, it may find records of a deleted queue in the log, unless there are new ones.
        """
        if (live := self.queues.get(key)) and live.records:
            return
        high = low + len(places)
        for records in reversed(self.deleted[key]):
            if places == [kept.offset for kept in records[low:high]] and len(records) >= high:
                self.queues[key] = KeptQueue(records[:high], lowest=low)
                return
        assert high == 0, key

    def forget_idle_queues(self) -> None:
        """Note that only the log is left: a queue without a record in it begins anew."""
        for key in self.idle_queues():
            self.queues[key].records.clear()
        for queue in self.queues.values():
            queue.lowest = 0

    def has_durable_records(self, key: QueueKey) -> bool:
        """Return whether the log has a record of a queue, whatever a power loss takes."""
        low, high = self.queues[key].bounds(self.first_offset, self.durable)
        return low < high

    def idle_queues(self) -> list[QueueKey]:
        """Return the queues whose records are all gone with their files."""
        found = []
        for key, queue in self.queues.items():
            low, high = queue.bounds(self.first_offset, self.end)
            if low == high:
                found.append(key)
        return found

    # What the store must show

    def length_to_leave(self, left: int, sent: Sent) -> int:
        """Return how long a body makes a record that leaves ``left`` bytes of its file.

        The record is the next of the log, and has the topic and properties of ``sent``.
        """
        others = LEAST_SIZE + len(sent.place[0]) + len(sent.properties) + self.seal_size
        return SEGMENT - self.end % SEGMENT - others - left

    def kept_records(self) -> Iterator[Kept]:
        """Yield the records of the files that are there."""
        return (kept for kept in self.records if kept.offset >= self.first_offset)

    def with_key(self, topic: str, key: str, dispatched_end: int) -> list[int]:
        """Return where the records with a key lie; one that was rolled back has none."""
        return [
            kept.offset
            for kept in self.kept_records()
            if (kept.sent.place[0], kept.sent.key) == (topic, key)
            and kept.sent.kind is not Kind.ROLLED_BACK
            and kept.offset < dispatched_end
        ]


def awaited(turn: Iterable[tuple[Sent, int]]) -> list[Awaited]:
    """Return the records that a turn's messages are to become, those refused left out."""
    return [
        Awaited(sent, body)
        for sent, number in turn
        if sent.kind.expected.is_stored
        for body in sent.bodies(number)
    ]


def place_behind(end: int, size: int) -> int:
    """Return where records of ``size`` bytes go that come when the log ends at ``end``."""
    left = SEGMENT - end % SEGMENT
    return end if size + BLANK_SIZE <= left else end + left
