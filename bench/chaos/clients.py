"""Clients of a run: each notes what it was told.

Two senders choose the queue of each message and try once; the others leave both to the producer,
which tries again, so that a message may be stored twice. A body begins with its key.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Final, Self

from bench.chaos.history import Delivery, History, Send
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.push import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message, MessageQueue, StoredMessage

__all__ = ["QUEUES", "TOPIC", "Clients", "key_of"]

TOPIC: Final = "chaos"
QUEUES: Final = 4
_BROKER: Final = "pair"
_ORDERED: Final = "ordered"
_CONCURRENT: Final = "concurrent"
_BODY_BYTES: Final = 512
_POLL_MS: Final = 1_000
"""How often clients ask for routes; by default it is half a minute, in Java too."""


def key_of(body: bytes) -> str:
    """Return the key that a body begins with.

    >>> key_of(b"a-17 ....")
    'a-17'
    """
    return bytes(body).partition(b" ")[0].decode()


class Clients:
    """Senders and readers of one run; an async context manager, whose end closes them."""

    def __init__(
        self, nameservers: str, history: History, clock: Clock, *, pause_s: float, senders: int
    ) -> None:
        self._history = history
        self._clock = clock
        self._pause_s = pause_s
        self._producers = {
            f"{'chosen' if number < 2 else 'any'}{number}": Producer(
                f"senders-{number}",
                nameserver=nameservers,
                poll_nameserver_interval_ms=_POLL_MS,
            )
            for number in range(senders)
        }
        self._readers = {
            name: Consumer(
                name,
                subscribe=[TOPIC],
                ordered=name == _ORDERED,
                consume_from="first",
                nameserver=nameservers,
                poll_nameserver_interval_ms=_POLL_MS,
                rebalance_interval_ms=_POLL_MS,
            )
            for name in (_ORDERED, _CONCURRENT)
        }
        self._admin = Admin(nameserver=nameservers)
        self._stack = AsyncExitStack()
        self._sending: list[asyncio.Task[None]] = []
        self._is_over = False

    def __repr__(self) -> str:
        return f"<Clients {len(self._history.sends)} sends, {len(self._history.deliveries)} got>"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(self._admin)
            await admin.create_topic(TOPIC, queues=QUEUES)
            for name, reader in self._readers.items():
                self._history.readers[name] = name == _ORDERED
                reader.on_message(self._noting(name))
                await stack.enter_async_context(reader)
            for number, (name, producer) in enumerate(self._producers.items()):
                await stack.enter_async_context(producer)
                queue = MessageQueue(TOPIC, _BROKER, number) if number < 2 else None
                self._sending.append(asyncio.create_task(self._send_all(name, producer, queue)))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop_sending()
        await self._stack.aclose()

    async def stop_sending(self) -> None:
        """Let each sender finish its last send, and send no more."""
        self._is_over = True
        await asyncio.gather(*self._sending)

    def accepted_since(self, moment: float) -> bool:
        """Return whether a send that began after a moment was acknowledged."""
        for send in reversed(self._history.sends):
            if send.began < moment:
                return False
            if send.status:
                return True
        return False

    def _noting(self, reader: str) -> Callable[[StoredMessage], Coroutine[None, None, None]]:
        async def note(message: StoredMessage) -> None:
            self._history.deliveries.append(
                Delivery(reader, key_of(message.body), message.queue_id, message.queue_offset)
            )

        return note

    async def _send_all(self, name: str, producer: Producer, queue: MessageQueue | None) -> None:
        number = 0
        while not self._is_over:
            send = Send(f"{name}-{number}", name, self._clock.monotonic_ms() / 1000)
            number += 1
            self._history.sends.append(send)
            await self._send(send, producer, queue)
            await asyncio.sleep(self._pause_s)

    async def _send(self, send: Send, producer: Producer, queue: MessageQueue | None) -> None:
        body = send.key.encode().ljust(_BODY_BYTES, b" ")
        try:
            receipt = await producer.send(Message(TOPIC, body), queue=queue)
        except OrbitError as error:
            send.error = f"{type(error).__name__}: {error}"
        else:
            send.status = str(receipt.status.value)
            send.queue = receipt.queue.queue_id
            send.offset = receipt.queue_offset
        send.ended = self._clock.monotonic_ms() / 1000
