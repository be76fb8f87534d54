"""Copies have what their originals had, and ids that say where those are."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.jobs.replaying.copies import COPIED, assigned, copies, copy_id

A, B = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
ROW = {
    "topic": "orders",
    "broker": "a",
    "queue_id": 0,
    "queue_offset": 4,
    "value": b"paid",
    "key": "o-1 o-2",
    "tags": "paid",
    "flag": 9,
    "properties": [
        *(("KEYS", "o-1 o-2"), ("TAGS", "paid"), ("UNIQ_KEY", "C0"), ("DELAY", "3")),
        *(("__SHARDINGKEY", "s"), ("colour", "blue"), ("ORBIT_ID", "old"), ("WAIT", "true")),
    ],
}


def batch(*rows: Mapping[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{**ROW, **row} for row in rows], schema=arrow_schema(COPIED))


def test_what_a_copy_has() -> None:
    ((queue, (copy,)),) = copies(batch({}), "again")
    assert queue == A
    assert copy.offset == 4
    assert copy.message == Message(
        "again",
        b"paid",
        tags="paid",
        keys=["o-1", "o-2"],
        properties={"colour": "blue", "ORBIT_ID": "orders:a:0:4"},
        flag=9,
        sharding_key="s",
        message_id=copy.message.message_id,
    )


def test_a_message_with_little() -> None:
    bare = {"key": None, "tags": None, "properties": None, "broker": None}
    ((queue, (copy,)),) = copies(batch(bare), "again")
    assert queue.broker_name == "store"
    assert (copy.message.keys, copy.message.tags, copy.message.sharding_key) == ((), None, None)
    assert copy.message.properties == {"ORBIT_ID": "orders:store:0:4"}


def test_queues_and_ids() -> None:
    rows = [{"queue_id": number, "queue_offset": at} for number, at in ((0, 1), (0, 2), (1, 1))]
    found = [*copies(batch(*rows), "again")]
    assert [(queue, [copy.offset for copy in part]) for queue, part in found] == [
        *((A, [1, 2]), (B, [1]))
    ]
    ids = [copy.message.message_id for _, part in found for copy in part]
    assert len(set(ids)) == 3
    again = [copy.message.message_id for _, part in copies(batch(*rows), "x") for copy in part]
    assert ids == again
    assert {len(one or "") for one in ids} == {32}
    assert copy_id(A, 1) != copy_id(B, 1)
    assert [*copies(batch(), "again")] == []


def test_what_can_t_be_sent_is_named() -> None:
    with pytest.raises(InvalidInput, match="offset 4 of topic orders, queue a:0"):
        [*copies(batch({"value": b""}), "again")]


def test_queues_are_shared_evenly() -> None:
    sources = [MessageQueue("t", name, number) for name in "ab" for number in range(4)]
    same = [MessageQueue("copy", name, number) for name in "xy" for number in range(4)]
    found = assigned(sources[::-1], same[::-1])
    assert [(one.queue_id, other.queue_id) for one, other in sorted(found.items())] == [
        (number, number) for _ in "ab" for number in range(4)
    ]
    few = assigned(sources, same[:3])
    assert sorted([*few.values()].count(one) for one in same[:3]) == [2, 3, 3]
