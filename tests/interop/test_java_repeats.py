"""Java's producers that repeat sends on our broker, because a proxy cuts off the answers.

The broker listens on one loopback address, and its routes name another, where the proxy is.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain

from orbitmq import embedded
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from tests.broker.exchanges import pulled
from tests.interop.clients import Producer
from tests.interop.fault_proxy import CutOff, FaultProxy
from tests.interop.java import Java
from tests.interop.java_server import free_port
from tests.interop.operations import Outgoing, Sent, Way
from tests.interop.team import Team

BROKER_HOST, PROXY_HOST = "127.0.0.2", "127.0.0.1"
SENDS = 10


def places(broker: Address, topic: str) -> dict[bytes, list[tuple[int, int]]]:
    """Return the queue and the queue offset of each message, by its body."""
    with BlockingConnection(broker) as connection:
        queues = [pulled(connection, topic, queue_id=number) for number in range(4)]
    found: dict[bytes, list[tuple[int, int]]] = {}
    for one in chain.from_iterable(queues):
        found.setdefault(one.body, []).append((one.queue_id, one.queue_offset))
    return found


def send_each(
    producer: Producer, way: Way, topic: str, groups: Sequence[Sequence[bytes]]
) -> list[Sent]:
    """Send one group after another, for sends in flight together would be cut off together."""
    found: list[Sent] = []
    for group in groups:
        found += producer.send(*(Outgoing(topic=topic, body=body) for body in group), way=way)
    return found


def test_sends_that_java_repeats_are_stored_once(java: Java) -> None:
    broker = Address(BROKER_HOST, free_port(below=2, above=1))
    settings = {
        "listenHost": BROKER_HOST,
        "listenPort": str(broker.port),
        "brokerIP1": PROXY_HOST,
        "sendDeduplicationEnable": "true",
    }
    bodies = [b"%d" % number for number in range(SENDS)]
    one_by_one = [[body] for body in bodies]

    async def check(team: Team, way: Way, groups: Sequence[Sequence[bytes]]) -> None:
        topic = team.topic(way)
        async with FaultProxy(broker, at=Address(PROXY_HOST, broker.port)) as proxy:
            with team.producer() as producer:
                for _ in groups:
                    proxy.script.extend([CutOff(is_stored=True), None])
                sent = await asyncio.to_thread(send_each, producer, way, topic, groups)
            assert proxy.seen == 2 * len(groups)  # each was repeated
        found = places(broker, topic)
        assert {body: len(where) for body, where in found.items()} == dict.fromkeys(bodies, 1)
        receipts = [[(one.queue_id, one.queue_offset)] for one in sent]
        assert receipts == [found[group[0]] for group in groups]

    with embedded.start(settings=settings) as cluster:
        team = Team(java, cluster.nameserver, [str(broker)])
        asyncio.run(check(team, "sync", one_by_one))
        asyncio.run(check(team, "async", one_by_one))
        asyncio.run(check(team, "batch", [bodies]))
