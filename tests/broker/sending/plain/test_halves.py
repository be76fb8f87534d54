"""Plain halves: stored in the half queue, answered with the queue that they may go to."""

import msgspec

from orbitmq.message import flags, properties
from orbitmq.message.names import HALF_TOPIC
from orbitmq.store.settings import FlushMode
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame, FrameReader
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.sending.plain.exchange import exchange, frame
from tests.broker.sending.plain.test_both_ways import counted

FIRST = 90


def half(number: int, topic: str = "orders", **more: str) -> bytes:
    given = {
        properties.UNIQUE_KEY: f"U{number}",
        properties.TRANSACTION_PREPARED: "true",
        **more,
    }
    prepared = flags.TRANSACTION_PREPARED
    made = header(topic, properties=given, queue_id=number % 4, sys_flag=prepared)
    return frame(made, b"body %d" % number, number)


def plain(number: int, topic: str = "orders") -> bytes:
    made = header(topic, properties={properties.UNIQUE_KEY: f"U{number}"}, queue_id=number % 4)
    return frame(made, b"body %d" % number, number)


def answers_of(world: SendWorld, read: bytes) -> list[Frame]:
    """Return the answers to a read, behind sends that make the topics known to the plain way."""
    found = exchange(world, [plain(FIRST) + plain(FIRST + 1, "bills") + read])
    return [
        one
        for number, sent in sorted(found.items())
        for one in FrameReader().feed(b"".join(sent))
        if number < FIRST
    ]


def new_world(**changed: object) -> SendWorld:
    world = SendWorld(msgspec.structs.replace(SMALL, **changed))
    world.create("orders")
    world.create("bills")
    return world


def test_halves_of_a_read_are_one_batch_answered_as_if_they_were_in_their_queues() -> None:
    world = new_world()
    sizes = counted(world)
    answers = answers_of(world, half(0) + half(1) + half(2, "bills") + half(3))
    assert sizes == [4]
    assert [one.code for one in answers] == [ResponseCode.SUCCESS] * 4
    assert [one.texts()["queueId"] for one in answers] == ["0", "1", "2", "3"]
    assert [one.texts()["queueOffset"] for one in answers] == ["0", "1", "2", "3"]
    assert [one.texts()["transactionId"] for one in answers] == ["U0", "U1", "U2", "U3"]
    stored = world.stored(HALF_TOPIC)
    assert [one.body for one in stored] == [b"body 0", b"body 1", b"body 2", b"body 3"]
    assert [one.sys_flag for one in stored] == [0] * 4
    assert stored[2].properties[properties.REAL_TOPIC] == "bills"
    assert stored[2].properties[properties.REAL_QUEUE_ID] == "2"
    assert stored[2].properties[properties.TRANSACTION_ID] == "U2"


def test_stored_halves_are_counted_by_topic() -> None:
    world = new_world()
    answers_of(world, half(0) + half(1) + half(2, "bills"))
    assert world.open_transactions.count("orders") == 2
    assert world.open_transactions.count("bills") == 1


def test_halves_and_other_sends_keep_their_order() -> None:
    world = new_world()
    sizes = counted(world)
    delayed = half(4, **{properties.DELAY: "3"})
    answers = answers_of(world, plain(0) + half(1) + half(2) + plain(3) + delayed + half(5))
    assert sizes == [1, 2, 1, 1]
    offsets = [int((one.texts()["msgId"] or "")[-16:], 16) for one in answers]
    assert offsets == sorted(offsets)


def test_a_broker_that_takes_no_transactions_refuses_each() -> None:
    world = SendWorld(reject_transaction_message=True)
    world.create("orders")
    world.create("bills")
    sizes = counted(world)
    answers = answers_of(world, half(0) + half(1))
    assert [one.code for one in answers] == [ResponseCode.NO_PERMISSION] * 2
    assert not sizes
    assert not world.stored(HALF_TOPIC)


def test_with_sync_flush_halves_that_are_late_name_their_queues() -> None:
    world = new_world(flush_mode=FlushMode.SYNC)
    world.store.when_durable = (  # type: ignore[method-assign]
        lambda end, notify: notify(False)  # the disk takes too long
    )
    answers = answers_of(world, half(2) + half(3))
    assert [one.code for one in answers] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 2
    assert [one.texts()["queueId"] for one in answers] == ["2", "3"]
    assert world.open_transactions.count("orders") == 2
