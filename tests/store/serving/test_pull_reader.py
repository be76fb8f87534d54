from itertools import pairwise
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message.record import LEAST_SIZE, MAGICS, SIZE_AND_MAGIC, Record, encode
from orbitmq.message.tags import tags_code
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.entry import ENTRY
from orbitmq.store.serving.pull_reader import GetMessageResult, GetMessageStatus, PullReader
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import HERE, incoming
from tests.store.stores import opened

SEGMENT = 10_000
PER_FILE = 100
LEAST = -(1 << 63)
SEGMENT_BYTES = 4096
MAX_COUNT = 5


class FakeLog:
    """A log of records with nothing in them, whose beginning may be gone."""

    def __init__(self, end: int, first_offset: int = 0) -> None:
        self.end = end
        self.first_offset = first_offset

    def view(self, offset: int, size: int) -> memoryview | None:
        head = SIZE_AND_MAGIC.pack(size, MAGICS[0])
        return None if offset < self.first_offset else memoryview(head.ljust(size, b"\0"))

    def file_view(self, offset: int, size: int) -> tuple[memoryview, int] | None:
        """Each record is in a file of its own."""
        view = self.view(offset, size)
        return None if view is None else (view, offset)

    def next_segment_offset(self, offset: int) -> int:
        return offset - offset % SEGMENT + SEGMENT


class OffsetLog(FakeLog):
    """A log that notes which records are taken."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.taken: list[int] = []

    def view(self, offset: int, size: int) -> memoryview | None:
        self.taken.append(offset)
        return super().view(offset, size)


class FakeQueue:
    """Entries of one size, ``tags code = offset % 3``, in files of a hundred."""

    def __init__(self, count: int, *, size: int = 100, lowest: int = 0) -> None:
        self.size = size
        self.min_offset = lowest
        self.max_offset = count

    def entries(self, offset: int, count: int) -> bytes:
        end = min(offset + count, self.max_offset, offset - offset % PER_FILE + PER_FILE)
        return b"".join(ENTRY.pack(i * self.size, self.size, i % 3) for i in range(offset, end))

    def next_file_offset(self, offset: int) -> int:
        return offset - offset % PER_FILE + PER_FILE


def pull(
    queue: FakeQueue | None, offset: int = 0, *, max_count: int = 1000, max_bytes: int = 2**30,
    log: FakeLog | None = None, wants: int | None = None, memory: int = 2**40,
) -> GetMessageResult:  # fmt: skip
    found = log or FakeLog(queue.size * queue.max_offset if queue else 0)
    filtered = None if wants is None else (lambda code: code == wants)
    return PullReader(cast(CommitLog, found), StoreSettings(), memory).get_messages(
        cast(ConsumeQueue | None, queue),
        offset,
        max_count=max_count,
        max_bytes=max_bytes,
        wants=filtered,
    )


@pytest.mark.parametrize(
    ("queue", "offset", "status", "next_offset"),
    [
        (None, 5, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        (FakeQueue(0), 5, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0),
        (FakeQueue(50, lowest=10), 9, GetMessageStatus.OFFSET_TOO_SMALL, 10),
        (FakeQueue(50), 50, GetMessageStatus.OFFSET_OVERFLOW_ONE, 50),
        (FakeQueue(50), 51, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 50),
        (FakeQueue(50), 49, GetMessageStatus.FOUND, 50),
    ],
)
def test_an_offset_outside_the_queue_is_answered_with_the_next_one(
    queue: FakeQueue | None, offset: int, status: GetMessageStatus, next_offset: int
) -> None:
    result = pull(queue, offset)
    assert (result.status, result.next_offset) == (status, next_offset)
    if queue is not None:
        assert (result.min_offset, result.max_offset) == (queue.min_offset, queue.max_offset)


def test_the_limits_of_recent_records_hold() -> None:
    assert len(pull(FakeQueue(99)).views) == 32
    assert len(pull(FakeQueue(99, size=100_000)).views) == 2
    assert len(pull(FakeQueue(99), max_count=5).views) == 5
    assert len(pull(FakeQueue(99), max_bytes=350).views) == 3


def test_the_limits_of_older_records_hold() -> None:
    result = pull(FakeQueue(99), memory=1000)
    assert (len(result.views), result.from_disk) == (8, True)
    assert len(pull(FakeQueue(99, size=30_000), memory=1000).views) == 2


def test_the_first_record_is_taken_whatever_its_size() -> None:
    result = pull(FakeQueue(9, size=5_000_000), max_bytes=10)
    assert (len(result.views), result.next_offset) == (1, 1)


def test_a_pull_ends_with_the_file_of_its_queue() -> None:
    result = pull(FakeQueue(300), 95)
    assert (len(result.views), result.next_offset) == (5, 100)


def test_unwanted_records_are_skipped() -> None:
    result = pull(FakeQueue(99), wants=1, max_count=5)
    assert (len(result.views), result.next_offset) == (5, 14)
    nothing = pull(FakeQueue(50), wants=7)
    assert (nothing.status, nothing.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 50)


def test_records_of_a_file_that_is_gone_are_passed_over_to_the_next_one() -> None:
    queue = FakeQueue(300)
    result = pull(queue, 95, log=FakeLog(30_000, first_offset=20_000))
    assert (result.status, result.next_offset) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 100)
    further = pull(queue, 195, log=FakeLog(30_000, first_offset=19_700))
    assert (further.status, len(further.views)) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 0)
    there = pull(queue, 200, log=FakeLog(30_000, first_offset=20_000))
    assert there.status is GetMessageStatus.FOUND


@pytest.mark.parametrize(
    "head",
    [bytes(8), SIZE_AND_MAGIC.pack(101, MAGICS[0]), SIZE_AND_MAGIC.pack(100, 7)],
    ids=["zeros", "size", "magic"],
)
def test_damaged_records_are_skipped_one_by_one_and_logged_once(
    head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A client would drop whatever follows them in an answer."""

    class Damaged(FakeLog):
        def view(self, offset: int, size: int) -> memoryview | None:
            damaged = 300 <= offset < 600
            return memoryview(head.ljust(size, b"\0")) if damaged else super().view(offset, size)

    result = pull(FakeQueue(10), log=Damaged(1_000), max_count=10)
    assert (result.status, len(result.views)) == (GetMessageStatus.FOUND, 7)
    assert (result.next_offset, result.size) == (10, 700)
    (told,) = caplog.messages
    assert "byte 300 of the log" in told
    before = pull(FakeQueue(6), log=Damaged(1_000))
    assert (len(before.views), sum(map(len, before.views)), before.next_offset) == (3, 300, 6)
    nothing = pull(FakeQueue(10), 3, log=Damaged(1_000), max_count=3)
    assert (nothing.status, nothing.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 6)


