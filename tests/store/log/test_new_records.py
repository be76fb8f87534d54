from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.message import batch
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.log.append import Incoming, NewRecord
from tests import kernels
from tests.store.logs import NOW, incoming

LABELS_OF = Dispatcher((1000,)).labels
TEXT = b"UNIQ_KEY\x01U1\x02KEYS\x01a b\x02TAGS\x01paid\x02"
TEXTS = st.lists(
    st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"x", b"U1", b"", "ü".encode(), b"\xff"])
    | st.sampled_from([b"\x01", b"\x02", b"INNER_NUM", b"DELAY"]),
    max_size=12,
).map(b"".join)


def records(functions: kernels.Functions, message: Incoming) -> list[NewRecord]:
    found: list[NewRecord] = functions["batch_records"](message, LABELS_OF, NOW)
    return found


def batch_of(*messages: tuple[int, bytes, bytes], **fields: Any) -> Incoming:
    return incoming(batch.encode(messages), is_batch=True, properties=b"", **fields)


def test_each_message_of_a_batch_is_a_record(implementation: kernels.Functions) -> None:
    message = batch_of((7, b"one", TEXT), (0, b"", b""), queue_id=3, sys_flag=1, reconsume_times=2)
    one, other = records(implementation, message)
    assert (bytes(one.body), one.flag, one.properties) == (b"one", 7, TEXT)
    assert (one.unique_key, one.keys, one.tags, one.tags_code) == (b"U1", b"a b", b"paid", 3433164)
    assert (other.unique_key, other.keys, other.tags, other.tags_code) == (None, b"", None, 0)
    for record in (one, other):
        assert (record.topic, record.queue_id, record.sys_flag) == ("orders", 3, 1)
        assert (record.reconsume_times, record.messages, record.has_inner) == (2, 1, False)
        assert (record.born_host, record.store_host) == (message.born_host, message.store_host)


def test_a_batch_that_cannot_be_read_is_an_error() -> None:
    whole = batch_of((7, b"one", TEXT))
    for body in (b"", bytes(whole.body)[:-1], bytes(whole.body) + b"x"):
        with pytest.raises(CorruptRecord):
            records(kernels.in_python(), incoming(body, is_batch=True))


@kernels.needs_kernel
def test_the_kernel_leaves_unusual_batches_to_python() -> None:
    kernel = kernels.in_kernel()
    one = (0, b"one", TEXT)
    assert records(kernel, batch_of(one, (0, b"", b"INNER_NUM\x012\x02"))) == []
    assert records(kernel, batch_of(one, topic=SCHEDULE_TOPIC)) == []
    assert records(kernel, incoming(b"", is_batch=True)) == []


@kernels.needs_kernel
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.binary(max_size=9), TEXTS), max_size=4),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2),
    st.integers(0, 3),
)
def test_both_make_the_same_records(
    messages: list[tuple[int, bytes, bytes]], edits: list[tuple[int, int]], cut: int
) -> None:
    body = bytearray(batch.encode(messages))
    for at, byte in edits:
        if body:
            body[at % len(body)] = byte
    message = incoming(bytes(body[: len(body) - cut]), is_batch=True)
    try:
        expected = records(kernels.in_python(), message)
    except CorruptRecord:
        expected = []
    found = records(kernels.in_kernel(), message)
    assert found == (expected if not any(one.has_inner for one in expected) else [])
