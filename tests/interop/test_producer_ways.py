"""Our producer's ways to Java brokers: tunnels, lists of nameservers, units, rooms, replicas."""

import asyncio
import contextlib
import http.server
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from orbitmq import blocking
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.queue_choice import (
    ConsistentHash,
    QueueSelector,
    by_hash,
    by_machine_room,
    by_random,
)
from orbitmq.errors import NotDurable, SendFailed
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame, FrameReader
from tests.interop import counterparts
from tests.interop.clients import Consumer, consuming
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import LOOPBACK, JavaBroker, JavaCluster
from tests.interop.java_server import Settings, free_port
from tests.interop.operations import DECODE_TRACE, ConsumerOptions, Received, Traced
from tests.interop.team import Team
from tests.interop.tunnel import Tunnel
from tests.interop.waiting import until

T = TypeVar("T")

PATIENT_MS = 20_000
"""A machine that runs several of these at once may take its time."""

REGION = "eu-1"
LONELY: Settings = {
    "brokerName": "east@java-b",  # java-b in the machine room east
    "brokerRole": "SYNC_MASTER",
    "inSyncReplicas": 2,  # 5.x: itself and another one; 4.9 wants one replica anyway
    "slaveTimeout": 50,
}
"""A broker whose sends wait for a replica, of which there is none."""

NOT_REPLICATED = {
    "5.4.0": SendStatus.FLUSH_SLAVE_TIMEOUT,
    "4.9.7": SendStatus.SLAVE_NOT_AVAILABLE,
}
"""What it says then: 5.x waits for the replica to come, 4.9 looks whether there is one."""

NOWHERE = "127.0.0.9"
"""A loopback address at which no server of ours listens."""


@dataclass(frozen=True)
class Pair:
    """A nameserver and two brokers, and Java clients of their version."""

    cluster: JavaCluster
    lonely: JavaBroker
    team: Team
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def version(self) -> str:
        """Of all of them."""
        return self.cluster.version

    @property
    def nameserver(self) -> str:
        """The nameserver's address, as producers take it."""
        return str(self.cluster.nameserver.address)

    def topic_on_both(self, purpose: str, *, queues: int) -> str:
        """Create a topic on both brokers, and return its name when clients can find it there."""
        topic = f"{purpose}-on-both-{next(self._numbers)}"
        for broker in (self.cluster.broker, self.lonely):
            broker.create_topic(topic, queues=queues)
        until(
            lambda: len(self.cluster.nameserver.route(topic).queue_datas) == 2,
            what=f"both of {topic}",
        )
        return topic

    def producing(self, use: Callable[[Producer], Awaitable[T]], **options: object) -> T:
        """Run something with a producer of ours, and return what it returns."""

        async def main() -> T:
            given = {"nameserver": self.nameserver, "send_timeout_ms": PATIENT_MS, **options}
            async with Producer("ours", **given) as producer:  # type: ignore[arg-type]
                return await use(producer)

        return asyncio.run(main())


