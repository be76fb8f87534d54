"""User code that blocks its event loop keeps its place in the group.

``ORBITMQ_SOAK=1`` blocks for 200 s, with the broker's default expiry of two minutes.
"""

import asyncio
import os
import threading
import time

import msgspec

from orbitmq import Consumer, Message, StoredMessage, embedded
from orbitmq.blocking import Producer
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
BLOCKED_S = 200 if SOAK else 30
SETTINGS = {} if SOAK else {"channelExpiredTimeout": "10000"}


class Members(msgspec.Struct, rename="camel"):
    """The members of a group."""

    consumer_id_list: list[str]


def members_of(broker: str, group: str) -> list[str]:
    with BlockingConnection(Address.parse(broker)) as connection:
        answer = connection.request(GetConsumerListByGroup(consumer_group=group))
    return msgspec.json.decode(answer.body, type=Members).consumer_id_list


def test_a_handler_that_blocks_the_loop_keeps_the_membership() -> None:
    seen: list[list[str]] = []
    is_blocked, is_over = threading.Event(), threading.Event()

    def look(broker: str) -> None:
        is_blocked.wait(60)
        while not is_over.wait(1):
            seen.append(members_of(broker, "billing"))

    with embedded.start(settings=SETTINGS) as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            producer.send(Message("orders", b"slow"))
        looking = threading.Thread(target=look, args=cluster.brokers)
        looking.start()

        async def main() -> str:
            consumer = Consumer(
                "billing",
                nameserver=cluster.nameserver,
                subscribe={"orders": "*"},
                consume_from="first",
                heartbeat_interval_ms=30_000 if SOAK else 3_000,
            )

            @consumer.on_message
            async def block(_message: StoredMessage) -> None:
                is_blocked.set()
                time.sleep(BLOCKED_S)  # noqa: ASYNC251 - what is tested: it blocks the loop
                is_over.set()

            async with consumer:
                await asyncio.to_thread(is_over.wait)
                return consumer.client_id

        client_id = asyncio.run(main())
        looking.join(60)
    assert len(seen) > 5
    assert all(members == [client_id] for members in seen), seen
