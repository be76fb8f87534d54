"""Our connections against a live Java nameserver and broker: all that is not about messages."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.errors import ConnectionClosed
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.refusal import not_supported
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.tls import client_context
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.bodies.group import ConsumerIdList
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.heartbeat import (
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatAnswer,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from orbitmq.wire.headers.offset import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.session import Identity, Response
from tests.interop.java_cluster import JavaCluster, JavaNameserver
from tests.interop.java_server import PATIENT
from tests.interop.sending import send_header
from tests.interop.waiting import until
from tests.net.loopback import on_both_loops, run_on

VERSION_4_9_3 = 399
"""The last release whose clients are given routes as fastjson likes them: numbers as bare keys."""

SERVERS = pytest.mark.parametrize("server", ["nameserver", "broker"])


def address_of(cluster: JavaCluster, server: str) -> Address:
    return {"nameserver": cluster.nameserver.address, "broker": cluster.broker.address}[server]


@pytest.fixture
def cluster(java_cluster_540: JavaCluster) -> JavaCluster:
    return java_cluster_540


@pytest.fixture
def broker(cluster: JavaCluster) -> Iterator[BlockingConnection]:
    with cluster.broker.connect() as connection:
        yield connection


# What servers answer


def expected_route(cluster: JavaCluster, queues: int) -> TopicRouteData:
    name = cluster.broker.name
    addresses = {0: str(cluster.broker.address)}
    return TopicRouteData(
        broker_datas=(
            BrokerData(
                broker_addrs=addresses, broker_name=name, cluster=cluster.broker.cluster_name
            ),
        ),
        queue_datas=(
            QueueData(broker_name=name, perm=6, read_queue_nums=queues, write_queue_nums=queues),
        ),
    )


@pytest.mark.parametrize("encoding", HeaderEncoding)
def test_routes_come_in_standard_json(cluster: JavaCluster, encoding: HeaderEncoding) -> None:
    topic = cluster.create_topic("routes", queues=3)
    old_but_modest = Identity(version=VERSION_4_9_3, encoding=encoding)
    with cluster.nameserver.connect(identity=old_but_modest) as connection:
        ask = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        route = TopicRouteData.from_json_strict(connection.request(ask).body)
    assert route == expected_route(cluster, 3)


def test_routes_come_to_old_clients_with_bare_keys(cluster: JavaCluster) -> None:
    topic = cluster.create_topic("routes", queues=3)
    with cluster.nameserver.connect(identity=Identity(version=VERSION_4_9_3)) as connection:
        body = bytes(connection.request(GetRouteInfo(topic=topic)).body)
    assert b'"brokerAddrs":{0:"' in body
    assert TopicRouteData.from_json(body) == expected_route(cluster, 3)


def test_clusters_come_with_bare_keys(cluster: JavaCluster) -> None:
    with cluster.nameserver.connect() as connection:
        answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
    assert b'"brokerAddrs":{0:"' in bytes(answer.body)
    (data,) = expected_route(cluster, 0).broker_datas
    assert ClusterInfo.from_json(answer.body) == ClusterInfo(
        broker_addr_table={cluster.broker.name: data},
        cluster_addr_table={cluster.broker.cluster_name: (cluster.broker.name,)},
    )


def test_a_route_that_is_not_there_is_an_answer(cluster: JavaCluster) -> None:
    with cluster.nameserver.connect() as connection:
        answer = connection.request(GetRouteInfo(topic="nowhere"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "nowhere" in (answer.remark or "")


@SERVERS
def test_unknown_requests_are_answered_in_our_words(cluster: JavaCluster, server: str) -> None:
    with BlockingConnection(address_of(cluster, server), settings=PATIENT) as connection:
        answer = connection.request(NoFields(), code=29_999)
    ours = not_supported(Frame(29_999, 0, 0, 0, None, None, {}, b"", HeaderEncoding.JSON))
    assert (answer.code, answer.remark) == (ours.code, ours.remark)


def test_java_leaves_a_missing_field_null_and_stumbles(broker: BlockingConnection) -> None:
    answer = broker.request(NoFields(), code=RequestCode.PULL_MESSAGE)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("java.lang.NullPointerException")
    assert broker.is_open


def test_a_nameserver_may_write_binary_headers(
    java_cluster_540: JavaCluster, tmp_path: Path
) -> None:
    binary = {"rocketmq.serialize.type": "ROCKETMQ"}
    with JavaNameserver(java_cluster_540.version, tmp_path, jvm_properties=binary) as nameserver:
        for encoding in HeaderEncoding:
            with nameserver.connect(identity=Identity(encoding=encoding)) as connection:
                answer = connection.request(GetRouteInfo(topic="nowhere"))
                assert answer.encoding is HeaderEncoding.ROCKETMQ
                assert answer.code == ResponseCode.TOPIC_NOT_EXIST
                assert "nowhere" in (answer.remark or "")


# Groups


def heartbeat(client: str, group: str, topic: str) -> bytes:
    subscription = SubscriptionData(topic=topic, sub_string="*")
    consumer = ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        subscription_data_set=(subscription,),
    )
    return HeartbeatData(client_id=client, consumer_data_set=(consumer,)).to_json()


def test_members_of_a_group_hear_of_each_other(cluster: JavaCluster) -> None:
    topic = cluster.create_topic("members")
    group = f"{topic}-group"
    heard: asyncio.Queue[Frame] = asyncio.Queue()

    def listen(_connection: Connection, request: Frame) -> Response:
        heard.put_nowait(request)
        return Response()

    async def join(dialer: Dialer, client: str) -> None:
        answer = await dialer.request(
            cluster.broker.address, Heartbeat(), heartbeat(client, group, topic)
        )
        assert answer.code == ResponseCode.SUCCESS
        assert answer.read(HeartbeatAnswer).supports_v2 is not None

    async def scenario() -> None:
        async with Dialer(handler=listen, settings=PATIENT) as first, Dialer() as second:
            await join(first, "first@1")
            await told_of_change()
            await join(second, "second@2")
            await told_of_change()
            answer = await first.request(
                cluster.broker.address, GetConsumerListByGroup(consumer_group=group)
            )
            members = ConsumerIdList.from_json(answer.body).consumer_id_list
            assert sorted(members) == ["first@1", "second@2"]
            await second.request(
                cluster.broker.address, UnregisterClient(client_id="second@2", consumer_group=group)
            )
            await told_of_change()

    async def told_of_change() -> None:
        request = await asyncio.wait_for(heard.get(), 20)
        assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert request.is_oneway
        assert request.read(NotifyConsumerIdsChanged).consumer_group == group

    asyncio.run(scenario())


def test_a_oneway_commit_arrives(cluster: JavaCluster, broker: BlockingConnection) -> None:
    topic = cluster.create_topic("commits")
    group = f"{topic}-group"
    broker.request(Heartbeat(), heartbeat("committer@1", group, topic))  # creates the group
    ask = QueryConsumerOffset(
        consumer_group=group, topic=topic, queue_id=2, set_zero_if_not_found=False
    )
    assert broker.request(ask).code == ResponseCode.QUERY_NOT_FOUND
    broker.oneway(
        UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=2, commit_offset=42)
    )

    def committed() -> Frame | None:
        answer = broker.request(ask)
        return answer if answer.code == ResponseCode.SUCCESS else None

    answer = until(committed, what="the offset of the one-way commit")
    assert answer.read(QueryConsumerOffsetAnswer).offset == 42


# Connections


@on_both_loops
def test_hundreds_of_requests_are_in_flight_at_once(cluster: JavaCluster, loop: str) -> None:
    topic = cluster.create_topic("in-flight", queues=1)

    async def scenario() -> None:
        async with Dialer(settings=PATIENT) as dialer:
            connection = await dialer.connection(cluster.broker.address)
            sends = [connection.request(send_header(topic), b"%d" % i) for i in range(300)]
            asks = [connection.request(GetMaxOffset(topic=topic, queue_id=0)) for _ in range(300)]
            answers = await asyncio.gather(*sends, *asks)
            assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
            offsets = [answer.read(SendMessageAnswer).queue_offset for answer in answers[:300]]
            assert sorted(offsets) == [*range(300)]
            seen = [answer.read(GetMaxOffsetAnswer).offset for answer in answers[300:]]
            assert all(0 <= offset <= 300 for offset in seen)
            assert list(dialer.connections.values()) == [connection]

    run_on(loop, scenario())


def test_pipelined_requests_are_answered_in_any_order(
    cluster: JavaCluster, broker: BlockingConnection
) -> None:
    topic = cluster.create_topic("pipelined", queues=1)
    numbers = [broker.start(send_header(topic), b"%d" % i) for i in range(300)]
    answers = [broker.result(number) for number in reversed(numbers)]
    offsets = [answer.read(SendMessageAnswer).queue_offset for answer in answers]
    assert sorted(offsets) == [*range(300)]


@SERVERS
@on_both_loops
def test_tls_and_plain_share_a_port(cluster: JavaCluster, server: str, loop: str) -> None:
    address = address_of(cluster, server)
    tls = client_context(verify=False)  # Java signs for itself
    patient = NetSettings(request_timeout_ms=10_000)

    async def scenario() -> None:
        async with Dialer(tls=tls, settings=patient) as secure, Dialer() as plain:
            for dialer in (secure, plain, secure):
                answer = await dialer.request(address, NoFields(), code=29_999)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run_on(loop, scenario())


def test_a_blocking_connection_speaks_tls(cluster: JavaCluster) -> None:
    topic = cluster.create_topic("secret", queues=1)
    with cluster.broker.connect(tls=client_context(verify=False)) as connection:
        answer = connection.request(send_header(topic), bytes(1_000_000))
        assert answer.read(SendMessageAnswer).queue_offset == 0


HTTP = b"GET / HTTP/1.1\r\n\r\n"
"""Its first four bytes, read as a length, announce a frame of over a gigabyte."""

UNREADABLE = {"\N{ROCKET}": "x"}
"""A field that Java's fastjson 2 stumbles over: a name with a character of two UTF-16 units."""


@SERVERS
def test_what_is_no_frame_ends_the_connection(cluster: JavaCluster, server: str) -> None:
    with socket.create_connection(address_of(cluster, server), timeout=20) as raw:
        raw.sendall(HTTP)
        assert raw.recv(1) == b""


@SERVERS
def test_a_request_that_java_cannot_read_is_cut_off(cluster: JavaCluster, server: str) -> None:
    address = address_of(cluster, server)
    expected = pytest.raises(ConnectionClosed, match=f"{address} has no answer: the peer closed it")
    with BlockingConnection(address, settings=PATIENT) as connection:
        with expected:
            connection.request(NoFields(), code=29_999, fields=UNREADABLE)
        assert not connection.is_open

    async def scenario() -> None:
        async with Dialer(settings=PATIENT) as dialer:
            with expected:
                await dialer.request(address, NoFields(), code=29_999, fields=UNREADABLE)
            answer = await dialer.request(address, NoFields(), code=29_999)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    asyncio.run(scenario())
