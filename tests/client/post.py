"""Brokers that take sends by script: store, refuse, say nothing, or break the connection."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from orbitmq.client.producer.producer import Producer
from orbitmq.message import batch, properties
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Outcome
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessage, SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, BROKER_B, Scene, route

SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
NAMES = {BROKER_A: "a", BROKER_B: "b"}

Script = Callable[[Connection, Frame], Outcome]
"""What a broker does with one send."""


class Sent(NamedTuple):
    """A send as a broker got it."""

    at_ms: int
    broker: str
    header: SendMessageV2 | SendMessage
    body: bytes
    code: int
    fields: Mapping[str, str | None]

    @property
    def properties(self) -> dict[str, str]:
        return properties.decode((self.header.properties or "").encode())

    @property
    def queue(self) -> tuple[str, int]:
        return self.broker, self.header.queue_id


class Post:
    """Two brokers, a and b, with a topic of some queues each.

    Attributes:
        sent: all sends, in the order in which brokers got them.
        scripts: what each broker does with its next sends; after that, with all.

    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sent: list[Sent] = []
        self.scripts: dict[str, list[Script]] = {"a": [], "b": []}
        self.always: dict[str, Script] = {}
        self._offsets: dict[tuple[str, int], int] = {}

    def serve(self, address: Address) -> Script:
        name = NAMES[address]

        def broker(connection: Connection, request: Frame) -> Outcome:
            if request.code not in SENDS:
                return Response()
            header: SendMessage | SendMessageV2 = (
                request.read(SendMessage)
                if request.code == RequestCode.SEND_MESSAGE
                else request.read(SendMessageV2)
            )
            self.sent.append(
                Sent(
                    self.scene.clock.monotonic_ms(),
                    name,
                    header,
                    bytes(request.body),
                    request.code,
                    request.texts(),
                )
            )
            waiting = self.scripts[name]
            script = waiting.pop(0) if waiting else self.always.get(name, self.store)
            return script(connection, request)

        return broker

    def store(self, connection: Connection, request: Frame) -> Response:
        """Store a send, as a broker does."""
        return self.stored(request)

    def stored(self, request: Frame, code: int = ResponseCode.SUCCESS) -> Response:
        sent = next(one for one in reversed(self.sent) if one.fields == request.texts())
        many = request.code == RequestCode.SEND_BATCH_MESSAGE
        count = len(list(batch.split(request.body))) if many else 1
        offset = self._offsets.get(sent.queue, 0)
        self._offsets[sent.queue] = offset + count
        ids = ",".join(f"0A000001{offset + number:024X}" for number in range(count))
        answer = SendMessageAnswer(
            msg_id=ids,
            queue_id=sent.header.queue_id,
            queue_offset=offset,
            transaction_id=sent.properties.get(properties.UNIQUE_KEY),
            region="eu",
            trace_on=True,
        )
        return Response(code, header=answer)

    @property
    def brokers(self) -> list[str]:
        return [one.broker for one in self.sent]

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.sent]


def status(post: Post, code: ResponseCode) -> Script:
    """Store it, and answer with another status."""
    return lambda _connection, request: post.stored(request, code)


def refuse(code: int, remark: str = "by script") -> Script:
    return lambda _connection, _request: Response(code, remark=remark)


def say_nothing(_connection: Connection, _request: Frame) -> None:
    return None


def reset(connection: Connection, _request: Frame) -> None:
    connection.abort("by script")


def later(seconds: float, then: Script) -> Script:
    """Do something else, a while later."""

    async def script(connection: Connection, request: Frame) -> Response | None:
        await asyncio.sleep(seconds)
        outcome = then(connection, request)
        assert outcome is None or isinstance(outcome, Response)
        return outcome

    return script


async def open_post(scene: Scene, *brokers: str, queues: int = 2, topic: str = "orders") -> Post:
    """Start a nameserver and brokers that have a topic, both brokers unless some are named."""
    post = Post(scene)
    names = brokers or ("a", "b")
    scene.routes[topic] = route(*names, queues=queues)
    await scene.nameserver()
    for address, name in NAMES.items():
        if name in names:
            await scene.listen(address, post.serve(address))
    return post


async def open_producer(scene: Scene, **options: object) -> Producer:
    """Start a producer that is closed with the scene, its connections too."""
    client = scene.settings(keep_open_ms=0)
    producer = Producer("billing", client=client, machine=scene.machine, **options)  # type: ignore[arg-type]
    return await _within(scene.open, producer)


async def _within(stack: AsyncExitStack, producer: Producer) -> Producer:
    return await stack.enter_async_context(producer)
