"""Permits, turns, and sends that start on the spot."""

import asyncio
from unittest.mock import patch

import pytest

from orbitmq.client.producer.health.health import Standing
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.sender import Sender
from orbitmq.errors import (
    BackPressure,
    MessageTooLarge,
    NoRoute,
    ProducerClosed,
    SendRefused,
    SendTimeout,
    TooManyRequests,
)
from orbitmq.message.model import Message, SendReceipt
from orbitmq.wire.codes import ResponseCode
from tests.client.post import later, open_post, open_producer, refuse, say_nothing
from tests.client.scene import Scene, play, route

MESSAGE = Message("orders", b"paid")


def sender_of(producer: Producer) -> Sender:
    assert producer._sender is not None
    return producer._sender


# Back-pressure


def test_one_send_more_than_allowed_waits_for_its_permit() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", later(0.5, post.store))
        producer = await open_producer(scene, in_flight_max=10)
        await asyncio.gather(*(producer.send(MESSAGE) for _ in range(25)))
        first, last = post.sent[0].at_ms, post.sent[-1].at_ms
        assert last - first == 1_000
        assert sender_of(producer).permits.in_flight == 0

    play(story)


def test_bytes_are_bounded_too() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", later(0.5, post.store))
        producer = await open_producer(
            scene, in_flight_bytes_max=1024 * 1024, compress_over_bytes=10_000_000
        )
        half = Message("orders", bytes(512 * 1024))
        await asyncio.gather(*(producer.send(half) for _ in range(4)))
        assert post.sent[-1].at_ms - post.sent[0].at_ms == 500

    play(story)


def test_waiting_for_a_permit_counts_against_the_timeout() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = say_nothing
        producer = await open_producer(scene, in_flight_max=10)
        holding = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(10)]
        await asyncio.sleep(0.1)
        with pytest.raises(BackPressure, match="raise in_flight_max") as caught:
            await producer.send(MESSAGE, timeout_ms=300)
        error = caught.value
        assert (error.spent.permit_ms, error.timeout_ms) == (300, 300)
        assert (error.attempts, error.may_be_stored) == ((), False)
        assert len(post.sent) == 10
        outcomes = await asyncio.gather(*holding, return_exceptions=True)
        assert all(type(outcome) is SendTimeout for outcome in outcomes)
        assert sender_of(producer).permits.in_flight == 0

    play(story)


def test_those_who_wait_for_a_permit_are_told_of_the_end() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = say_nothing
        producer = await open_producer(scene, in_flight_max=10, stop_timeout_ms=100)
        sends = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(11)]
        await asyncio.sleep(0.1)
        await producer.close()
        with pytest.raises(ProducerClosed, match="before its turn came"):
            await sends[10]
        await asyncio.gather(*sends, return_exceptions=True)

    play(story)


def test_those_who_wait_for_the_turn_of_a_key_are_sent_before_the_end() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = later(0.1, post.store)
        producer = await open_producer(scene)
        keyed = MESSAGE.replace(sharding_key="o-42")
        sends = [asyncio.create_task(producer.send(keyed)) for _ in range(5)]
        await asyncio.sleep(0)
        await producer.close()
        assert all(one.done() for one in sends)
        assert [(await one).queue_offset for one in sends] == [0, 1, 2, 3, 4]

    play(story)


