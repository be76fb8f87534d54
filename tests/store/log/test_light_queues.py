"""Light queues: how messages get their offsets there, alone and in a store."""

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.errors import LocalProtocolError
from orbitmq.message import batch, flags, properties
from orbitmq.randomness import SeededRandomness
from orbitmq.store.dispatch import SCHEDULE_TOPIC
from orbitmq.store.log.append import Incoming, PutStatus
from orbitmq.store.log.light_queues import light_queues_of, numbered, unnumbered
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import incoming
from tests.store.stores import bodies, flush, opened

A, B = "%LMQ%a", "%LMQ%b"
LMQ: dict[str, Any] = {"lmq_enabled": True, "multi_dispatch_enabled": True}


def light(body: bytes = b"light", *names: str, topic: str = "orders", **more: str) -> Incoming:
    found = {"TAGS": "paid", **more, "INNER_MULTI_DISPATCH": ",".join(names or (A, B))}
    return incoming(body, topic=topic, properties=properties.join(found))


def light_bodies(store: MessageStore, queue: str) -> list[bytes]:
    """Return the bodies of a light queue; its offsets have no gap."""
    found = store.queues.consume_queue(queue, 0)
    if found is None:
        return []
    entries = list(found.iterate(0))
    assert [offset for offset, _ in entries] == list(range(found.max_offset))
    records = [store.record(entry.commit_log_offset) for _, entry in entries]
    return [bytes(record.body) for record in records if record is not None]


def counting(first: int = 0) -> Callable[[str], int]:
    ends: dict[str, int] = {}

    def take(name: str) -> int:
        ends[name] = ends.get(name, first - 1) + 1
        return ends[name]

    return take


# Alone


def test_a_message_gets_an_offset_per_queue_in_the_order_of_the_names() -> None:
    take = counting(7)
    take(A)
    message = numbered(light(WAIT="true", INNER_MULTI_QUEUE_OFFSET="99,99"), take)
    assert properties.decode(message.properties) == {
        "TAGS": "paid",
        "INNER_MULTI_DISPATCH": f"{A},{B}",
        "INNER_MULTI_QUEUE_OFFSET": "8,7",
    }
    assert "INNER_MULTI_QUEUE_OFFSET" not in properties.decode(unnumbered(message).properties)


@pytest.mark.parametrize(
    "topic", ["%RETRY%billing", SCHEDULE_TOPIC, "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC"]
)
def test_what_is_delivered_later_or_again_gets_none_yet(topic: str) -> None:
    message = light(topic=topic)
    assert numbered(message, counting()) is message


def test_a_message_without_names_stays_as_it_is() -> None:
    for text in (
        b"TAGS\x01paid\x02",
        b"INNER_MULTI_DISPATCH\x01 \x02",
        b"note\x01INNER_MULTI_DISPATCH\x02",
    ):
        message = incoming(properties=text)
        assert numbered(message, counting()) is message


@pytest.mark.parametrize(
    "text", ["orders", f"{A},", f"{A},{B},{A}", f"{A},,{B}", "%LMQ%a/b", "%LMQ%" + "x" * 251, "a,"]
)
def test_names_that_no_light_queue_can_have_are_refused(text: str) -> None:
    if text == f"{A},":
        assert light_queues_of(text) == [A]  # Java's split drops what is empty at the end
        return
    with pytest.raises(LocalProtocolError, match="INNER_MULTI_DISPATCH has"):
        light_queues_of(text)


# In a store


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("append_crc", [False, True])
def test_messages_are_in_their_light_queues_too(mode: FlushMode, append_crc: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk, mode=mode, append_crc=append_crc, **LMQ)
    for turn in range(4):  # two of a turn follow each other
        store.append([light(b"%d-both" % turn), incoming(b"plain"), light(b"%d-a" % turn, A)])
    flush(store)
    in_a = [b"%d-%s" % (turn, which) for turn in range(4) for which in (b"both", b"a")]
    assert light_bodies(store, A) == in_a
    assert light_bodies(store, B) == [b"%d-both" % turn for turn in range(4)]
    assert len(bodies(store)) == 12
    store.close()
    store = opened(disk, mode=mode, append_crc=append_crc, **LMQ)
    store.append([light(b"later")])
    flush(store)
    assert light_bodies(store, A) == [*in_a, b"later"]
    store.close()


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_loss_light_queues_have_what_the_log_has(seed: int) -> None:
    disk = SimulatedDisk(SeededRandomness(seed))
    for round_number in range(3):
        store = opened(disk, **LMQ)
        assert store.damages == []
        assert light_bodies(store, A) == light_bodies(store, B) == bodies(store)
        for number in range(9):
            store.append([light(b"%d.%d" % (round_number, number))])
            if number == seed % 9:
                flush(store)
                store.tick()
        disk.crash()
    store = opened(disk, **LMQ)
    store.append([light(b"last")])
    assert light_bodies(store, A) == light_bodies(store, B) == bodies(store)
    assert bodies(store)[-1] == b"last"
    store.close()


