"""Arguments that can't be used, as the callers of both faces meet them."""

import enum
from collections.abc import Callable
from operator import index

import pytest

from orbitmq.blocking import Producer as BlockingProducer
from orbitmq.client.arguments import (
    check_listener,
    check_methods,
    check_queue,
    check_queue_topic,
    check_queues,
    check_selector,
    check_timeout_ms,
    listed,
)
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.errors import InvalidInput, SendTimeout
from orbitmq.message.model import Message, MessageQueue
from tests.client.post import open_post, open_producer, say_nothing
from tests.client.scene import Scene, play

MESSAGE = Message("orders", b"paid")
QUEUE = MessageQueue("orders", "broker-a", 0)


def refused(check: Callable[..., object], *given: object, field: str) -> str:
    """Return what is told of an argument that can't be used."""
    with pytest.raises(InvalidInput) as raised:
        check(*given)
    assert raised.value.field == field
    return str(raised.value)


@pytest.mark.parametrize("given", ["3", 1.5, float("nan"), True, 2**31, [3]])
def test_a_time_is_a_whole_number_that_can_travel(given: object) -> None:
    told = refused(check_timeout_ms, given, field="timeout_ms")
    assert "it must be a whole number of milliseconds up to 2147483647, or left out" in told


def test_a_timeout_with_too_many_digits_to_print_is_refused_too() -> None:
    assert "a number of 16610 bits" in refused(check_timeout_ms, 10**5_000, field="timeout_ms")