@pytest.mark.parametrize("size", [0, 7, 90])
def test_an_entry_too_small_for_a_record_is_passed_over(size: int) -> None:
    result = pull(FakeQueue(3, size=size), log=FakeLog(1_000))
    assert (result.views, result.next_offset) == ([], 3)


def test_a_queue_file_that_is_gone_leads_to_the_next_one() -> None:
    class Holey(FakeQueue):
        def entries(self, offset: int, count: int) -> bytes:
            return b""

    result = pull(Holey(300), 120)
    assert (result.status, result.next_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 200)


class ExtendedQueue(FakeQueue):
    """A queue of Java's: every entry but the first has an address in place of its tags code."""

    def entries(self, offset: int, count: int) -> bytes:
        found = ENTRY.iter_unpack(super().entries(offset, count))
        return b"".join(
            ENTRY.pack(at, size, code if at == 0 else LEAST + at) for at, size, code in found
        )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (0, [0, 3, 6, 9]),
        (1, [1, 4, 7, 9]),
        (2, [2, 5, 8, 9]),
        (7, [9]),
    ],
)
def test_an_address_leads_to_the_tags_code_in_the_extension(wanted: int, found: list[int]) -> None:
    asked: list[int] = []

    def extended(address: int) -> int | None:
        asked.append(address)
        offset = (address - LEAST) // 100
        return None if offset == 9 else offset % 3  # the last can't be read, and comes along

    queue = ExtendedQueue(10)
    log = OffsetLog(1_000)
    result = PullReader(cast(CommitLog, log), StoreSettings(), 2**40).get_messages(
        cast(ConsumeQueue, queue),
        0,
        max_count=32,
        wants=lambda code: code == wanted,
        extended=extended,
    )
    assert log.taken == [offset * 100 for offset in found]
    assert result.status is GetMessageStatus.FOUND
    assert result.next_offset == 10
    assert asked == [LEAST + offset * 100 for offset in range(1, 10)]


