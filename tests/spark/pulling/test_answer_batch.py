from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import OrbitError
from orbitmq.message import batch, flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.scan import Scan
from orbitmq.spark.columns.record_columns import MARGIN
from orbitmq.spark.columns.row_builder import RowBuilder
from orbitmq.spark.offsets import Slice
from orbitmq.spark.pulling.answer_batch import AnswerBatch
from orbitmq.spark.pulling.puller import PullOptions, pull
from orbitmq.spark.pulling.record_run import Records
from orbitmq.spark.schema import READ_COLUMNS
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from tests.spark.fake_queue import QUEUE, FakeQueue, FakeReplicas
from tests.spark.records import HERE_IPV6, compressed, record

END = 300
USUAL = {"KEYS": "o-1", "TAGS": "paid", "UNIQ_KEY": "7F0001"}


def inner_batch(offset: int) -> bytes:
    body = batch.encode([(0, b"part %d" % n, b"") for n in range(2)])
    sys_flag = flags.NEED_UNWRAP | flags.INNER_BATCH
    return record(offset, body, {properties.INNER_COUNT: "2"}, sys_flag=sys_flag)


def spoilt(offset: int) -> bytes:
    raw = bytearray(record(offset, b"x" * 20))
    raw[4] ^= 0xFF  # the magic
    return bytes(raw)


KINDS: dict[str, Callable[[int], bytes]] = {
    "usual": lambda offset: record(offset, b"%d" % offset, USUAL),
    "unlike": lambda offset: record(
        offset, b"\x00" * (offset % 50), {"colour": "blue", "TAGS": "x"}
    ),
    "bare": record,
    "no end": lambda offset: record(offset, b"1 pizza", b"TAGS\x01paid"),
    "long topic": lambda offset: record(offset, topic="o" * 200),
    "IPv6": lambda offset: record(offset, store_host=HERE_IPV6, texts=USUAL),
    "compressed": lambda offset: compressed(offset, b"1 pizza" * 9),
}


class MixedQueue(FakeQueue):
    """A queue with records of any kind, some of which are missing."""

    def __init__(self, stored: Mapping[int, bytes], *, at_once: int) -> None:
        super().__init__(0, END, at_once=at_once)
        self.stored = stored

    def answer(self, offset: int, count: int) -> Frame:
        self.pulls.append(offset)
        if offset >= END:
            return self.frame(ResponseCode.PULL_NOT_FOUND, offset)
        there = [one for one in range(offset, END) if one in self.stored]
        found = there[: min(count, self.at_once)]
        if not found:
            return self.frame(ResponseCode.PULL_RETRY_IMMEDIATELY, END, remark="WAS_REMOVING")
        body = b"".join(self.stored[one] for one in found)
        return self.frame(ResponseCode.SUCCESS, found[-1] + 1, body, "FOUND")


def stored_in(kinds: list[str], gone: set[int]) -> dict[int, bytes]:
    every = [KINDS[kinds[offset % len(kinds)]](offset) for offset in range(END)]
    return {offset: raw for offset, raw in enumerate(every) if offset not in gone}


def told(queue: FakeQueue, options: PullOptions, into: AnswerBatch | None) -> list[object]:
    """Return the records that a pull yields, and then the error with which it ends."""
    found: list[object] = []
    pulled = pull(
        FakeReplicas(queue), Slice(QUEUE, 0, END), options, pause_for=lambda _: None, batch=into
    )
    try:
        for records in pulled:
            found += one_by_one(records)
    except OrbitError as error:
        found.append((type(error), str(error)))
    return found


def one_by_one(records: Records) -> Iterator[bytes]:
    if not records.is_batch:
        yield from (bytes(view.raw) for view in Scan(records.data))
        return
    assert records.starts is not None
    for start in records.starts:
        yield bytes(next(iter(Scan(memoryview(records.data)[int(start) :]))).raw)


@given(
    kinds=st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=9),
    gone=st.one_of(st.just(set[int]()), st.sets(st.integers(0, END - 1), max_size=3)),
    at_once=st.integers(1, 40),
    rows=st.integers(1, 150),
    size=st.integers(1, 40_000),
    goes_on=st.booleans(),
    compacted=st.booleans(),
)
def test_records_checked_together_are_those_checked_one_by_one(
    kinds: list[str],
    gone: set[int],
    at_once: int,
    rows: int,
    size: int,
    goes_on: bool,
    compacted: bool,
) -> None:
    options = PullOptions(group="spark", fail_on_data_loss=not goes_on)
    stored = stored_in(kinds, gone)
    both = []
    for into in (None, AnswerBatch(rows, size, MARGIN)):
        queue = MixedQueue(stored, at_once=at_once)
        queue.attributes = {"cleanup.policy": "COMPACTION"} if compacted else {}
        both.append(told(queue, options, into))
    assert both[0] == both[1]
    if not gone:
        assert both[1] == list(stored.values())