@pytest.fixture(scope="module", params=counterparts.ROCKETMQ_VERSIONS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Two brokers of each version in turn: a plain one, and one that misses its replica."""
    version: str = request.param
    if (why := counterparts.missing_for(version)) is not None:
        decline(why)
    java: Java = request.getfixturevalue(f"java_{version.replace('.', '')}")
    folder = tmp_path_factory.mktemp(f"ways-{version}")
    settings: Settings = {"regionId": REGION, "traceTopicEnable": "true"}
    with JavaCluster(version, folder, broker_settings=settings) as cluster:
        nameserver = cluster.nameserver.address
        with JavaBroker(
            version, folder / "lonely", nameserver=nameserver, settings=LONELY
        ) as lonely:
            brokers = [str(cluster.broker.address), str(lonely.address)]
            yield Pair(cluster, lonely, Team(java, str(nameserver), brokers))


def sending(*messages: Message) -> Callable[[Producer], Awaitable[list[SendReceipt]]]:
    """Return what sends messages, one after another."""

    async def use(producer: Producer) -> list[SendReceipt]:
        return [await producer.send(message) for message in messages]

    return use


# Addresses


@pytest.mark.parametrize("pair", ["5.4.0"], indirect=True)  # one of 4.9 listens at all addresses
def test_a_broker_that_nobody_reaches_is_reached_by_the_map(pair: Pair, tmp_path: Path) -> None:
    settings: Settings = {
        "brokerName": "java-hidden",
        "brokerIP1": NOWHERE,
        "bindAddress": LOOPBACK,
    }
    nameserver = pair.cluster.nameserver.address
    with JavaBroker(pair.version, tmp_path, nameserver=nameserver, settings=settings) as hidden:
        hidden.create_topic("ways-hidden")
        (broker,) = pair.cluster.nameserver.route("ways-hidden").broker_datas
        assert broker.broker_addrs == {0: str(hidden.advertised)}
        send = sending(Message("ways-hidden", b"through"))
        with pytest.raises(SendFailed, match=NOWHERE) as caught:
            pair.producing(send, retries=0, send_timeout_ms=1_000)
        assert not caught.value.may_be_stored
        (receipt,) = pair.producing(send, address_map={NOWHERE: LOOPBACK})
        with Tunnel(hidden.address, at=hidden.advertised):  # Java has no map: it needs a way
            with pair.team.consumer("ways-hidden") as consumer:
                (read,) = consumer.wait_for(1)
    assert (read.body, read.message_id) == (b"through", receipt.message_id)


def test_the_second_port_takes_sends(pair: Pair) -> None:
    topic = pair.cluster.create_topic("ways-vip")
    usual = pair.cluster.broker.address
    port = free_port(below=2)
    with (
        Tunnel(usual, at=Address(LOOPBACK, port)) as slow,
        Tunnel(usual._replace(port=usual.port - 2), at=Address(LOOPBACK, port - 2)) as fast,
    ):
        receipts = pair.producing(
            sending(Message(topic, b"a body to look for")),
            address_map={str(usual): str(slow.at)},
            vip_channel=True,
        )
    assert sum(said.count(b"a body to look for") for said in fast.heard) == 1
    assert not any(b"a body to look for" in said for said in slow.heard)
    with pair.team.consumer(topic) as consumer:
        (read,) = consumer.wait_for(1)
    assert read.message_id == receipts[0].message_id


@contextlib.contextmanager
def address_list(text: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a list of nameservers; yield its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tell nobody."""

    with http.server.HTTPServer((LOOPBACK, 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/rocketmq/nsaddr", asked
        finally:
            server.shutdown()
            thread.join()


# Units


def test_a_unit_asks_for_its_own_list_and_is_part_of_the_client_s_name(pair: Pair) -> None:
    topic = pair.cluster.create_topic("ways-unit")

    async def use(producer: Producer) -> None:
        await producer.send(Message(topic, b"x"))
        assert producer.client_id.endswith("@unit-7")
        shown = await asyncio.to_thread(connections)
        assert producer.client_id in shown

    def connections() -> str:
        """Return what Java's tool says of the group, once a heartbeat has made it known."""

        def look() -> str:
            shown = pair.team.mqadmin("producerConnection", "-g", "ours", "-t", topic)
            return shown if "unit-7" in shown else ""

        return until(look, what="the producer is known", seconds=40)

    with address_list(f"{pair.nameserver}\n") as (url, asked):
        pair.producing(use, nameserver="", nameserver_url=url, unit_name="unit-7")
        assert asked == ["/rocketmq/nsaddr-unit-7?nofix=1"]
        pair.producing(sending(Message(topic, b"y")), nameserver="", nameserver_url=url)
        assert asked[1:] == ["/rocketmq/nsaddr"]


def test_a_topic_that_a_unit_makes_belongs_to_units(pair: Pair) -> None:
    made, plain = (f"ways-made-by-{who}" for who in ("a-unit", "nobody"))
    pair.producing(sending(Message(made, b"x")), unit_mode=True)
    pair.producing(sending(Message(plain, b"x")))
    flags = {topic: pair.cluster.nameserver.route(topic).queue_datas for topic in (made, plain)}
    assert {one.topic_sys_flag for one in flags[made]} == {1}  # FLAG_UNIT of Java's TopicSysFlag
    assert {one.topic_sys_flag for one in flags[plain]} == {0}
    assert '"topicSysFlag":1' in pair.team.mqadmin("topicRoute", "-t", made).replace(" ", "")


# Namespaces


def test_a_namespace_of_the_second_kind_is_in_every_header(pair: Pair) -> None:
    """Brokers and nameservers of both lines take it, and look for the names as they are."""
    topic = pair.cluster.create_topic("ways-namespace")
    usual = pair.cluster.broker.address
    messages = [Message(topic, b"one"), Message(topic, b"other")]

    async def use(producer: Producer) -> list[SendReceipt]:
        return [await producer.send(Message(topic, b"single")), *await producer.send_many(messages)]

    with Tunnel(usual) as to_broker, Tunnel(pair.cluster.nameserver.address) as to_nameserver:
        receipts = pair.producing(
            use,
            nameserver=str(to_nameserver.at),
            address_map={str(usual): str(to_broker.at)},
            namespace_v2="eu",
        )
        asked = [(one.code, one.texts()) for one in (*heard(to_broker), *heard(to_nameserver))]
    assert {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
    } <= {code for code, _ in asked}
    for code, fields in asked:
        assert (fields.get("ns"), fields.get("nsd")) == ("eu", "true"), code
        if code == RequestCode.SEND_MESSAGE_V2:
            assert fields["b"] == topic  # the header's letter for it
    with Tunnel(pair.cluster.nameserver.address) as of_java:
        options = ConsumerOptions(
            nameserver=str(of_java.at),
            group="ways-namespace-readers",
            topic=topic,
            namespace_v2="" if pair.version == "4.9.7" else "eu",  # whose client has none
        )
        with consuming(pair.team.java, options) as consumer:
            received = {one.body: one for one in consumer.wait_for(3)}
        routes = [one for one in heard(of_java) if one.code == RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert {one.message_id for one in received.values()} == {one.message_id for one in receipts}
    assert {one.topic for one in received.values()} == {topic}
    if options.namespace_v2:  # and Java says it in the same words
        assert {(one.texts()["ns"], one.texts()["nsd"]) for one in routes} == {("eu", "true")}


def heard(tunnel: Tunnel) -> list[Frame]:
    """Return the requests that clients have made through a tunnel so far."""
    return [frame for said in tunnel.heard for frame in FrameReader().feed(bytes(said))]


# Selectors


def test_selectors_choose_the_queue_that_java_finds_the_message_in(pair: Pair) -> None:
    topic = pair.topic_on_both("ways-selected", queues=4)
    ring, chance = ConsistentHash(), SeededRandomness(6)
    selectors: dict[bytes, QueueSelector] = {
        b"hash": by_hash("o-42"),
        b"ring": ring.by("o-42"),
        b"ring again": ring.by("o-42"),
        b"random": by_random(chance),
        b"room": by_machine_room(["east", "north"], chance),
    }

    async def use(producer: Producer) -> tuple[list[MessageQueue], dict[bytes, SendReceipt]]:
        receipts = {
            body: await producer.send(Message(topic, body), selector=selector)
            for body, selector in selectors.items()
        }
        return list(await producer.queues(topic)), receipts

    queues, receipts = pair.producing(use)
    assert len(queues) == 8
    with pair.team.consumer(topic, kind="pull") as reader:
        for body, receipt in receipts.items():
            read, *_ = stored(reader, receipt.queue, receipt.queue_offset)
            assert (read.body, read.message_id) == (body, receipt.message_id)
    message = Message(topic, b"x")
    assert receipts[b"hash"].queue == selectors[b"hash"](queues, message)
    assert receipts[b"ring"].queue == receipts[b"ring again"].queue
    assert receipts[b"ring"].queue == ConsistentHash().by("o-42")(queues, message)
    assert receipts[b"room"].queue.broker_name == pair.lonely.name


def stored(
    reader: Consumer, queue: MessageQueue, offset: int = 0, *, count: int = 1
) -> list[Received]:
    """Return what Java finds in a queue from an offset on, when that is at least so many."""

    def look() -> list[Received] | None:
        pulled = reader.pull(queue.topic, queue.queue_id, offset, broker=queue.broker_name)
        return pulled.messages if len(pulled.messages) >= count else None

    return until(look, what=f"{count} in {queue} at {offset}")


# Replicas


def test_another_broker_is_tried_when_one_has_no_replica(pair: Pair) -> None:
    topic = pair.topic_on_both("ways-again", queues=1)
    strong, lonely = (
        MessageQueue(topic, broker.name, 0) for broker in (pair.cluster.broker, pair.lonely)
    )
    messages = [Message(topic, b"%d" % number) for number in range(4)]
    receipts = pair.producing(sending(*messages), retry_another_broker_when_not_stored=True)
    assert {(one.queue, one.status) for one in receipts} == {(strong, SendStatus.SEND_OK)}
    ids = [receipt.message_id for receipt in receipts]
    with pair.team.consumer(topic, kind="pull") as reader:
        assert [one.message_id for one in stored(reader, strong, count=4)] == ids
        twice = {one.message_id for one in stored(reader, lonely)}
    assert twice <= set(ids)  # what was tried there first is stored there too, under the same id


def test_a_weaker_status_is_told_and_an_error_where_more_is_required(pair: Pair) -> None:
    topic = pair.topic_on_both("ways-required", queues=1)
    lonely = MessageQueue(topic, pair.lonely.name, 0)
    status = NOT_REPLICATED[pair.version]

    async def use(producer: Producer) -> SendReceipt:
        told = await producer.send(Message(topic, b"told"), queue=lonely, require="stored")
        assert told.status is status
        with pytest.raises(NotDurable, match="don't send it again") as caught:
            await producer.send(Message(topic, b"weak"), queue=lonely, require="replicated")
        assert caught.value.may_be_stored
        return caught.value.receipt

    receipt = pair.producing(use)
    assert (receipt.status, receipt.queue) == (status, lonely)
    with pair.team.consumer(topic, kind="pull") as reader:
        read, *_ = stored(reader, lonely, receipt.queue_offset)
    assert (read.body, read.message_id) == (b"weak", receipt.message_id)


# Traces


def test_on_the_cloud_channel_traces_go_to_the_topic_of_the_region(pair: Pair) -> None:
    topic = pair.cluster.create_topic("ways-cloud")
    trace_topic = f"rmq_sys_TRACE_DATA_{REGION}"  # which no tool may make, but a send may
    (receipt,) = pair.producing(
        sending(Message(topic, b"paid", keys=["o-42"])), trace=True, access_channel="CLOUD"
    )
    assert receipt.region == REGION
    assert pair.cluster.nameserver.route(trace_topic).queue_datas
    with pair.team.consumer(trace_topic) as consumer:
        (read,) = consumer.wait_for(1)
    ((record,),) = pair.team.java.ask(DECODE_TRACE, [read.body])
    assert (record.kind, record.region, record.topic) == ("Pub", REGION, topic)
    assert (record.message_id, record.keys) == (receipt.message_id, "o-42")


def test_traces_go_to_the_topic_that_brokers_keep_for_them(pair: Pair) -> None:
    topic = pair.cluster.create_topic("ways-traced")

    async def use(producer: Producer) -> list[SendReceipt]:
        single = await producer.send(Message(topic, b"paid", tags="paid", keys=["o-44"]))
        return [single, *await producer.send_many([Message(topic, b"1"), Message(topic, b"22")])]

    def traced(consumer: Consumer) -> dict[str, Traced]:
        """Return what Java reads of the traces that have come, by the id of the message."""
        bodies = pair.team.java.ask(DECODE_TRACE, consumer.bodies())
        return {one.message_id: one for body in bodies for one in body if one.topic == topic}

    assert pair.cluster.nameserver.has_route("RMQ_SYS_TRACE_TOPIC")
    receipts = pair.producing(use, trace=True)
    with pair.team.consumer("RMQ_SYS_TRACE_TOPIC") as consumer:
        until(lambda: len(traced(consumer)) == len(receipts), what="all traces")
        published = traced(consumer)
    assert list(published) == [receipt.message_id for receipt in receipts]
    assert {(one.kind, one.group, one.success) for one in published.values()} == {
        ("Pub", "ours", True)
    }
    first = published[receipts[0].message_id]
    assert (first.tags, first.keys, first.region) == ("paid", "o-44", REGION)
    assert [one.body_length for one in published.values()] == [4, 1, 2]

    def shown() -> str:
        """Return what Java's own tool finds, which looks there, once the index knows it."""
        text = pair.team.mqadmin("queryMsgTraceById", "-i", receipts[0].message_id)
        return text if "Pub" in text else ""

    assert "ours" in until(shown, what="a trace in mqadmin's table")


# Threads


def test_sends_of_many_threads_at_once_arrive(pair: Pair) -> None:
    topic = pair.cluster.create_topic("ways-threads")
    expected = {b"%d-%d" % (thread, number) for thread in range(4) for number in range(25)}
    receipts: list[SendReceipt] = []
    called_back: list[str] = []

    with blocking.Producer(
        "ours-threads", nameserver=pair.nameserver, send_timeout_ms=PATIENT_MS
    ) as producer:

        def work(thread: int) -> None:
            futures = [
                producer.send_later(Message(topic, b"%d-%d" % (thread, number)))
                for number in range(25)
            ]
            for future in futures:
                future.add_done_callback(lambda done: called_back.append(done.result().message_id))
                receipts.append(future.result())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with pair.team.consumer(topic) as consumer:
        received = consumer.wait_for(len(expected))
    assert {one.body for one in received} == expected
    ids = sorted(receipt.message_id for receipt in receipts)
    assert sorted(one.message_id for one in received) == ids
    assert sorted(called_back) == ids
