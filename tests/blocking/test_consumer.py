"""The consumer without an event loop."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq import Message, StoredMessage, embedded
from orbitmq.blocking import Consumer, Producer
from orbitmq.client.life import ClientState
from orbitmq.errors import InvalidInput, NotRunning
from tests.interop.waiting import until


@pytest.fixture(scope="module")
def nameserver() -> Iterator[str]:
    with embedded.start() as cluster:
        yield cluster.nameserver


def consumer_of(nameserver: str, topic: str, **options: Any) -> Consumer:
    return Consumer(
        f"readers-of-{topic}",
        nameserver=nameserver,
        subscribe={topic: "*"},
        consume_from="first",
        **options,
    )


def send(nameserver: str, topic: str, *bodies: str) -> None:
    with Producer("shop", nameserver=nameserver) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode(), sharding_key="one"))


def test_a_function_gets_messages_on_threads(nameserver: str) -> None:
    send(nameserver, "handled", "a", "b")
    seen: list[tuple[str, str]] = []
    consumer = consumer_of(nameserver, "handled")

    @consumer.on_message
    def take(message: StoredMessage) -> None:
        seen.append((message.body.decode(), threading.current_thread().name))

    with consumer:
        until(lambda: len(seen) == 2, what="both are handled")
        assert consumer.client_id
        assert consumer.queues
        consumer.pause()
        consumer.resume()
    assert sorted(body for body, _ in seen) == ["a", "b"]
    assert threading.current_thread().name not in {name for _, name in seen}
    assert "closed" in repr(consumer)


def test_iteration_acknowledges_with_the_next_step(nameserver: str) -> None:
    send(nameserver, "iterated", "a", "b", "c")
    taken: list[str] = []
    with consumer_of(nameserver, "iterated") as consumer:
        for message in consumer:
            taken.append(message.body.decode())
            if len(taken) == 2:
                break
    with consumer_of(nameserver, "iterated") as consumer:
        for message in consumer:
            taken.append(message.body.decode())
            if len(taken) == 4:
                break
    assert taken == ["a", "b", "b", "c"]


def test_wait_returns_when_another_thread_closes_it(nameserver: str) -> None:
    consumer = consumer_of(nameserver, "waited")
    consumer.on_message(print)
    with consumer:
        waiting = threading.Thread(target=consumer.wait)
        waiting.start()
        consumer.close()
        waiting.join(30)
        assert not waiting.is_alive()
    consumer.wait()  # it is closed already


def test_a_handler_closes_its_consumer_and_its_message_is_consumed(nameserver: str) -> None:
    send(nameserver, "closed", "a", "b")
    seen: list[tuple[str, ClientState]] = []

    def reader() -> Consumer:
        consumer = consumer_of(nameserver, "closed", concurrency=1)

        @consumer.on_message
        def close(message: StoredMessage) -> None:
            consumer.close()
            seen.append((message.body.decode(), consumer.state))

        return consumer

    for count in (1, 2):
        with reader() as consumer:
            consumer.wait()
        assert len(seen) == count
    assert [body for body, _ in seen] == ["a", "b"]
    assert ClientState.CLOSED not in {state for _, state in seen}  # it was not waited for


def test_wrong_uses_say_what_is_wrong(nameserver: str) -> None:
    consumer = consumer_of(nameserver, "wrong")
    with pytest.raises(NotRunning, match="use 'with' or start"):
        next(iter(consumer))
    with pytest.raises(NotRunning):
        consumer.wait()
    consumer.on_message(print)
    with consumer, pytest.raises(InvalidInput, match="has a handler"):
        next(iter(consumer))
