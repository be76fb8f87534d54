"""Faults between client and broker, by script: attempts, brokers chosen, and total time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import RETRY_CODES
from orbitmq.errors import (
    BrokerBusy,
    ConnectFailed,
    ConnectionClosed,
    NameserversFailed,
    NoRoute,
    ProducerClosed,
    RequestTimeout,
    SendFailed,
    SendIllegal,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnauthorised,
    SendUnreachable,
)
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Outcome
from orbitmq.net.listener import Listener
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from tests.client.post import (
    Script,
    later,
    open_post,
    open_producer,
    refuse,
    reset,
    say_nothing,
    status,
)
from tests.client.scene import BROKER_A, BROKER_B, NAMES, Scene, play, route

MESSAGE = Message("orders", b"paid", tags="paid")
QUEUE = MessageQueue("orders", "broker-a", 1)
GO_AWAY = ResponseCode.GO_AWAY


async def failed(sending: Awaitable[SendReceipt]) -> SendFailed:
    with pytest.raises(SendFailed) as caught:
        await sending
    return caught.value


# Which faults lead to another try, and where


@pytest.mark.parametrize(
    "fault",
    [*(refuse(code) for code in RETRY_CODES if code != GO_AWAY), reset],
    ids=[*(str(code) for code in RETRY_CODES if code != GO_AWAY), "reset"],
)
def test_java_s_codes_and_a_reset_lead_to_the_other_broker(fault: Script) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        post.scripts["a"], post.scripts["b"] = [fault], [fault]
        receipt = await producer.send(MESSAGE)
        # Both fail once: the third try goes back to the first broker.
        assert receipt.status is SendStatus.SEND_OK
        assert len(post.sent) == 3
        assert post.brokers[0] != post.brokers[1]
        assert post.brokers[0] == post.brokers[2]
        assert len({one.properties[properties.UNIQUE_KEY] for one in post.sent}) == 1

    play(story)


@pytest.mark.parametrize("code", [13, 3, 26, 215], ids=str)
def test_other_codes_end_the_send(code: int) -> None:
    async def story(scene: Scene) -> SendFailed:
        post = await open_post(scene, "a")
        post.always["a"] = refuse(code)
        error = await failed((await open_producer(scene)).send(MESSAGE))
        assert len(post.sent) == 1
        return error

    error = play(story)
    assert isinstance(error, SendRefused)
    assert (error.code, error.remark, error.may_be_stored) == (code, "by script", False)
    assert isinstance(error, SendIllegal) == (code == 13)


def test_a_third_refusal_is_the_end() -> None:
    async def story(scene: Scene) -> SendFailed:
        post = await open_post(scene)
        post.always = {"a": refuse(2, "[OVERLOAD]"), "b": refuse(2, "[OVERLOAD]")}
        error = await failed((await open_producer(scene)).send(MESSAGE))
        assert len(post.sent) == 3
        # Java tries again at once; we leave busy brokers a moment, within the time of the call.
        gaps = [b.at_ms - a.at_ms for a, b in zip(post.sent, post.sent[1:], strict=False)]
        assert all(20 <= gap <= 200 for gap in gaps)
        return error

    error = play(story)
    assert isinstance(error, SendRefusedBusy)
    assert (error.code, error.remark) == (2, "[OVERLOAD]")
    assert isinstance(error.__cause__, BrokerBusy)
    assert [attempt.queue.broker_name for attempt in error.attempts] in (
        ["broker-a", "broker-b", "broker-a"],
        ["broker-b", "broker-a", "broker-b"],
    )
    assert "[OVERLOAD]" in str(error)
    assert error.send_id in str(error)


def test_no_permission_has_a_type_of_its_own() -> None:
    async def story(scene: Scene) -> SendFailed:
        post = await open_post(scene, "a")
        post.always["a"] = refuse(ResponseCode.NO_PERMISSION)
        return await failed((await open_producer(scene, retries=0)).send(MESSAGE))

    assert isinstance(play(story), SendUnauthorised)


def test_retry_codes_are_a_setting() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = {"a": refuse(2), "b": refuse(2)}
        producer = await open_producer(scene, retry_codes=(14,))
        await failed(producer.send(MESSAGE))
        assert len(post.sent) == 1

    play(story)


def test_statuses_are_receipts_unless_asked_otherwise() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        for code, told in [(10, "FLUSH_DISK_TIMEOUT"), (12, "FLUSH_SLAVE_TIMEOUT")]:
            post.always = dict.fromkeys("ab", status(post, ResponseCode(code)))
            assert (await producer.send(MESSAGE)).status.value == told
        assert len(post.sent) == 2

    play(story)


def test_another_broker_is_tried_for_a_better_status_if_asked() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, retry_another_broker_when_not_stored=True)
        unsure = status(post, ResponseCode.SLAVE_NOT_AVAILABLE)
        post.scripts = {"a": [unsure], "b": [unsure]}
        assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK
        assert len(set(post.brokers[:2])) == 2
        post.always = {"a": unsure, "b": unsure}
        assert (await producer.send(MESSAGE)).status is SendStatus.SLAVE_NOT_AVAILABLE

    play(story)


# Sends to a chosen queue


def test_a_chosen_queue_is_tried_once() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        for choice in ({"queue": QUEUE}, {"selector": lambda _queues, _message: QUEUE}):
            post.sent.clear()
            post.scripts["a"] = [refuse(2)]
            error = await failed(producer.send(MESSAGE, **choice))
            assert (error.queue, len(post.sent)) == (QUEUE, 1)

    play(story)


def test_a_chosen_queue_is_tried_again_on_request() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, retry_same_queue=True)
        post.scripts["a"] = [refuse(2), reset]
        assert (await producer.send(MESSAGE, queue=QUEUE)).queue == QUEUE
        assert [one.queue for one in post.sent] == [("a", 1)] * 3

    play(story)


# Time


def test_a_silent_broker_takes_all_of_the_time() -> None:
    async def story(scene: Scene) -> tuple[SendFailed, int]:
        post = await open_post(scene)
        post.always = {"a": say_nothing, "b": say_nothing}
        producer = await open_producer(scene)
        await producer.queues("orders")
        began = scene.clock.monotonic_ms()
        error = await failed(producer.send(MESSAGE))
        assert len(post.sent) == 1
        return error, scene.clock.monotonic_ms() - began

    error, took_ms = play(story)
    assert isinstance(error, SendTimeout)
    assert isinstance(error, TimeoutError)
    assert took_ms == error.timeout_ms == 3_000
    assert error.spent.answer_ms == 3_000
    assert error.may_be_stored
    assert isinstance(error.__cause__, RequestTimeout)
    assert "timed out after 3000 ms (3000 ms waiting for the broker)" in str(error)
    assert "a broker may have stored it" in str(error)


def test_one_try_may_be_bounded_so_that_others_follow() -> None:
    async def story(scene: Scene) -> list[int]:
        post = await open_post(scene)
        post.scripts = {"a": [say_nothing], "b": [say_nothing]}
        producer = await open_producer(scene, per_try_timeout_ms=500)
        await producer.queues("orders")
        began = scene.clock.monotonic_ms()
        await producer.send(MESSAGE)
        return [one.at_ms - began for one in post.sent]

    assert play(story) == [0, 500, 1_000]


def test_a_slow_answer_leaves_less_time_for_the_next_try() -> None:
    async def story(scene: Scene) -> tuple[SendFailed, int]:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", later(2.0, refuse(1)))
        producer = await open_producer(scene)
        began = scene.clock.monotonic_ms()
        error = await failed(producer.send(MESSAGE, timeout_ms=3_000))
        return error, scene.clock.monotonic_ms() - began

    error, took_ms = play(story)
    assert isinstance(error, SendTimeout)
    assert took_ms == 3_000
    assert [round(attempt.took_ms, -2) for attempt in error.attempts] == [2_000, 1_000]


def test_the_time_of_a_call_may_be_given() -> None:
    async def story(scene: Scene) -> int:
        post = await open_post(scene, "a")
        post.always["a"] = say_nothing
        producer = await open_producer(scene)
        began = scene.clock.monotonic_ms()
        error = await failed(producer.send(MESSAGE, timeout_ms=200))
        assert isinstance(error, SendTimeout)
        return scene.clock.monotonic_ms() - began

    assert play(story) == 200


def test_what_had_no_time_to_leave_is_not_stored() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, topics=["orders"])
        error = await failed(producer.send(MESSAGE, timeout_ms=0))
        assert isinstance(error, SendTimeout)
        assert not error.may_be_stored
        assert post.sent == []

    play(story)


def test_what_meets_a_client_that_is_closed_is_not_stored() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = {"a": say_nothing, "b": say_nothing}
        producer = await open_producer(scene, stop_timeout_ms=100)
        first, second = (
            asyncio.create_task(producer.send(MESSAGE, sharding_key="o-42")) for _ in range(2)
        )
        await asyncio.sleep(0.1)
        await producer.close()
        assert (await failed(first)).may_be_stored
        with pytest.raises(ProducerClosed, match="before its turn came"):
            await second
        assert len(post.sent) == 1

    play(story)


def test_an_answer_that_comes_too_late_settles_nothing() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.scripts["a"] = [later(0.3, post.store)]
        producer = await open_producer(scene)
        await failed(producer.send(MESSAGE, timeout_ms=200))
        await asyncio.sleep(1)
        assert (await producer.send(MESSAGE)).queue_offset >= 0

    play(story)


# Brokers and nameservers that aren't there


def test_a_broker_that_is_gone_is_avoided() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        scene.routes["orders"] = route("a", "b", queues=2)
        producer = await open_producer(scene)
        receipts = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(8)))
        assert {receipt.queue.broker_name for receipt in receipts} == {"broker-a"}
        assert len(post.sent) == 8

    play(story)


def test_unreachable_brokers_are_tried_until_the_time_ends() -> None:
    async def story(scene: Scene) -> SendFailed:
        scene.routes["orders"] = route("a", "b")
        await scene.nameserver()
        return await failed((await open_producer(scene)).send(MESSAGE))

    error = play(story)
    assert isinstance(error, SendUnreachable)
    assert (error.code, error.may_be_stored) == (10_001, False)
    assert len(error.attempts) > 5
    assert all(isinstance(attempt.cause, ConnectFailed) for attempt in error.attempts)


def test_a_connection_that_breaks_may_have_stored_it() -> None:
    async def story(scene: Scene) -> SendFailed:
        post = await open_post(scene, "a")
        post.always["a"] = reset
        return await failed((await open_producer(scene)).send(MESSAGE))

    error = play(story)
    assert isinstance(error, SendUnreachable)
    assert isinstance(error.__cause__, ConnectionClosed)
    assert error.may_be_stored


def test_a_dial_that_nobody_answers_ends_with_the_call() -> None:
    async def story(scene: Scene) -> SendFailed:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        await producer.queues("orders")
        scene.network.carries = False
        error = await failed(producer.send(MESSAGE, timeout_ms=250))
        scene.network.carries = True
        return error

    error = play(story)
    assert isinstance(error, SendTimeout)
    assert error.spent.connection_ms + error.spent.pause_ms == 250
    assert not error.may_be_stored


def test_an_address_that_answers_nothing_leaves_time_for_another_broker() -> None:
    async def story(scene: Scene) -> list[int]:
        post = await open_post(scene, "a")
        scene.routes["orders"] = route("a", "b", queues=1)
        dead = scene.network.host("b")
        await scene.open.enter_async_context(Listener(BROKER_B, post.serve(BROKER_B), network=dead))
        dead.carries = False
        producer = await open_producer(scene)
        await producer.queues("orders")
        took_ms = []
        for _ in range(2):  # one of them is b's turn
            began = scene.clock.monotonic_ms()
            assert (await producer.send(MESSAGE)).queue.broker_name == "broker-a"
            took_ms.append(scene.clock.monotonic_ms() - began)
        return took_ms

    assert sorted(play(story)) == [0, 1_000]


def test_a_dial_that_is_slow_serves_a_later_try() -> None:
    async def story(scene: Scene) -> int:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        scene.network.delay_s = 0.7  # a dial takes two of them, and a request as many
        await producer.queues("orders")
        began = scene.clock.monotonic_ms()
        await producer.send(MESSAGE)
        return scene.clock.monotonic_ms() - began

    assert play(story) == 2_800


# A broker that stops, and says so

go_away = refuse(GO_AWAY, "please go away")


@pytest.mark.parametrize("way", ["plain", "queue"])
def test_a_broker_that_sends_us_away_is_dialled_anew_and_asked_again(way: str) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        connections: list[Connection] = []

        def noting(then: Script) -> Script:
            def script(connection: Connection, request: Frame) -> Outcome:
                connections.append(connection)
                return then(connection, request)

            return script

        post.scripts["a"] = [noting(post.store), noting(go_away), noting(post.store)]
        producer = await open_producer(scene, retries=0)
        await producer.send(MESSAGE)
        receipt = await producer.send(MESSAGE, queue=QUEUE if way == "queue" else None)
        assert receipt.status is SendStatus.SEND_OK
        first, again = post.sent[1:]
        assert (again.queue, again.properties) == (first.queue, first.properties)
        assert connections[0] is connections[1] is not connections[2]

    play(story)


@pytest.mark.parametrize("way", ["plain", "queue"])
def test_being_sent_away_twice_is_a_failed_try(way: str) -> None:
    async def story(scene: Scene) -> SendFailed:
        post = await open_post(scene, "a")
        producer = await open_producer(scene, retries=0)
        await producer.send(MESSAGE)
        post.always["a"] = go_away
        error = await failed(producer.send(MESSAGE, queue=QUEUE if way == "queue" else None))
        assert len(post.sent) == 1 + 2
        return error

    error = play(story)
    assert isinstance(error, SendRefused)
    assert (error.code, len(error.attempts), error.may_be_stored) == (1500, 1, False)


def test_after_being_sent_away_twice_the_other_broker_is_asked() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        post.always["a"] = go_away
        for _ in range(4):
            assert (await producer.send(MESSAGE)).queue.broker_name == "broker-b"
        assert post.brokers.count("a") in (2, 4)

    play(story)


def test_a_nameserver_that_is_silent_ends_with_the_call() -> None:
    async def story(scene: Scene) -> SendFailed:
        await scene.listen(NAMES[0], lambda _connection, _request: None)
        return await failed((await open_producer(scene)).send(MESSAGE, timeout_ms=400))

    error = play(story)
    assert isinstance(error, SendTimeout)
    assert error.spent.route_ms == 400
    assert error.attempts == ()
    assert "nameservers: names-1:9876: no answer yet. Check that they run" in str(error)


async def begin_a_transaction(producer: Producer) -> object:
    async with producer.transaction(MESSAGE):
        return None


WAYS: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "send": lambda producer: producer.send(MESSAGE),
    "sharding key": lambda producer: producer.send(MESSAGE, sharding_key="o-42"),
    "send_many": lambda producer: producer.send_many([MESSAGE] * 3),
    "send_many to a queue": lambda producer: producer.send_many([MESSAGE] * 3, queue=QUEUE),
    "oneway": lambda producer: producer.send_oneway(MESSAGE),
    "request": lambda producer: producer.request(MESSAGE),
    "transaction": begin_a_transaction,
    "send_in_transaction": lambda producer: producer.send_in_transaction(MESSAGE, lambda _: None),  # type: ignore[arg-type,return-value]
}


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_topic_and_missing_nameservers_are_failed_sends_too(way: str) -> None:
    async def story(scene: Scene) -> None:
        nameserver = await scene.nameserver()
        producer = await open_producer(scene)
        with pytest.raises(NoRoute, match="orders is missing") as missing:
            await WAYS[way](producer)
        await nameserver.close()
        with pytest.raises(NameserversFailed) as silent:
            await WAYS[way](producer)
        for error in (missing.value, silent.value):
            assert isinstance(error, SendFailed)
            assert (error.topic, error.attempts) == ("orders", ())
            assert not error.may_be_stored
            assert len(error.send_id) == (0 if way in ("request", "send_many to a queue") else 32)
        assert missing.value.is_missing

    play(story)


# What is told on the way


def test_each_line_of_the_log_names_the_send(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> SendReceipt:
        post = await open_post(scene)
        post.scripts = {"a": [refuse(2)], "b": [refuse(2)]}
        return await (await open_producer(scene)).send(MESSAGE)

    with caplog.at_level(logging.INFO, logger="orbitmq.client"):
        receipt = play(story)
    lines = [line for line in caplog.messages if "attempt" in line]
    assert len(lines) == 2
    assert all(receipt.message_id in line and "paid" not in line for line in lines)


def test_another_try_takes_a_queue_that_the_other_broker_has() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        wide, narrow = route("a", queues=8), route("b", queues=1)
        scene.routes["orders"] = replace(
            wide,
            broker_datas=wide.broker_datas + narrow.broker_datas,
            queue_datas=wide.queue_datas + narrow.queue_datas,
        )
        post.always["a"] = refuse(ResponseCode.SYSTEM_ERROR)
        producer = await open_producer(scene)
        for _ in range(9):
            assert (await producer.send(MESSAGE)).queue.broker_name == "broker-b"
        tried = {one.queue for one in post.sent if one.broker == "a"}
        assert len(tried) > 1, "queues that broker b doesn't have"
        assert {one.queue for one in post.sent if one.broker == "b"} == {("b", 0)}

    play(story)


def test_a_failure_has_the_route_looked_up_again() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        await producer.send(MESSAGE)
        await asyncio.sleep(5)
        before = len(scene.asked)
        for name in "ab":
            post.scripts[name] = [refuse(ResponseCode.TOPIC_NOT_EXIST)]
        await producer.send(MESSAGE)
        await asyncio.sleep(0.1)
        assert scene.topics_asked()[before:] == ["orders"]

    play(story)


def test_after_a_broker_fell_silent_the_next_send_finds_the_one_that_took_over() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        await producer.send(MESSAGE)
        post.always["a"] = say_nothing
        await scene.listen(BROKER_B, post.serve(BROKER_B))
        move_broker_a(scene, BROKER_B)
        await asyncio.sleep(5)
        assert isinstance(await failed(producer.send(MESSAGE)), SendTimeout)
        await asyncio.sleep(0.1)
        assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK
        assert post.brokers == ["a", "a", "b"]

    play(story)


def test_after_a_oneway_send_met_no_broker_the_next_finds_the_one_that_took_over() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        move_broker_a(scene, BROKER_B)  # where nothing listens
        producer = await open_producer(scene)
        with pytest.raises(SendUnreachable):
            await producer.send_oneway(MESSAGE)
        move_broker_a(scene, BROKER_A)
        await asyncio.sleep(5)
        with pytest.raises(SendUnreachable):
            await producer.send_oneway(MESSAGE)
        await asyncio.sleep(0.1)
        await producer.send_oneway(MESSAGE)
        await asyncio.sleep(0.1)
        assert post.brokers == ["a"]

    play(story)


def move_broker_a(scene: Scene, address: Address) -> None:
    known = route("a", queues=1)
    moved = replace(known.broker_datas[0], broker_addrs={0: str(address)})
    scene.routes["orders"] = replace(known, broker_datas=(moved,))


def test_a_cancelled_plain_send_gives_its_permit_back() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        await producer.send(MESSAGE)
        post.always["a"] = say_nothing
        assert producer._sender is not None
        with patch.object(producer._sender, "send") as other_way:
            for _ in range(3):
                sending = asyncio.create_task(producer.send(MESSAGE))
                await asyncio.sleep(0.1)
                assert producer._sender.permits.in_flight == 1
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                assert producer._sender.permits.in_flight == 0
            other_way.assert_not_called()
        assert 'error="CancelledError"} 3' in producer.statistics.prometheus()

    play(story)


def test_a_cancelled_send_makes_no_further_try() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = {"a": say_nothing, "b": say_nothing}
        producer = await open_producer(scene, per_try_timeout_ms=500)
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.6)
        assert len(post.sent) == 2
        sending.cancel()
        await asyncio.sleep(5)
        assert (sending.cancelled(), len(post.sent)) == (True, 2)
        assert producer._sender is not None
        assert producer._sender.permits.in_flight == 0

    play(story)
