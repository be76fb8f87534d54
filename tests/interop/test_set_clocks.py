"""What docs/reliability.md says of a broker whose clock is set, seen with a process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq import Consumer, Message, Producer, TransactionState
from orbitmq.client.admin.admin import Admin
from orbitmq.clock import SystemClock
from orbitmq.message.model import StoredMessage
from orbitmq.net.address import Address
from tests.interop.faketime import FakeClock
from tests.interop.java_server import free_port
from tests.interop.our_servers import LOOPBACK, SMALL_STORE, OurServer, a_nameserver
from tests.interop.waiting import until_async

TOPIC = "set"
GROUP = "readers"
HOURS_S = 3 * 3_600  # the highest delay level is two hours
SETTINGS = {
    "transactionCheckInterval": "500",
    "transactionTimeOut": "3600000",
    **SMALL_STORE,
}


class Got(NamedTuple):
    """A message that the consumer got, and when by CLOCK_MONOTONIC."""

    message: StoredMessage
    at_ms: int

    @property
    def ahead_ms(self) -> int:
        """By how much its store time is ahead of the clock here."""
        return self.message.store_timestamp_ms - SystemClock().now_ms()


class Listener:
    """Leaves transactions open, and commits them when it is asked."""

    def execute(self, _message: Message) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, _message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT


class Scene:
    """A broker with a clock of its own, a producer, and a group with one member."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock(directory / "clock")
        self.address = Address(LOOPBACK, free_port(below=2, above=1))
        self._nameserver = a_nameserver(directory)
        said = {
            "listenPort": str(self.address.port),
            "namesrvAddr": str(self._nameserver.address),
            "storePathRootDir": str(directory / "store"),
            **SETTINGS,
        }
        arguments = [f"--set={name}={value}" for name, value in said.items()]
        self._broker = OurServer(self.address, "broker", *arguments, clock=self.clock)
        names = str(self._nameserver.address)
        self.producer = Producer("senders", nameserver=names, transaction_listener=Listener())
        self._consumer = Consumer(GROUP, subscribe=[TOPIC], nameserver=names, consume_from="first")
        self._admin = Admin(nameserver=names)
        self.got: dict[str, list[Got]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Scene"]:
        with self._nameserver, self._broker:  # their ends want no traceback in their logs
            async with self._admin as admin:
                await admin.create_topic(TOPIC, queues=1)
                self._consumer.on_message(self._note)
                async with self._consumer, self.producer:
                    yield self
                    members = await admin.consumer_connections(GROUP)
                    assert len(members.clients) == 1

    async def set_clock(self, ahead_s: int) -> None:
        await asyncio.to_thread(self.clock.set, ahead_s, seen_by=self.address)

    async def has_got(self, *names: str) -> list[Got]:
        """Wait until some messages are here; return the first of each."""
        await until_async(lambda: self.got.keys() >= set(names), what=f"{names} arrive")
        return [self.got[name][0] for name in names]

    async def _note(self, message: StoredMessage) -> None:
        got = Got(message, SystemClock().monotonic_ms())
        self.got.setdefault(bytes(message.body).decode(), []).append(got)


@pytest.fixture
def scene(tmp_path: Path, needs_faketime: None) -> Scene:
    return Scene(tmp_path)


def test_a_clock_set_forward_makes_due_what_is_due_by_it(scene: Scene) -> None:
    async def main() -> None:
        async with scene.running():
            send = scene.producer.send
            await send(Message(TOPIC, b"level", delay_level=18))
            await send(Message(TOPIC, b"timer", delay=timedelta(hours=1)))
            await scene.producer.send_in_transaction(Message(TOPIC, b"half"))
            await send(Message(TOPIC, b"before"))
            await scene.has_got("before")
            assert scene.got.keys() == {"before"}
            await scene.set_clock(HOURS_S)
            early = await scene.has_got("level", "timer", "half")
            assert min(one.ahead_ms for one in early) > HOURS_S * 1_000 // 2
            await send(Message(TOPIC, b"ahead"))
            await scene.has_got("ahead")
            await scene.set_clock(0)
            await send(Message(TOPIC, b"after"))
            await scene.has_got("after")
            assert all(len(got) == 1 for got in scene.got.values())
            in_order(scene)

    asyncio.run(main())


@pytest.mark.parametrize("steps_s", [(HOURS_S, 0), (-HOURS_S,)])
def test_after_a_clock_is_set_back_all_goes_on_and_nothing_is_early(
    scene: Scene, steps_s: tuple[int, ...]
) -> None:
    async def main() -> None:
        async with scene.running():
            await scene.producer.send(Message(TOPIC, b"before"))
            for ahead_s in steps_s:
                await scene.set_clock(ahead_s)
                await scene.producer.send(Message(TOPIC, b"at %d" % ahead_s))
            sent_ms = SystemClock().monotonic_ms()
            await scene.producer.send(Message(TOPIC, b"level", delay_level=1))
            await scene.producer.send(Message(TOPIC, b"timer", delay=timedelta(seconds=1)))
            await scene.producer.send(Message(TOPIC, b"plain"))
            delayed = await scene.has_got("level", "timer", "plain")
            assert all(one.at_ms - sent_ms >= 1_000 for one in delayed[:2])
            in_order(scene)

    asyncio.run(main())


def in_order(scene: Scene) -> None:
    """Check that store times rise along the queue."""
    messages = [got[0].message for got in scene.got.values()]
    messages.sort(key=lambda one: one.queue_offset)
    times = [one.store_timestamp_ms for one in messages]
    assert times == sorted(times)
