"""Light queues (LMQ): Java's clients on our broker, and one directory served in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq import embedded
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from tests.broker.exchanges import send_header
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker
from tests.interop.java_server import PATIENT, Settings, free_port
from tests.interop.operations import Outgoing
from tests.interop.our_servers import OurServer, a_broker, our_nameserver
from tests.interop.store_parties import JavaStore
from tests.interop.store_writer import JAVA_SIZES
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

ALICE, BOB = "%LMQ%alice", "%LMQ%bob"
GROUP = "%LMQ%GID_alice"
LMQ = {"enableLmq": "true", "enableMultiDispatch": "true"}


# Java's clients


@pytest.fixture(scope="module")
def light_cluster() -> Iterator[embedded.RunningCluster]:
    settings = {"listenPort": str(free_port(below=2, above=1)), **LMQ}
    with embedded.start(settings=settings) as running:
        yield running


def test_a_java_consumer_pulls_a_light_queue(
    java: Java, light_cluster: embedded.RunningCluster
) -> None:
    team = Team(java, light_cluster.nameserver, light_cluster.brokers)
    topic = team.topic("dispatched", queues=2)
    alice, bob = f"{ALICE}-{topic}", f"{BOB}-{topic}"
    with team.producer(group=f"senders-of-{topic}") as producer:
        for number in range(6):
            names = f"{alice},{bob}" if number % 2 else alice
            given = {"INNER_MULTI_DISPATCH": names}
            producer.send(Outgoing(topic=topic, body=b"%d" % number, properties=given))
    with team.consumer("", kind="pull", group=group_of(topic)) as consumer:
        consumer.pull(topic, 0, 0, broker="broker-a")  # it learns where the broker is
        in_alice = consumer.pull(alice, 0, 0, broker="broker-a")
        in_bob = consumer.pull(bob, 0, 1, broker="broker-a")
    assert [one.body for one in in_alice.messages] == [b"%d" % number for number in range(6)]
    assert (in_alice.next_offset, in_alice.max_offset) == (6, 6)
    assert [one.body for one in in_bob.messages] == [b"3", b"5"]


# One directory


class Host:
    """One of two brokers on a directory, while it runs."""

    def __init__(self, server: OurServer | JavaBroker) -> None:
        self._server = server

    def _connect(self) -> BlockingConnection:
        return BlockingConnection(self._server.address, settings=PATIENT)

    def send(self, *numbers: int) -> None:
        names = f"INNER_MULTI_DISPATCH\x01{ALICE},{BOB}\x02"
        with self._connect() as connection:
            for number in numbers:
                header = send_header("orders", queue_id=number % 4, properties=names)
                answer = connection.request(header, b"%d" % number)
                assert answer.code == ResponseCode.SUCCESS, answer

    def commit(self, offset: int) -> None:
        header = UpdateConsumerOffset(
            consumer_group=GROUP, topic=ALICE, queue_id=0, commit_offset=offset
        )
        with self._connect() as connection:
            assert connection.request(header).code == ResponseCode.SUCCESS

    def committed(self) -> int:
        header = QueryConsumerOffset(consumer_group=GROUP, topic=ALICE, queue_id=0)
        with self._connect() as connection:
            return connection.request(header).read(QueryConsumerOffsetAnswer).offset

    def has(self, numbers: range) -> bool:
        """Return whether both light queues have these numbers, from offset 0 on."""
        wanted = [b"%d" % number for number in numbers]
        with self._connect() as connection:
            asked = JavaStore(connection)
            return all(
                asked.span(queue, 0) == range(len(wanted))
                and [one.body for one in asked.queue(queue, 0)] == wanted
                for queue in (ALICE, BOB)
            )


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_light_queues_change_hands(tmp_path: Path, killed: bool) -> None:
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    with our_nameserver(tmp_path) as nameserver:
        settings: Settings = {**JAVA_SIZES, **LMQ, "brokerName": "light"}
        java = JavaBroker("5.4.0", tmp_path, nameserver=nameserver, settings=settings)
        sizes = {name: str(value) for name, value in JAVA_SIZES.items()}
        directory = Path(str(java.settings["storePathRootDir"]))
        ours = a_broker(directory, nameservers=str(nameserver), name="light", **sizes, **LMQ)
        servers: tuple[OurServer | JavaBroker, ...] = (ours, java, ours, java)
        try:
            for turn, server in enumerate(servers):
                serve_a_turn(server, range(turn * 40, turn * 40 + 40), killed=killed)
        finally:
            java.kill()


def serve_a_turn(server: OurServer | JavaBroker, numbers: range, *, killed: bool) -> None:
    """Have a server find what was there before, add to it, and end."""
    server.start()
    host = Host(server)
    until(lambda: host.has(range(numbers.start)), what=f"{numbers.start} messages")
    if numbers.start and not killed:  # offsets are saved every few seconds
        assert host.committed() == numbers.start
    host.send(*numbers)
    host.commit(numbers.stop)
    until(lambda: host.has(range(numbers.stop)), what=f"{numbers.stop} messages")
    if killed:
        server.kill()
    else:
        server.stop()
