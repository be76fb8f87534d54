import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message.ids import offset_id
from orbitmq.message.record import Version
from orbitmq.message.record_view import RecordView
from orbitmq.spark.columns.record_columns import MARGIN, RecordBlock
from tests.spark.records import HERE, HERE_IPV6, record

HOSTS = st.sampled_from([HERE, HERE_IPV6])
RECORDS = st.builds(
    record,
    st.integers(0, 1_000),
    st.binary(max_size=40),
    st.sampled_from([b"", b"A\x01b\x02", b"A\x01b", b"\x02", b"A"]),
    topic=st.sampled_from(["a", "orders", "o" * 127, "o" * 200]),
    born_host=HOSTS,
    store_host=HOSTS,
)


def block_of(records: list[bytes]) -> RecordBlock:
    starts = [sum(map(len, records[:number])) for number in range(len(records))]
    data = np.frombuffer(b"".join(records) + bytes(MARGIN), np.uint8).copy()
    return RecordBlock(data, starts)


@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_all_columns_are_what_the_records_say(records: list[bytes]) -> None:
    block = block_of(records)
    views = [RecordView(memoryview(raw), 0, len(raw)) for raw in records]
    assert block.faulty is None
    assert len(block) == len(records)
    assert block.queue_offsets().tolist() == [view.queue_offset for view in views]
    assert block.born_ms().tolist() == [view.born_timestamp_ms for view in views]
    assert block.stored_ms().tolist() == [view.store_timestamp_ms for view in views]
    assert block.user_flags().tolist() == [view.flag for view in views]
    assert block.body_crcs().tolist() == [view.body_crc for view in views]
    assert block.reconsume_times().tolist() == [view.reconsume_times for view in views]
    assert block.bodies().to_pylist() == [bytes(view.body) for view in views]
    assert block.offset_ids().to_pylist() == [
        offset_id(view.store_host, view.commit_log_offset) for view in views
    ]
    texts = [view.properties for view in views]
    assert block.texts().to_pylist() == [
        text if not text or text.endswith(b"\x02") else text + b"\x02" for text in texts
    ]
    assert block.bodies().to_pylist() == [bytes(view.body) for view in views]  # also afterwards


@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_a_changed_byte_never_reads_beyond_its_record(
    records: list[bytes], data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, len(records) - 1))
    broken = bytearray(records[row])
    at = data.draw(st.integers(4, len(broken) - 1))  # the size has been checked before
    broken[at] = data.draw(st.integers(0, 255))
    records[row] = bytes(broken)
    block = block_of(records)
    if block.faulty is None:
        assert sum(map(len, block.bodies().to_pylist())) < sum(map(len, records))
    else:
        assert block.faulty == row


@pytest.mark.parametrize(
    ("at", "value"),
    [(4, 0), (84, 0x7F), (84, 0xFF), (95, 0x7F), (95, 0xFF), (102, 0x7F), (102, 0xFF)],
    ids=["magic", "body", "no body", "topic", "no topic", "properties", "no properties"],
)
def test_the_first_record_whose_lengths_do_not_add_up_is_named(at: int, value: int) -> None:
    sound = record(1, b"1 pizza", b"A\x01b\x02")
    broken = bytearray(sound)
    broken[at] = value
    assert block_of([sound, bytes(broken), sound]).faulty == 1


def test_a_head_that_is_longer_than_its_record_is_a_fault() -> None:
    broken = bytearray(record(1, b"", topic="a"))
    broken[39] |= 0x30  # both hosts of IPv6
    assert block_of([record(0), bytes(broken)]).faulty == 1


def test_both_versions_of_the_topic_length_are_read() -> None:
    records = [record(0, topic="o" * 127), record(1, topic="o" * 128)]
    versions = [RecordView(memoryview(raw), 0, len(raw)).version for raw in records]
    assert versions == [Version.V1, Version.V2]
    assert block_of(records).faulty is None