class Number:
    """A whole number of another package."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


class Times(enum.IntEnum):
    SHORT = 3_000


def test_a_time_may_be_of_another_type_of_whole_numbers() -> None:
    check_timeout_ms(Number(3_000))
    check_timeout_ms(Times.SHORT)
    assert "of type Number" in refused(check_timeout_ms, Number(2**31), field="timeout_ms")
    assert refused(check_timeout_ms, 3_000.0, field="timeout_ms").endswith("int(…) around it")
    assert refused(check_timeout_ms, float("inf"), field="timeout_ms").endswith("or left out")


@pytest.mark.parametrize("given", [Number(300), Times.SHORT])
def test_a_time_of_another_type_is_kept_to(given: int) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        post.always = dict.fromkeys("ab", say_nothing)
        producer = await open_producer(scene)
        with pytest.raises(SendTimeout) as raised:
            await producer.send(MESSAGE, timeout_ms=given)
        assert type(raised.value.timeout_ms) is int
        assert raised.value.timeout_ms == index(given)
        await producer.send_oneway(MESSAGE, timeout_ms=given)
        post.always = {}
        many = await producer.send_many([MESSAGE] * 3, timeout_ms=given, frame_bytes=given)
        assert len(many) == 3

    play(story)


@pytest.mark.parametrize("given", [None, -1, 0, 1, 2**31 - 1])
def test_a_timeout_of_zero_or_less_is_accepted(given: int | None) -> None:
    check_timeout_ms(given)


def test_a_selector_is_a_function() -> None:
    check_selector(lambda queues, _message: queues[0])
    told = refused(check_selector, "random", field="selector")
    assert told.startswith("selector is 'random'; it must be a function")
    assert "by_hash, by_random, by_machine_room or orbitmq.ConsistentHash" in told
    assert told.endswith("to choose by key, give sharding_key='random'")
    assert "sharding_key" not in refused(check_selector, 3, field="selector")


def test_a_queue_is_one_of_the_topic() -> None:
    check_queue(QUEUE)
    check_queue_topic(QUEUE, "orders")
    assert refused(check_queue, 3, field="queue").startswith(
        "queue is 3; it must be a MessageQueue"
    )
    told = refused(check_queue_topic, QUEUE, "bills", field="queue")
    assert told == "queue belongs to topic orders, and the message to bills"


def test_queues_say_where_each_message_goes() -> None:
    check_queues([QUEUE, None], 2)
    assert "3; it must be a list" in refused(check_queues, 3, 1, field="queues")
    assert "'ab'; it must be a list" in refused(check_queues, "ab", 2, field="queues")
    assert "queues is 3; it must be a MessageQueue" in refused(check_queues, [3], 1, field="queues")
    assert "queues has 1 entries for 2 messages" in refused(check_queues, [None], 2, field="queues")


def test_messages_are_several() -> None:
    assert listed(iter([MESSAGE])) == [MESSAGE]
    told = refused(listed, MESSAGE, field="messages")
    assert told == (
        "messages is of type Message; it must be a list of messages; send() takes a single message"
    )
    assert "messages is None" in refused(listed, None, field="messages")


def test_an_object_has_the_methods_that_it_will_be_asked_for() -> None:
    class Half:
        def check(self) -> None: ...

    told = refused(check_methods, Half(), "hook", ("check", "after"), "Whole", field="hook")
    assert told == (
        "hook is of type Half, without after; it must be an object with the methods check, "
        "after: see Whole"
    )
    told = refused(check_methods, Half, "hook", ("check",), "Whole", field="hook")
    assert told == "hook is the class Half; give an instance of it"


def test_a_listener_is_a_function_or_does_both() -> None:
    class Listener:
        def execute(self, _message: Message) -> TransactionState:
            return TransactionState.COMMIT

        check = execute

    check_listener(None)
    check_listener(Listener())
    check_listener(lambda _message: TransactionState.COMMIT)
    assert "without execute, check" in refused(
        check_listener, object(), field="transaction_listener"
    )
    assert "give an instance" in refused(check_listener, Listener, field="transaction_listener")


# As callers meet them


CALLS = (
    ("send", {"selector": "random"}, "selector"),
    ("send", {"queue": 3}, "queue"),
    ("send", {"queue": MessageQueue("bills", "broker-a", 0)}, "queue"),
    ("send", {"timeout_ms": "3"}, "timeout_ms"),
    ("send", {"timeout_ms": float("nan")}, "timeout_ms"),
    ("send_oneway", {"selector": "random"}, "selector"),
    ("send_oneway", {"timeout_ms": "3"}, "timeout_ms"),
    ("send_many", {"selector": "random"}, "selector"),
    ("send_many", {"queues": 3}, "queues"),
    ("send_many", {"queues": [MessageQueue("bills", "broker-a", 0)]}, "queue"),
    ("send_many", {"timeout_ms": "3"}, "timeout_ms"),
    ("request", {"selector": "random"}, "selector"),
    ("request", {"timeout_ms": "3"}, "timeout_ms"),
    ("send_in_transaction", {"timeout_ms": "3"}, "timeout_ms"),
    ("transaction", {"timeout_ms": "3"}, "timeout_ms"),
)


@pytest.mark.parametrize(("method", "options", "field"), CALLS)
def test_a_call_is_refused_before_anything_is_sent(
    method: str, options: dict[str, object], field: str
) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        producer = await open_producer(scene)
        given = [MESSAGE] if method == "send_many" else MESSAGE
        with pytest.raises(InvalidInput) as raised:
            await getattr(producer, method)(given, **options)
        assert raised.value.field == field
        assert post.sent == []
        assert scene.asked == [], "no route is needed to tell"

    play(story)


def test_many_messages_are_a_list() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        with pytest.raises(InvalidInput, match="send\\(\\) takes a single message"):
            await producer.send_many(MESSAGE)  # type: ignore[arg-type]

    play(story)


def test_times_of_other_calls_are_checked_too() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene)
        with pytest.raises(InvalidInput, match="timeout_ms is '3'"):
            await producer.recall("orders", "handle", timeout_ms="3")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="timeout_ms is '3'"):
            await producer.reply(MESSAGE, b"yes", timeout_ms="3")  # type: ignore[arg-type]

    play(story)


@pytest.mark.parametrize("face", [Producer, BlockingProducer])
def test_a_listener_that_is_none_is_refused_when_the_producer_is_made(
    face: Callable[..., object],
) -> None:
    with pytest.raises(InvalidInput, match="transaction_listener is of type object"):
        face("billing", transaction_listener=object())


def test_an_invalid_request_or_recall_handle_is_refused() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene)
        producer = await open_producer(scene, namespace="eu")
        with pytest.raises(InvalidInput, match="request is a NoneType"):
            await producer.reply(None, b"yes")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="handle is None; it must be the recall_handle"):
            await producer.recall("orders", None)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="topic must be a str, not int"):
            await producer.recall(5, "handle")  # type: ignore[arg-type]
        assert scene.asked == []

    play(story)