@given(
    kinds=st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=9),
    at_once=st.integers(1, 40),
    rows=st.integers(1, 150),
)
def test_rows_of_both_ways_are_equal(kinds: list[str], at_once: int, rows: int) -> None:
    piece, stored = Slice(QUEUE, 0, END), stored_in(kinds, set())
    both = []
    for into in (None, AnswerBatch(rows, 100_000, MARGIN)):
        queue = FakeReplicas(MixedQueue(stored, at_once=at_once))
        builder = RowBuilder(piece, READ_COLUMNS)
        pulled = pull(queue, piece, PullOptions(group="spark"), batch=into)
        batches = [one for records in pulled for one in builder.feed(records)]
        batches += builder.finish()
        both.append([row for one in batches for row in one.to_pylist()])
    assert both[0] == both[1]
    assert len(both[0]) == END


def test_plain_records_are_received_once_and_leave_in_full_batches() -> None:
    queue = MixedQueue(stored_in(["usual"], set()), at_once=32)
    pulled = pull(
        *(FakeReplicas(queue), Slice(QUEUE, 0, END), PullOptions(group="spark")),
        batch=AnswerBatch(100, 1_000_000, MARGIN),
    )
    sizes = [0 if records.starts is None else len(records.starts) for records in pulled]
    assert sizes == [128, 128, 44]
    assert len(queue.pulls) == len(set(queue.pulls))


def rows_told(stored: Mapping[int, bytes], into: AnswerBatch | None) -> list[object]:
    """Return the rows of a slice, and then the error with which they end."""
    piece, rows = Slice(QUEUE, 0, END), list[object]()
    queue = FakeReplicas(MixedQueue(stored, at_once=32))
    builder = RowBuilder(piece, READ_COLUMNS)
    try:
        for records in pull(queue, piece, PullOptions(group="spark"), batch=into):
            rows += [row for one in builder.feed(records) for row in one.to_pylist()]
        rows += [row for one in builder.finish() for row in one.to_pylist()]
    except OrbitError as error:
        rows.append((type(error), str(error)))
    return rows


def test_inner_batches_are_opened_and_the_rest_is_read_too() -> None:
    stored = stored_in(["usual"], {8})
    stored[7] = inner_batch(7)
    both = [rows_told(stored, into) for into in (None, AnswerBatch(100, 100_000, MARGIN))]
    assert both[0] == both[1]
    assert len(both[0]) == END


def test_a_record_that_cannot_be_read_is_reported_alike() -> None:
    stored = {**stored_in(["usual"], set()), 7: spoilt(7)}
    both = [rows_told(stored, into) for into in (None, AnswerBatch(100, 100_000, MARGIN))]
    assert both[0] == both[1]
    assert "offset 7 can't be read" in str(both[0][-1])


def received(records: list[bytes], order: list[int]) -> tuple[AnswerBatch, list[memoryview]]:
    """Return a batch's memory with answers of one record each, in an order of arrival."""
    into, used = AnswerBatch(100, 10_000, MARGIN), 3
    bodies: dict[int, memoryview] = {}
    for number in order:
        end = used + len(records[number])
        into.memory[used:end] = records[number]
        bodies[number] = into.memory[used:end]
        used = end + 5
    return into, [bodies[number] for number in range(len(records))]


@given(st.permutations(range(9)))
def test_answers_may_arrive_in_any_order(order: list[int]) -> None:
    records = [record(offset, b"%d" % offset, USUAL) for offset in range(9)]
    into, bodies = received(records, order)
    for offset, body in enumerate(bodies):
        assert into.add(body, offset, offset + 1)
    found = into.records()
    assert found is not None
    builder = RowBuilder(Slice(QUEUE, 0, 9), ("queue_offset", "value", "key"))
    (rows,) = builder.feed(found)
    assert rows.to_pylist() == [
        {"queue_offset": offset, "value": b"%d" % offset, "key": "o-1"} for offset in range(9)
    ]


@pytest.mark.parametrize("size", [-5, 0, 50, 2**31 - 1])
def test_a_size_that_leads_elsewhere_is_not_followed(size: int) -> None:
    first = size.to_bytes(4, signed=True) + record(0)[4:]
    into, (body,) = received([first + record(1)], [0])
    into.add(body, 0, 2)
    assert into.records() is None


@pytest.mark.parametrize("reached", [1, 3])
def test_an_answer_with_more_or_fewer_records_than_it_says_is_not_plain(reached: int) -> None:
    into, (body,) = received([record(0) + record(1)], [0])
    into.add(body, 0, reached)
    assert into.records() is None


def test_what_lies_elsewhere_is_not_added() -> None:
    into = AnswerBatch(10, 1_000, MARGIN)
    elsewhere: list[Buffer] = [b"", record(0), memoryview(record(0)), memoryview(bytearray(9))]
    assert not any(into.add(body, 0, 1) for body in elsewhere)
    assert not into.is_full
