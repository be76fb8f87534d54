"""Producers of ours that repeat sends: over lost answers, and over brokers that are killed."""

import asyncio
from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path

from orbitmq.client.producer.producer import Producer
from orbitmq.message.model import Message, SendReceipt, StoredMessage
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from tests.broker.exchanges import pulled
from tests.interop.our_servers import OurServer, a_broker, a_nameserver
from tests.interop.waiting import until_async

SENDS = 400
KILLS = 3
IN_FLIGHT = 20
PATIENT_MS = 60_000


def stored(broker: Address) -> list[StoredMessage]:
    """Return all messages of the topic, of all queues."""
    with BlockingConnection(broker) as connection:
        queues = [pulled(connection, "orders", queue_id=number) for number in range(4)]
    return list(chain.from_iterable(queues))


async def send_numbers(producer: Producer, count: int, done: list[SendReceipt]) -> None:
    """Send numbers, several at a time; add the receipts to a list as they come."""
    room = asyncio.Semaphore(IN_FLIGHT)

    async def send(number: int) -> None:
        async with room:
            done.append(await producer.send(Message("orders", b"%d" % number)))

    await asyncio.gather(*map(send, range(count)))


def check_once(broker: Address, receipts: list[SendReceipt]) -> None:
    """Check that each message is stored once, and where its receipt says."""
    found = stored(broker)
    counts = Counter(int(message.body) for message in found)
    assert counts == dict.fromkeys(range(SENDS), 1)
    by_id = {one.message_id: (one.queue_id, one.queue_offset) for one in found}
    answered = {one.message_id: (one.queue.queue_id, one.queue_offset) for one in receipts}
    assert answered == by_id


def _has(done: list[SendReceipt], count: int) -> bool:
    return len(done) >= count


async def kill_again_and_again(broker: OurServer, done: list[SendReceipt]) -> None:
    """Kill a broker after a part of the sends, and restart it, several times."""
    for number in range(1, KILLS + 1):
        part = SENDS * number // (KILLS + 1)
        await until_async(partial(_has, done, part), what=f"{part} sends are acknowledged")
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)


def test_sends_that_are_repeated_over_kills_are_stored_once(tmp_path: Path) -> None:
    with a_nameserver(tmp_path) as nameserver:
        broker = a_broker(
            tmp_path / "store",
            nameservers=str(nameserver.address),
            flushDiskType="SYNC_FLUSH",
            sendDeduplicationEnable="true",
        )
        done: list[SendReceipt] = []

        async def story() -> None:
            async with Producer(
                "billing",
                nameserver=str(nameserver.address),
                send_timeout_ms=PATIENT_MS,
                retries=100,
            ) as producer:
                sending = asyncio.create_task(send_numbers(producer, SENDS, done))
                await kill_again_and_again(broker, done)
                await sending

        with broker:
            asyncio.run(story())
            check_once(broker.address, done)