def test_as_many_as_may_wait_for_the_turn_of_a_key_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.client.producer.sending.sender.WAITING_MAX", 3)

    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = later(0.1, post.store)
        producer = await open_producer(scene)
        keyed = MESSAGE.replace(sharding_key="o-42")
        sends = [asyncio.create_task(producer.send(keyed)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BackPressure, match="the limit on waiting sends is reached"):
            await producer.send(keyed)
        assert [(await one).queue_offset for one in sends] == [0, 1, 2, 3]

    play(story)


def test_errors_before_an_attempt_name_the_send() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        with pytest.raises(NoRoute) as caught:
            await producer.send(Message("bills", b"x", message_id="0A01"))
        assert caught.value.send_id == "0A01"
        assert "send 0A01 to bills failed: topic bills is missing" in str(caught.value)
        assert caught.value.code == 10005
        with pytest.raises(MessageTooLarge) as too_large:
            await producer.send(Message("orders", bytes(5 * 1024 * 1024)))
        assert too_large.value.code == ResponseCode.MESSAGE_ILLEGAL

    play(story)


# A start on the spot


def test_a_plain_send_over_a_known_route_is_started_on_the_spot() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        sender = sender_of(producer)
        first = sender.begin(MESSAGE)
        assert first.answer is None  # no route
        await sender.finish(first)
        second = sender.begin(MESSAGE)
        assert second.answer is not None
        assert sender.permits.in_flight == 1
        assert (await sender.finish(second)).queue_offset == 1
        assert sender.permits.in_flight == 0
        for careful in (
            Message("orders", bytes(4_096)),
            Message("orders", b"x", sharding_key="k"),
            Message("bills", b"x"),
        ):
            assert sender.begin(careful).answer is None

    play(story)


def test_a_turn_that_can_t_be_taken_on_the_spot_is_not_lost() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, queues=1)
        producer = await open_producer(scene)
        await producer.queues("orders")
        sender = sender_of(producer)
        send = sender.begin(MESSAGE)
        assert send.queue_target is not None
        assert send.answer is None  # nothing is connected yet
        turn = send.queue_target.queue
        assert (await sender.finish(send)).queue == turn
        receipts = [await producer.send(MESSAGE) for _ in range(4)]
        assert len({receipt.queue.broker_name for receipt in receipts[:2]}) == 2
        assert receipts[0].queue == receipts[2].queue

    play(story)


@pytest.mark.parametrize("way", ["on the spot", "with options"])
def test_a_cancelled_send_informs_broker_health(way: str) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        post.scripts["a"] = [post.store, say_nothing]
        producer = await open_producer(scene, fault_tolerance="java5")
        await producer.send(MESSAGE)
        timeout_ms = 3_000 if way == "with options" else None
        sending = asyncio.create_task(producer.send(MESSAGE, timeout_ms=timeout_ms))
        await asyncio.sleep(0.6)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        # Java's table: 600 ms without an answer bar a broker for two seconds.
        health, now_ms = sender_of(producer).health, scene.clock.monotonic_ms()
        assert health.standing("broker-a", now_ms) is Standing.BARRED

    play(story)


def test_a_send_that_is_cancelled_before_an_attempt_says_nothing_of_a_broker() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        post.scripts["a"] = [post.store, *[later(0.7, post.store)] * 10]
        producer = await open_producer(scene, fault_tolerance="java5", in_flight_max=10)
        await producer.send(MESSAGE)
        sends = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(11)]
        await asyncio.sleep(0.1)
        sends[10].cancel()  # it waits for a permit
        await asyncio.sleep(0)
        health, now_ms = sender_of(producer).health, scene.clock.monotonic_ms()
        assert health.standing("broker-a", now_ms) is Standing.GOOD
        await asyncio.gather(*sends, return_exceptions=True)

    play(story)


def test_a_request_that_can_t_be_written_is_a_failed_attempt() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        await producer.send(MESSAGE)
        sender = sender_of(producer)
        topic_target = sender.targets.ready("orders")
        assert topic_target is not None
        connection = topic_target.of(topic_target.queues[0]).connection
        assert connection is not None
        fault = TooManyRequests("as many as allowed wait")
        with patch.object(connection, "start_request", side_effect=fault):
            send = sender.begin(MESSAGE)
        assert (await sender.finish(send)).queue_offset == 1
        assert send.plan is not None
        assert [attempt.cause for attempt in send.plan.attempts] == [fault]
        assert len(post.sent) == 2

    play(story)


def test_a_plain_send_that_fails_goes_on_with_its_second_try() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene, topics=["orders"])
        for name in "ab":
            post.scripts[name] = [refuse(2)]
        receipt = await producer.send(MESSAGE)
        ids = [one.properties["UNIQ_KEY"] for one in post.sent]
        assert ids == [receipt.message_id] * 3
        post.always = dict.fromkeys("ab", refuse(13))
        with pytest.raises(SendRefused) as caught:
            await producer.send(MESSAGE)
        assert len(caught.value.attempts) == 1
        assert (producer.statistics.sent, producer.statistics.failed) == (1, 1)

    play(story)


