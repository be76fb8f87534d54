"""Which batches become one record, and which are illegal."""

import pytest

from orbitmq.broker.sending.inner_batches import UNWRAPPED, IllegalBatch, count_in, stored_text
from orbitmq.message import batch, flags, properties

OWN = {"CLUSTER": "north"}
TWO = batch.encode([(0, b"one", b""), (0, b"two", b"")])


def test_the_record_has_the_properties_of_the_batch_and_its_number() -> None:
    text, count = stored_text({"UNIQ_KEY": "A", "INNER_BASE": "7"}, OWN, TWO)
    assert count == 2
    assert properties.decode(text) == {"UNIQ_KEY": "A", "CLUSTER": "north", "INNER_NUM": "2"}


@pytest.mark.parametrize(
    ("found", "body", "why"),
    [
        ({}, b"", "it has 0 messages"),
        ({}, TWO[:-1], "batched message at byte 25"),
        ({}, batch.encode([(0, b"", b"")] * 32_768), "it has 32768 messages"),
        ({"DELAY": "3"}, TWO, "no delay"),
        ({"TIMER_DELAY_MS": "3"}, TWO, "no delay"),
        ({"TRAN_MSG": "true"}, TWO, "no half message"),
    ],
)
def test_a_batch_that_can_t_be_one_record_is_illegal(
    found: dict[str, str], body: bytes, why: str
) -> None:
    with pytest.raises(IllegalBatch, match=why):
        stored_text(found, OWN, body)


def test_delay_level_0_is_none() -> None:
    assert stored_text({"DELAY": "0", "TRAN_MSG": "false"}, OWN, TWO)[1] == 2


@pytest.mark.parametrize(
    ("sys_flag", "found", "count"),
    [
        (0, {}, 0),
        (flags.INNER_BATCH, {}, 1),
        (flags.INNER_BATCH, {"INNER_NUM": "5"}, 5),
        (UNWRAPPED, {"INNER_NUM": "2", "INNER_BASE": "99"}, 2),
    ],
)
def test_a_send_that_its_client_marked(sys_flag: int, found: dict[str, str], count: int) -> None:
    assert count_in(sys_flag, found, TWO, has_batch_queues=True) == count
    assert "INNER_BASE" not in found


@pytest.mark.parametrize(
    ("sys_flag", "found", "why"),
    [
        (0, {"INNER_NUM": "2"}, "not an inner batch"),
        (flags.INNER_BATCH, {"INNER_NUM": "x"}, "not a number"),
        (flags.INNER_BATCH, {"INNER_NUM": "0"}, "it has 0 messages"),
        (flags.INNER_BATCH, {"INNER_NUM": "40000"}, "it has 40000 messages"),
        (UNWRAPPED, {"INNER_NUM": "3"}, "does not hold the 3 messages"),
        (UNWRAPPED | flags.COMPRESSED, {"INNER_NUM": "2"}, "does not hold"),
        (flags.INNER_BATCH, {"DELAY": "1"}, "no delay"),
    ],
)
def test_a_wrong_mark_is_illegal(sys_flag: int, found: dict[str, str], why: str) -> None:
    with pytest.raises(IllegalBatch, match=why):
        count_in(sys_flag, found, TWO, has_batch_queues=True)


def test_only_topics_with_batch_queues_take_inner_batches() -> None:
    with pytest.raises(IllegalBatch, match=r"queue\.type is not BatchCQ"):
        count_in(flags.INNER_BATCH, {}, TWO, has_batch_queues=False)