def test_a_comma_after_the_last_name_changes_nothing() -> None:
    disk = SimulatedDisk()
    store = opened(disk, **LMQ)
    store.append([light(b"0", A, B, ""), light(b"1", A)])
    assert light_bodies(store, A) == [b"0", b"1"]
    assert light_bodies(store, B) == [b"0"]
    flush(store)
    disk.crash()
    store = opened(disk, **LMQ)
    assert light_bodies(store, A) == [b"0", b"1"]
    store.close()


def test_the_messages_of_a_batch_are_numbered_one_after_the_other() -> None:
    store = opened(SimulatedDisk(), **LMQ)
    stale = {"INNER_MULTI_DISPATCH": A, "INNER_MULTI_QUEUE_OFFSET": "5"}
    inner = batch.encode((0, b"%d" % number, properties.join(stale)) for number in range(3))
    (result,) = store.append([incoming(inner, is_batch=True)])
    assert len(result.offsets) == 3
    store.append([light(b"3", A)])
    assert light_bodies(store, A) == [b"0", b"1", b"2", b"3"]
    store.close()


def test_a_light_queue_is_a_topic_that_can_be_sent_to() -> None:
    store = opened(SimulatedDisk(), **LMQ)
    store.append([light(b"0", A), incoming(b"1", topic=A), light(b"2", A, topic=A), light(b"3", A)])
    assert light_bodies(store, A) == [b"0", b"1", b"2", b"3"]
    store.close()


def test_a_message_that_is_not_stored_takes_no_offset() -> None:
    store = opened(SimulatedDisk(), lmq_queues_max=1, **LMQ)
    results = store.append(
        [
            light(b"first", A),
            light(b"x" * 5_000, A),  # over the segment
            light(b"wrong name", A, "orders"),
            light(b"second", A),
        ]
    )
    assert [result.status for result in results] == [
        PutStatus.PUT_OK,
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PUT_OK,
    ]
    (over,) = store.append([light(b"one queue too many", A, B)])
    assert over.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert light_bodies(store, A) == [b"first", b"second"]
    store.delete_topic(A)
    (result,) = store.append([light(b"again", B)])
    assert result.status is PutStatus.PUT_OK
    store.close()


def test_all_new_light_queues_of_a_message_count() -> None:
    store = opened(SimulatedDisk(), lmq_queues_max=2, **LMQ)
    (over,) = store.append([light(b"three", A, B, "%LMQ%c")])
    assert over.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    store.append([light(b"both", A, B)])
    assert light_bodies(store, A) == light_bodies(store, B) == [b"both"]
    store.close()


def test_a_delayed_message_is_stored_whatever_it_names(caplog: pytest.LogCaptureFixture) -> None:
    """Those behind it in its level would wait for it."""
    store = opened(SimulatedDisk(), **LMQ)
    stale = light(b"wrong", "orders", INNER_MULTI_QUEUE_OFFSET="0")
    assert [one.status for one in store.forward([stale, light(b"right", A)])] == [
        PutStatus.PUT_OK
    ] * 2
    assert bodies(store) == [b"wrong", b"right"]
    assert light_bodies(store, A) == [b"right"]
    assert "is not in its light queues" in caplog.text
    store.close()


def test_a_half_message_takes_no_offset() -> None:
    store = opened(SimulatedDisk(), **LMQ)
    half = incoming(b"half", sys_flag=flags.TRANSACTION_PREPARED, properties=light().properties)
    store.append([half, light(b"whole")])
    assert light_bodies(store, A) == [b"whole"]
    store.close()


def test_without_the_setting_names_are_properties_like_others() -> None:
    store = opened(SimulatedDisk())
    store.append([light(b"plain", "orders")])
    assert bodies(store) == [b"plain"]
    assert store.queues.light_count == 0
    store.close()


def test_a_start_counts_the_light_queues() -> None:
    disk = SimulatedDisk()
    store = opened(disk, **LMQ)
    store.append([light(b"x")])
    store.close()
    store = opened(disk, **LMQ)
    assert store.queues.light_count == 2
    store.close()
