"""Java's producers and consumers, as a test holds them; each ends with its ``with`` statement."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.interop.java import Java
from tests.interop.operations import (
    CHECKED,
    CLIENT_ID,
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    END_LOAD,
    LOADED,
    OPEN_CONSUMER,
    OPEN_PRODUCER,
    OPEN_TRANSACTION_PRODUCER,
    PULL,
    RECALL,
    RECEIVED,
    SEND,
    SEND_IN_TRANSACTION,
    START_LOAD,
    ConsumerOptions,
    Load,
    Loaded,
    Outgoing,
    ProducerOptions,
    Pull,
    Pulled,
    Recalling,
    Received,
    Sending,
    Sent,
    Way,
)
from tests.interop.waiting import until


@dataclass(frozen=True)
class Producer:
    """A producer of Java."""

    java: Java
    number: int

    def send(
        self,
        *messages: Outgoing,
        way: Way = "sync",
        broker: str = "",
        queue_id: int = 0,
        shard: str = "",
    ) -> list[Sent]:
        """Send messages; JavaHostFailed, with what Java threw, if one is refused."""
        sending = Sending(
            producer=self.number,
            messages=list(messages),
            way=way,
            broker=broker,
            queue_id=queue_id,
            shard=shard,
        )
        (sent,) = self.java.ask(SEND, [sending])
        return sent

    def send_bodies(self, topic: str, *bodies: bytes) -> list[Sent]:
        """Send bodies, one after another."""
        return self.send(*(Outgoing(topic=topic, body=body) for body in bodies))

    def recall(self, topic: str, handle: str) -> str:
        """Take a message back; return its id. JavaHostFailed if the broker refuses."""
        (message_id,) = self.java.ask(RECALL, [Recalling(self.number, topic, handle)])
        return message_id

    def start_load(self, topic: str) -> None:
        """Begin to send numbers."""
        self.java.ask(START_LOAD, [Load(self.number, topic)])

    def loaded(self) -> Loaded:
        """Return what became of the load so far."""
        (so_far,) = self.java.ask(LOADED, [self.number])
        return so_far

    def end_load(self) -> Loaded:
        """End the load, and return what became of it."""
        (whole,) = self.java.ask(END_LOAD, [self.number])
        return whole

    def until_acknowledged(self, count: int) -> None:
        """Return when so many more numbers than now are acknowledged."""
        goal = len(self.loaded().acknowledged) + count
        until(lambda: len(self.loaded().acknowledged) >= goal, what=f"{count} more acknowledged")


@dataclass(frozen=True)
class Consumer:
    """A consumer of Java."""

    java: Java
    number: int

    @property
    def client_id(self) -> str:
        """The id by which brokers know it."""
        (found,) = self.java.ask(CLIENT_ID, [self.number])
        return found

    def received(self) -> list[Received]:
        """Return all it was given so far."""
        (messages,) = self.java.ask(RECEIVED, [self.number])
        return messages

    def bodies(self) -> list[bytes]:
        """Return the bodies of all it was given so far."""
        return [message.body for message in self.received()]

    def wait_for(self, count: int, *, seconds: float = 90) -> list[Received]:
        """Return what it was given, when that is at least so many."""

        def enough() -> list[Received] | None:
            messages = self.received()
            return messages if len(messages) >= count else None

        try:
            return until(enough, what=f"{count} messages", seconds=seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; there are {self.bodies()}") from None

    def pull(
        self, topic: str, queue_id: int, offset: int, *, broker: str, expression: str = "*"
    ) -> Pulled:
        """Pull once; for a consumer of the kind ``pull``."""
        pull = Pull(
            consumer=self.number,
            topic=topic,
            broker=broker,
            queue_id=queue_id,
            offset=offset,
            expression=expression,
        )
        (pulled,) = self.java.ask(PULL, [pull])
        return pulled


@contextlib.contextmanager
def producing(java: Java, options: ProducerOptions) -> Iterator[Producer]:
    """Run a producer."""
    (number,) = java.ask(OPEN_PRODUCER, [options])
    try:
        yield Producer(java, number)
    finally:
        java.ask(CLOSE_PRODUCER, [number])


@dataclass(frozen=True)
class TransactionProducer:
    """A transactional producer of Java; bodies say how transactions end (``java_transactions``)."""

    java: Java
    number: int

    def send(self, topic: str, *bodies: bytes, **properties: str) -> list[Sent]:
        """Send bodies, each in a transaction of its own."""
        messages = [Outgoing(topic=topic, body=body, properties=properties) for body in bodies]
        sending = Sending(producer=self.number, messages=messages)
        (sent,) = self.java.ask(SEND_IN_TRANSACTION, [sending])
        return sent

    def checked(self) -> list[bytes]:
        """Return the bodies that it was asked about."""
        (bodies,) = self.java.ask(CHECKED, [self.number])
        return bodies


@contextlib.contextmanager
def in_transactions(java: Java, options: ProducerOptions) -> Iterator[TransactionProducer]:
    """Run a transactional producer."""
    (number,) = java.ask(OPEN_TRANSACTION_PRODUCER, [options])
    try:
        yield TransactionProducer(java, number)
    finally:
        java.ask(CLOSE_PRODUCER, [number])


@contextlib.contextmanager
def consuming(java: Java, options: ConsumerOptions) -> Iterator[Consumer]:
    """Run a consumer."""
    (number,) = java.ask(OPEN_CONSUMER, [options])
    try:
        yield Consumer(java, number)
    finally:
        java.ask(CLOSE_CONSUMER, [number])