def test_ordinary_codes_ask_no_extension() -> None:
    def extended(_address: int) -> int | None:
        raise AssertionError

    result = PullReader(cast(CommitLog, FakeLog(1_000)), StoreSettings(), 2**40).get_messages(
        cast(ConsumeQueue, FakeQueue(10)),
        0,
        max_count=32,
        wants=lambda code: code == 1,
        extended=extended,
    )
    assert len(result.views) == 3


# Records next to each other


@given(
    messages=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 400), st.booleans()), max_size=40
    ),
    offset=st.integers(0, 20),
    by_tag=st.booleans(),
)
def test_a_pull_returns_the_bytes_of_its_records_and_joins_neighbours(
    messages: list[tuple[int, int, bool]], offset: int, by_tag: bool
) -> None:
    store = opened(SimulatedDisk(), segment_bytes=SEGMENT_BYTES, queue_file_entries=100)
    for queue_id, size, is_tagged in messages:
        text = b"TAGS\x01paid\x02" if is_tagged else b""
        store.append([incoming(bytes(size), queue_id=queue_id, properties=text)])
    paid = tags_code("paid")
    queue = store.queues.consume_queue("orders", 0)
    entries = [] if queue is None else [entry for _, entry in queue.iterate(offset)]
    wanted = [entry for entry in entries if not by_tag or entry.tags_code == paid][:MAX_COUNT]
    pulled = store.lookup.get_messages(
        "orders", 0, offset, max_count=MAX_COUNT, wants=paid.__eq__ if by_tag else None
    )
    records = [store.log.view(one.commit_log_offset, one.size) or b"" for one in wanted]
    assert b"".join(pulled.views) == b"".join(records)
    assert (pulled.count, pulled.size) == (len(records), sum(map(len, records)))
    joints = [
        one.commit_log_offset + one.size == following.commit_log_offset
        and following.commit_log_offset % SEGMENT_BYTES != 0
        for one, following in pairwise(wanted)
    ]
    assert len(pulled.views) == len(records) - sum(joints)
    store.close()


class Disk(NamedTuple):
    """The files of a log, by their beginnings."""

    files: dict[int, bytes]
    end: int

    def file_view(self, offset: int, size: int) -> tuple[memoryview, int] | None:
        base = offset - offset % SEGMENT_BYTES
        file = self.files.get(base, b"")[: self.end - base]
        return (memoryview(file), base) if file and offset - base + size <= len(file) else None

    def next_segment_offset(self, offset: int) -> int:
        return offset - offset % SEGMENT_BYTES + SEGMENT_BYTES


class Listed(FakeQueue):
    """A queue of the entries of a list."""

    def __init__(self, listed: list[tuple[int, int, int]]) -> None:
        super().__init__(len(listed))
        self.listed = listed

    def entries(self, offset: int, count: int) -> bytes:
        return b"".join(ENTRY.pack(*entry) for entry in self.listed[offset : offset + count])


def one_by_one(
    log: Disk, entries: list[tuple[int, int, int]], max_count: int, memory: int, wants: int | None
) -> tuple[GetMessageStatus, bytes, int, int, bool]:
    """Collect records by the rules, a record at a time."""
    settings = StoreSettings()
    near_from = log.end - memory * settings.memory_percent // 100
    found: list[memoryview] = []
    status, skip_to, passed, is_far = GetMessageStatus.NO_MATCHED_MESSAGE, 0, 0, False
    for position, size, code in entries:
        far = position < near_from
        limit = settings.pull_count_on_disk if far else settings.pull_count_in_memory
        if found and len(found) >= min(max_count, limit):
            break
        passed, is_far = passed + 1, far
        if position < skip_to:
            continue
        if wants is not None and code != wants:
            status = status if found else GetMessageStatus.NO_MATCHED_MESSAGE
            continue
        file = log.file_view(position, size)
        if file is None:
            status = status if found else GetMessageStatus.MESSAGE_WAS_REMOVING
            skip_to = log.next_segment_offset(position)
            continue
        skip_to = 0
        record = file[0][position - file[1] :][:size]
        if size >= LEAST_SIZE and SIZE_AND_MAGIC.unpack_from(record) == (size, MAGICS[0]):
            found.append(record)
            status = GetMessageStatus.FOUND
    return status, b"".join(found), len(found), passed, is_far