def test_waiting_for_a_turn_counts_against_the_timeout() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.scripts["a"] = [later(1.0, post.store)]
        producer = await open_producer(scene)
        first = asyncio.create_task(producer.send(MESSAGE, sharding_key="k"))
        await asyncio.sleep(0.1)
        with pytest.raises(SendTimeout) as caught:
            await producer.send(MESSAGE, sharding_key="k", timeout_ms=200)
        assert (caught.value.spent.permit_ms, caught.value.may_be_stored) == (200, False)
        assert len(post.sent) == 1
        await first

    play(story)


def test_a_route_that_changes_is_followed_at_once() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        scene.routes["orders"] = route("a", queues=1)
        producer = await open_producer(scene)
        assert (await producer.send(MESSAGE)).queue.broker_name == "broker-a"
        scene.routes["orders"] = route("b", queues=1)
        await asyncio.sleep(31)
        assert (await producer.send(MESSAGE)).queue.broker_name == "broker-b"

    play(story)


@pytest.mark.parametrize("fault_tolerance", ["off", "java5", "java4", "adaptive"])
def test_health_learns_from_sends(fault_tolerance: str) -> None:
    async def story(scene: Scene) -> int:
        post = await open_post(scene)
        post.always["a"] = refuse(14)
        producer = await open_producer(scene, fault_tolerance=fault_tolerance)
        for _ in range(20):
            await producer.send(MESSAGE)
            await asyncio.sleep(0.01)
        return post.brokers.count("a")

    to_the_bad_one = play(story)
    assert (to_the_bad_one > 5) == (fault_tolerance == "off")


# For waiters that are no tasks


def test_a_waiter_gets_the_receipt_or_the_error() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        post.scripts["a"] = [post.store, refuse(2), post.store, refuse(13)]
        producer = await open_producer(scene)
        sender, loop = sender_of(producer), asyncio.get_running_loop()

        async def sent(message: Message) -> SendReceipt:
            waiter: asyncio.Future[SendReceipt] = loop.create_future()
            sender.begin_for(message, waiter)
            return await waiter

        assert (await sent(MESSAGE)).queue_offset == 0  # the route is looked up
        assert (await sent(MESSAGE)).queue_offset == 1  # after a second attempt
        with pytest.raises(SendRefused):
            await sent(MESSAGE)
        with pytest.raises(MessageTooLarge):
            await sent(Message("orders", bytes(5 * 1024 * 1024)))
        assert (producer.statistics.sent, producer.statistics.failed) == (2, 1)
        assert sender.permits.in_flight == 0

    play(story)


@pytest.mark.parametrize("answers", [False, True], ids=["no answer", "a refusal"])
def test_the_send_of_a_waiter_can_be_cancelled_at_any_stage(answers: bool) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        sender, loop = sender_of(producer), asyncio.get_running_loop()
        for round_of in range(2):  # the first looks up the route, as a task; the second is plain
            post.always = {"a": later(0.1, refuse(2)) if answers else say_nothing}
            waiter: asyncio.Future[SendReceipt] = loop.create_future()
            sender.begin_for(MESSAGE, waiter)
            await asyncio.sleep(0.15)
            assert sender.permits.in_flight == 1
            waiter.cancel()
            sender.cancel_for(waiter)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert sender.permits.in_flight == 0
            assert producer.statistics.failed == round_of + 1
            sender.cancel_for(waiter)
        sent = len(post.sent)
        await asyncio.sleep(10)
        assert len(post.sent) == sent, "no further attempt"
        post.always.clear()
        assert (await producer.send(MESSAGE)).queue_offset == 0

    play(story)


@pytest.mark.parametrize("stage", ["not plain", "refused"])
def test_the_send_of_a_waiter_can_be_cancelled_before_its_task_runs(stage: str) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        producer = await open_producer(scene)
        await producer.send(MESSAGE)
        sender, loop = sender_of(producer), asyncio.get_running_loop()
        post.always["a"] = refuse(2)
        waiter: asyncio.Future[SendReceipt] = loop.create_future()
        message = MESSAGE.replace(wait_stored=stage == "refused")
        sender.begin_for(message, waiter)
        for _ in range(100):
            if isinstance(sender._of_waiters[waiter], asyncio.Task):
                break
            await asyncio.sleep(0)
        sender.cancel_for(waiter)
        await asyncio.wait([waiter])
        assert isinstance(waiter.exception(), asyncio.CancelledError)
        assert sender.permits.in_flight == 0
        assert producer.statistics.failed == 1
        assert not sender._of_waiters

    play(story)
