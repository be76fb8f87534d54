"""Which sends of a read are taken together, and what becomes of them when the broker is busy."""

import asyncio
import logging
from typing import Any

import pytest

from orbitmq.broker.sending.plain import cutting, lane
from orbitmq.message import properties
from orbitmq.net.settings import NetSettings
from orbitmq.store.disk.disk import Usage
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.headers.send import SendMessageV2
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.sending.plain.exchange import connect, exchange, frame
from tests.broker.sending.plain.test_both_ways import counted

pytestmark = pytest.mark.usefixtures("implementation")


def plain(number: int, **fields: Any) -> bytes:
    given = {properties.UNIQUE_KEY: f"U{number}", properties.TAGS: "paid"}
    made: SendMessageV2 = header("orders", queue_id=number % 4, properties=given, **fields)
    return frame(made, b"%d" % number, number)


def codes(answers: dict[int, list[bytes]]) -> list[int]:
    return [one.code for one in answered(answers)]


def answered(answers: dict[int, list[bytes]]) -> list[Frame]:
    """Return the answers in the order of the requests; each has one."""
    assert all(len(found) == 1 for found in answers.values())
    return [next(FrameReader().feed(found[0])) for _, found in sorted(answers.items())]


def world_with_topic(**settings: Any) -> SendWorld:
    world = SendWorld(settings.pop("store", SMALL), **settings)
    world.create("orders")
    world.send(header("orders"))  # from now on the topic has passed all checks
    return world


def test_a_read_is_stored_in_few_pieces_and_in_order() -> None:
    world = world_with_topic()
    sizes = counted(world)
    answers = exchange(world, [b"".join([plain(number) for number in range(200)])])
    assert codes(answers) == [0] * 200
    assert sum(sizes) == 200
    assert len(sizes) == 4
    bodies = [message.body for message in world.stored("orders", 1)]
    assert bodies == [b"%d" % number for number in range(1, 200, 4)]


def test_the_first_send_to_a_topic_takes_the_careful_way() -> None:
    world = SendWorld()
    world.create("orders")
    sizes = counted(world)
    assert codes(exchange(world, [plain(0) + plain(1) + plain(2)])) == [0, 0, 0]
    assert sizes == [2]


def test_a_frame_in_pieces_is_taken_when_it_is_whole() -> None:
    world = world_with_topic()
    sizes = counted(world)
    data = plain(0) + plain(1)
    reads = [data[at : at + 5] for at in range(0, len(data), 5)]
    assert codes(exchange(world, reads)) == [0, 0]
    assert sizes == [1, 1]


def test_sends_behind_one_that_needs_care_are_taken_again() -> None:
    world = world_with_topic()
    sizes = counted(world)
    odd = frame(header("orders", properties={}), b"odd", 1)
    answers = exchange(world, [plain(0) + odd + plain(2) + plain(3)])
    assert codes(answers) == [0, 0, 0, 0]
    assert sizes == [1, 2]
    offsets = [one.texts()["msgId"] or "" for one in answered(answers)]
    assert offsets == sorted(offsets)  # stored in the order of the requests


def test_sends_beyond_the_capacity_are_refused_one_by_one() -> None:
    world = world_with_topic(send_thread_pool_queue_capacity=3)
    answers = exchange(world, [b"".join([plain(number) for number in range(8)])])
    assert codes(answers) == [0] * 3 + [int(ResponseCode.SYSTEM_BUSY)] * 5


def test_a_full_disk_refuses_all_with_the_reason() -> None:
    world = world_with_topic()
    world.disk.usage = lambda _path: Usage(100, 95)  # type: ignore[method-assign, assignment]
    world.clock.now += 60_000
    world.store.tick()
    answers = exchange(world, [plain(0) + plain(1)])
    assert codes(answers) == [int(ResponseCode.SERVICE_NOT_AVAILABLE)] * 2
    assert "the disk is full" in (answered(answers)[0].remark or "")


def test_a_debug_log_has_every_frame(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with_topic()
    sizes = counted(world)
    with caplog.at_level(logging.DEBUG, "orbitmq.net"):
        assert codes(exchange(world, [plain(0) + plain(1)])) == [0, 0]
    assert not sizes
    assert sum("SEND_MESSAGE_V2" in record.message for record in caplog.records) == 2


def test_a_unique_key_of_any_length_is_answered() -> None:
    world = world_with_topic()
    sizes = counted(world)
    long = header("orders", properties={properties.UNIQUE_KEY: "7" * 5_000})
    answers = exchange(world, [plain(0) + frame(long, b"long", 1) + plain(2)])
    assert sizes == [3]
    assert codes(answers) == [0, 0, 0]
    assert answered(answers)[1].texts()["transactionId"] == "7" * 5_000


def test_sends_beyond_those_being_served_are_refused_and_cut_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_with_topic()
    cut = []

    def counting(data: bytes, at: int, *more: Any) -> int:
        end = cutting.cut_sends(data, at, *more)
        cut.append(end - at)
        return end

    monkeypatch.setattr(lane, "cut_leading", counting)
    sends = [plain(number) for number in range(100)]
    answers = exchange(world, [b"".join(sends)], NetSettings(serving_max=10))
    assert codes(answers) == [0] * 10 + [int(ResponseCode.SYSTEM_BUSY)] * 90
    assert sum(cut) == sum(map(len, sends[:10]))


def test_sends_kept_for_a_slow_reader_are_not_executed_once_the_connection_drains() -> None:
    world = world_with_topic()
    sizes = counted(world)
    odd = frame(header("orders", properties={}), b"odd", 0)

    async def conversation(_clock: VirtualClock) -> bytes:
        connection, transport = connect(world)
        connection.pause_writing()
        connection.data_received(odd + plain(1) + plain(2))
        draining = asyncio.ensure_future(connection.drain())
        await asyncio.sleep(0)
        connection.resume_writing()
        await draining
        await asyncio.sleep(0)
        return bytes(transport.written)

    (answer,) = FrameReader().feed(run_virtual(conversation))
    assert answer.opaque == 0
    assert not sizes
    assert len(world.stored("orders")) == 2


@pytest.mark.parametrize("takes_plain_sends", [True, False])
def test_a_frame_over_the_limit_ends_its_connection(takes_plain_sends: bool) -> None:
    world = world_with_topic()
    world.takes_plain_sends = takes_plain_sends
    given = header("orders", properties={properties.UNIQUE_KEY: "U1"})
    reads = [plain(0), frame(given, bytes(1_000), 1) + plain(2)]
    assert [*exchange(world, reads, NetSettings(frame_bytes_max=1_000))] == [0]