@given(st.data())
def test_records_are_collected_as_one_by_one(data: st.DataObject) -> None:
    files: dict[int, bytes] = {}
    entries: list[tuple[int, int, int]] = []
    kinds = st.sampled_from(["ours", "ours", "other", "damaged", "size", "tiny"])
    for base in range(0, 3 * SEGMENT_BYTES, SEGMENT_BYTES):
        file = bytearray()
        for kind in data.draw(st.lists(kinds, max_size=4)):
            size = data.draw(st.sampled_from([LEAST_SIZE, 120, 300]))
            head = SIZE_AND_MAGIC.pack(size, 7 if kind == "damaged" else MAGICS[0])
            if kind != "other":
                named = {"size": size + 1, "tiny": 9}.get(kind, size)
                entries.append((base + len(file), named, data.draw(st.integers(0, 1))))
            file += head.ljust(size, b"%d" % (len(entries) % 10))
        files[base] = bytes(file)
    for base in data.draw(st.sampled_from([[], [0], [0, SEGMENT_BYTES]])):
        files.pop(base)
    log = Disk(files, 2 * SEGMENT_BYTES + len(files[2 * SEGMENT_BYTES]))
    max_count, memory = data.draw(st.integers(1, 20)), data.draw(st.sampled_from([2**40, 9_000]))
    wants = data.draw(st.sampled_from([None, None, 1]))
    if not entries:
        return
    result = PullReader(cast(CommitLog, log), StoreSettings(), memory).get_messages(
        cast(ConsumeQueue, Listed(entries)),
        0,
        max_count=max_count,
        wants=None if wants is None else wants.__eq__,
    )
    scanned = entries if wants is not None else entries[:max_count]
    assert (
        result.status, b"".join(result.views), result.count, result.next_offset, result.from_disk,
    ) == one_by_one(log, scanned, max_count, memory, wants)  # fmt: skip
    assert result.size == sum(map(len, result.views))


# Filters by properties


class PropertyLog(FakeLog):
    """A log whose records have the property ``a``: the number of the record, modulo ten."""

    def __init__(self, count: int) -> None:
        self.size = len(self._record(0))
        super().__init__(count * self.size)

    def view(self, offset: int, size: int) -> memoryview | None:
        return memoryview(self._record(offset // size))

    def _record(self, number: int) -> bytearray:
        return encode(
            Record(
                topic=b"orders", body=b"", queue_id=0, born_timestamp_ms=0, born_host=HERE,
                store_host=HERE, properties=b"a\x01%d\x02" % (number % 10),
            )
        )  # fmt: skip


class Nine:
    """Wants the records with nine as their property ``a``."""

    def __init__(self, terms: int = 1) -> None:
        self.terms = terms
        self.asked = 0

    def matches(self, properties: str) -> bool:
        self.asked += 1
        return properties == "a\x019\x02"


def filtered(log: FakeLog, nine: Nine, *, size: int, wants: int | None = None) -> GetMessageResult:
    reader = PullReader(cast(CommitLog, log), StoreSettings(), 2**40)
    return reader.get_messages(
        cast(ConsumeQueue, FakeQueue(100, size=size)),
        0,
        max_count=32,
        wants=None if wants is None else (lambda code: code == wants),
        record_filter=nine,
    )


def test_records_are_filtered_by_their_properties() -> None:
    log, nine = PropertyLog(100), Nine()
    result = filtered(log, nine, size=log.size)
    assert (result.status, len(result.views)) == (GetMessageStatus.FOUND, 10)
    assert (result.next_offset, nine.asked) == (100, 100)


def test_tags_come_before_properties() -> None:
    log, nine = PropertyLog(100), Nine()
    result = filtered(log, nine, size=log.size, wants=0)  # every third
    assert (len(result.views), nine.asked) == (4, 34)


def test_an_expensive_filter_sees_fewer_records_in_one_pull() -> None:
    log, nine = PropertyLog(100), Nine(terms=3_000)
    result = filtered(log, nine, size=log.size)
    assert (result.status, result.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 5)
    assert filtered(log, Nine(terms=10**9), size=log.size).next_offset == 1


def test_a_record_whose_properties_can_not_be_read_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = filtered(FakeLog(10_000), Nine(), size=100)
    assert (result.status, result.next_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 100)
    assert "a pull skipped a message" in caplog.text
