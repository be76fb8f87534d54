from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import LocalProtocolError
from orbitmq.message import flags
from orbitmq.message.host import Host
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.store.log.append import NewRecord
from orbitmq.store.log.placing import QueueKey, form_of
from tests import kernels

V4, V6 = Host.parse("10.0.0.7:10911"), Host.parse("[::1]:10911")
ROOM, NOW = 1 << 20, 1_700_000_000_000


def record(body: Any = b"body", topic: str = "orders", queue_id: int = 0, **more: Any) -> NewRecord:
    made = NewRecord(topic, queue_id, 0, 0, 0, 0, more.pop("sys_flag", 0), 0, b"U", b"", None)
    given = {"body": body, "born_host": V4, "store_host": V4, **more}
    return msgspec.structs.replace(made, **given)


class Log:
    """A place to put records, with one implementation."""

    def __init__(self, functions: kernels.Functions, room: int = ROOM) -> None:
        self._place = functions["place_records"]
        self.offsets: dict[QueueKey, int] = {}
        self.room = room

    def next_offset(self, topic: str, queue_id: int) -> int:
        if queue_id == 9:
            raise LocalProtocolError("no such queue")
        return len(topic) + queue_id

    def place(self, records: Sequence[NewRecord], start: int = 0) -> tuple[int, int, bytes]:
        given = (form_of, self.offsets, self.next_offset)
        count, end, buffers = self._place(records, start, *given, 5000, self.room, NOW)
        return count, end, b"".join(buffers)


def test_records_follow_each_other(implementation: kernels.Functions) -> None:
    log = Log(implementation)
    records = [record(b"a"), record(memoryview(b"xbx")[1:2]), record(bytearray(20_000), queue_id=1)]
    records.append(record(b"d", properties=b"TAGS\x01paid\x02", flag=7, born_host=V6))
    count, end, data = log.place(records)
    assert count == 4
    views: list[RecordView] = list(Scan(memoryview(data), verify=True))
    assert [bytes(view.body) for view in views] == [bytes(one.body) for one in records]
    assert [one.commit_log_offset for one in records] == [5000 + view.start for view in views]
    assert [one.commit_log_offset + one.size for one in records] == [
        *[one.commit_log_offset for one in records[1:]],
        end,
    ]
    assert [one.queue_offset for one in records] == [6, 7, 7, 8]
    assert {one.store_timestamp_ms for one in records} == {NOW}
    assert end == 5000 + len(data)
    assert log.offsets == {("orders", 0): 9, ("orders", 1): 8}


def test_what_does_not_fit_has_no_place(implementation: kernels.Functions) -> None:
    records = [record(bytes(100)), record(bytes(100)), record(bytes(100))]
    _, end, _ = Log(implementation).place(records[:2])
    log = Log(implementation, room=end - 5000)
    assert log.place(records)[:2] == (2, end)
    assert log.offsets == {("orders", 0): 8}
    assert Log(implementation, room=10).place(records) == (0, 5000, b"")


def test_the_known_offset_of_a_queue_counts(implementation: kernels.Functions) -> None:
    log = Log(implementation)
    log.offsets = {("orders", 0): 41}
    names = ["".join(parts) for parts in (["ord", "ers"], ["or", "ders"])]  # equal, not the same
    records = [record(topic=names[0]), record(topic="bills"), record(topic=names[1])]
    log.place(records)
    assert [one.queue_offset for one in records] == [41, 5, 42]
    assert log.offsets == {("orders", 0): 43, ("bills", 0): 6}


def test_a_half_message_takes_no_queue_offset(implementation: kernels.Functions) -> None:
    log = Log(implementation)
    half = record(sys_flag=flags.TRANSACTION_PREPARED)
    log.place([half])
    assert half.queue_offset == 0
    assert log.offsets == {}


def test_what_python_refuses_ends_the_records(implementation: kernels.Functions) -> None:
    for wrong in (
        record(flag=1 << 40),
        record(topic="a/b"),
        record(queue_id=9),
        record(properties=bytes(40_000)),
        record(born_host=Host(b"1", 2)),
    ):
        log = Log(implementation)
        assert log.place([record(), wrong, record()])[0] == 1
        assert log.offsets == {("orders", 0): 7}
        with pytest.raises(LocalProtocolError):
            Log(kernels.in_python()).place([record(), wrong], 1)


RECORDS = st.builds(
    record,
    st.binary(max_size=50) | st.integers(16_380, 16_390).map(bytes),
    topic=st.sampled_from(["orders", "b", "t" * 128, "ü", "a/b", ""]),
    queue_id=st.sampled_from([0, 1, -1, 9, 1 << 40]),
    sys_flag=st.sampled_from([0, 0x4, 0xC, 0x30, -1, 1 << 31]),
    flag=st.sampled_from([0, -(1 << 31), 1 << 31]),
    properties=st.sampled_from([b"", b"A\x01b\x02", bytes(32_767), bytes(32_768)]),
    born_timestamp_ms=st.sampled_from([0, -1, 1 << 63]),
    born_host=st.sampled_from([V4, V6, Host(b"", 0), Host(bytes(4), 1 << 40)]),
    store_host=st.sampled_from([V4, V6]),
    reconsume_times=st.sampled_from([0, 3]),
    prepared_transaction_offset=st.sampled_from([0, 1 << 62]),
    has_inner=st.sampled_from([False, False, False, True]),
)


@kernels.needs_kernel
@given(st.lists(RECORDS | st.builds(record, queue_id=st.integers(0, 2)), max_size=8), st.data())
def test_the_kernel_places_leading_records_as_python_does(
    records: list[NewRecord], data: st.DataObject
) -> None:
    copies = [msgspec.structs.replace(one) for one in records]
    room = data.draw(st.sampled_from([ROOM, 300, 0, 20_000]))
    log = Log(kernels.in_kernel(), room)
    count, end, placed = log.place(records)
    expected = Log(kernels.in_python(), room)
    assert expected.place(copies[:count]) == (count, end, placed)
    assert [
        (one.commit_log_offset, one.queue_offset, one.size, one.store_timestamp_ms)
        for one in records[:count]
    ] == [
        (one.commit_log_offset, one.queue_offset, one.size, one.store_timestamp_ms)
        for one in copies[:count]
    ]
    assert expected.offsets.items() <= log.offsets.items()
