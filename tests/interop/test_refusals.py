"""What Java's broker and nameserver refuse, asked of ours too: the same code, and words.

Several requests have more than one fault: which of them is told shows the order of the checks.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from orbitmq import embedded
from orbitmq.message import batch, flags, properties
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import HeartbeatData, SubscriptionCheck, SubscriptionData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import CreateTopic, DeleteTopic, GetTopicConfig
from orbitmq.wire.headers.heartbeat import (
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetConsumerRunningInfo,
    GetProducerConnectionList,
    Heartbeat,
    UnregisterClient,
)
from orbitmq.wire.headers.offset import (
    GetConsumerStatus,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    ResetOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage
from orbitmq.wire.headers.query import (
    GetTopicStatsInfo,
    QueryConsumeQueue,
    QueryMessage,
    ViewBrokerStatsData,
    ViewMessage,
)
from orbitmq.wire.headers.route import GetKVConfig, GetKVListByNamespace, GetRouteInfo
from orbitmq.wire.headers.send import ConsumerSendMsgBack, SendMessageV2
from tests.broker.fake_clients import consumer
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import PATIENT
from tests.interop.sending import send_header
from tests.java_remarks import begins_as_java_s

TOPIC, WRITE_ONLY = "refusals", "refusals-unread"
GROUP, STOPPED = "refused", "refused-stopped"
TOO_LARGE = bytes(4 * 1024 * 1024 + 1)
UNIQUE_KEY = properties.encode({"UNIQ_KEY": "7F0000010001"}).decode()
TOO_LONG = UNIQUE_KEY + properties.encode({"long": "p" * 32_740}).decode()
UPDATE_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
"""The code of a request whose fields are all in the body."""
REPLY = RequestCode.SEND_REPLY_MESSAGE_V2


class Servers(NamedTuple):
    """A server of Java and one of ours."""

    java: BlockingConnection
    ours: BlockingConnection


class Bad(NamedTuple):
    """A request that is refused."""

    what: str
    header: Header
    body: bytes = b""
    code: int | None = None


@pytest.fixture(scope="module")
def nameservers(
    java_cluster_540: JavaCluster, our_cluster: embedded.RunningCluster
) -> Iterator[Servers]:
    with contextlib.ExitStack() as open_:
        java = open_.enter_context(java_cluster_540.nameserver.connect())
        ours = BlockingConnection(Address.parse(our_cluster.nameserver), settings=PATIENT)
        yield Servers(java, open_.enter_context(ours))


@pytest.fixture(scope="module")
def brokers(
    java_cluster_540: JavaCluster, our_cluster: embedded.RunningCluster
) -> Iterator[Servers]:
    with contextlib.ExitStack() as open_:
        java = open_.enter_context(java_cluster_540.broker.connect())
        ours = BlockingConnection(Address.parse(our_cluster.brokers[0]), settings=PATIENT)
        servers = Servers(java, open_.enter_context(ours))
        for server in servers:
            prepare(server)
        yield servers


def prepare(server: BlockingConnection) -> None:
    stopped = SubscriptionGroupConfig(group_name=STOPPED, consume_enable=False)
    assert set_filters(server, "false").code == ResponseCode.SUCCESS  # ours is on if embedded
    wanted = (
        Bad("", topic(TOPIC)),
        Bad("", topic(WRITE_ONLY, perm=2)),
        Bad("", NoFields(), SubscriptionGroupConfig(group_name=GROUP).to_json(), UPDATE_GROUP),
        Bad("", NoFields(), stopped.to_json(), UPDATE_GROUP),
    )
    for one in wanted:
        assert server.request(one.header, one.body, code=one.code).code == ResponseCode.SUCCESS


def topic(name: str, **fields: Any) -> CreateTopic:
    values: dict[str, Any] = {
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "topic_sys_flag": 0,
    }
    return CreateTopic(topic=name, **{**values, **fields})


def send(name: str = TOPIC, **fields: Any) -> SendMessageV2:
    return replace(send_header(name, properties=UNIQUE_KEY), **fields)


def given(**more: str) -> str:
    return UNIQUE_KEY + properties.encode(more).decode()


def pull(name: str = TOPIC, **fields: Any) -> PullMessage:
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 1,
        "sys_flag": SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": "*",
        "sub_version": 0,
    }
    return PullMessage(topic=name, **{**values, **fields})


def group(name: str) -> bytes:
    return SubscriptionGroupConfig(group_name=name).to_json()


def back(**fields: Any) -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(**{"offset": 1 << 40, "group": GROUP, "delay_level": 0, **fields})


def reset(**fields: Any) -> ResetOffset:
    return ResetOffset(**{"group": GROUP, "topic": TOPIC, **fields})


def by_sql(expression: str, version: int = 1) -> SubscriptionData:
    return SubscriptionData(
        topic=TOPIC, sub_string=expression, expression_type="SQL92", sub_version=version
    )


def check(subscription: SubscriptionData) -> bytes:
    return SubscriptionCheck(
        client_id="none", group=GROUP, subscription_data=subscription
    ).to_json()


BATCH = batch.encode([(0, b"x", b"")])

SENDS = [
    Bad("a blank topic", send(" ", queue_id=99), b"x"),
    Bad("a foreign character", send("bad.topic", queue_id=99), TOO_LARGE),
    Bad("a foreign character in a long name", send("bad." + "t" * 200), b"x"),
    Bad("a long name", send("t" * 128, default_topic="none"), b"x"),
    Bad("a long name of a retry topic", send("%RETRY%" + "g" * 249), b"x"),
    Bad("a reserved topic", send("SCHEDULE_TOPIC_XXXX", queue_id=99), TOO_LARGE),
    Bad("an unknown topic", send("refusals-none", default_topic="none", queue_id=99), TOO_LARGE),
    Bad("a queue beyond the last", send(queue_id=4), TOO_LARGE),
    Bad("a queue of a system topic", send("BenchmarkTest", queue_id=5_000), b"x"),
    Bad("a body over the limit", send(), TOO_LARGE),
    Bad("properties over the limit", send(properties=TOO_LONG), b"x"),
    Bad("an inner batch by its flag", send(sys_flag=flags.INNER_BATCH), b"x"),
    Bad("an inner batch by its count", send(properties=given(INNER_NUM="2")), b"x"),
    Bad("a batch marked as inner", send(batch=True, sys_flag=flags.INNER_BATCH), BATCH),
    Bad("a batch of retries", send(f"%RETRY%{GROUP}", batch=True), BATCH),
    Bad("a batch to a long name", send("%DLQ%" + "g" * 123, batch=True), BATCH),
    Bad("a message given back that is not there", back()),
    Bad("a reply that names nobody", send(), b"x", REPLY),
    Bad("a reply to nobody", send(properties=given(REPLY_TO_CLIENT="none")), b"x", REPLY),
    Bad("a reply in a queue beyond the last", send(queue_id=4), b"x", REPLY),
]
PULLS = [
    Bad("a group that is stopped", pull("refusals-none", consumer_group=STOPPED)),
    Bad("an unknown topic", pull("refusals-none", queue_id=99)),
    Bad("a topic that nobody may read", pull(WRITE_ONLY, queue_id=99)),
    Bad("a queue beyond the last", pull(queue_id=4, sys_flag=0)),
    Bad("a queue before the first", pull(queue_id=-1, sys_flag=0)),
    Bad("a group without a member", pull(sys_flag=0)),
    Bad("a filter by SQL", pull(subscription="a > 5", expression_type="SQL92")),
    Bad("an offset that never was", pull(queue_offset=1_000)),
    Bad("a lite pull of an unknown topic", pull("none"), code=RequestCode.LITE_PULL_MESSAGE),
]
OFFSETS = [
    Bad("never committed", QueryConsumerOffset(consumer_group="new", topic="none", queue_id=0)),
    Bad(
        "never committed, and not 0",
        QueryConsumerOffset(
            consumer_group="new", topic=TOPIC, queue_id=0, set_zero_if_not_found=False
        ),
    ),
    Bad(
        "a commit of an unknown group",
        UpdateConsumerOffset(
            consumer_group="refused-none", topic="none", queue_id=0, commit_offset=1
        ),
    ),
    Bad(
        "a commit in an unknown topic",
        UpdateConsumerOffset(consumer_group=GROUP, topic="none", queue_id=0, commit_offset=1),
    ),
    Bad("a reset in an unknown topic", reset(topic="none", group="refused-none")),
    Bad("a reset of an unknown group", reset(group="refused-none")),
    Bad("a reset of a queue beyond the last", reset(queue_id=9, offset=0)),
    Bad("a reset to an offset that never was", reset(queue_id=0, offset=1_000)),
]
QUERIES = [
    Bad(
        "a key that nobody has",
        QueryMessage(topic=TOPIC, key="none", max_num=9, begin_timestamp=0, end_timestamp=1 << 42),
    ),
    Bad("an offset of the log", ViewMessage(topic=TOPIC, offset=1 << 40)),
    Bad("entries of an unknown queue", QueryConsumeQueue(topic="none", queue_id=3, count=1)),
    Bad("figures of an unknown topic", GetTopicStatsInfo(topic="none")),
    Bad("a figure that is not counted", ViewBrokerStatsData(stats_name="none", stats_key="x")),
    Bad("a time span of an unknown topic", QueryConsumeTimeSpan(topic="none", group=GROUP)),
    Bad("members of a group", GetConsumerListByGroup(consumer_group="refused-none")),
    Bad("consumers of a group", GetConsumerConnectionList(consumer_group="refused-none")),
    Bad("producers of a group", GetProducerConnectionList(producer_group="refused-none")),
    Bad("how a client is doing", GetConsumerRunningInfo(consumer_group=GROUP, client_id="none")),
    Bad("how clients are doing", GetConsumerStatus(topic=TOPIC, group="refused-none")),
    Bad("a filter by SQL", NoFields(), check(by_sql("a > 5")), RequestCode.CHECK_CLIENT_CONFIG),
    Bad("a request of another world", NoFields(), code=29_999),
]
ADMIN = [
    Bad("a blank topic", topic(" ")),
    Bad("a foreign character", topic("bad.topic")),
    Bad("a long name", topic("t" * 128)),
    Bad("a reserved topic", topic("TBW102", attributes="+message.type=MIXED")),
    Bad("a mixed topic", topic(TOPIC, attributes="+message.type=MIXED")),
    Bad("an attribute without a sign", topic(TOPIC, attributes="message.type=FIFO")),
    Bad("what is taken away without a sign", topic(TOPIC, attributes="message.type")),
    Bad("an attribute twice", topic(TOPIC, attributes="+message.type=FIFO,+message.type=DELAY")),
    Bad("an unknown attribute", topic(TOPIC, attributes="+colour=red")),
    Bad("an attribute that is fixed", topic(TOPIC, attributes="+queue.type=SimpleCQ")),
    Bad("an attribute that is not there", topic(TOPIC, attributes="-colour")),
    Bad("taken away from nothing", topic("refusals-none", attributes="-colour")),
    Bad("an attribute that is no word", topic(TOPIC, attributes="+a-b=c")),
    Bad("deleting nothing", DeleteTopic(topic=" ")),
    Bad("deleting a reserved topic", DeleteTopic(topic="SCHEDULE_TOPIC_XXXX")),
    Bad("settings of an unknown topic", GetTopicConfig(topic="none")),
    Bad("a blank group", NoFields(), group(" "), UPDATE_GROUP),
    Bad("a foreign character in a group", NoFields(), group("a b" + "g" * 200), UPDATE_GROUP),
    Bad("a long name of a group", NoFields(), group("g" * 121), UPDATE_GROUP),
    Bad(
        "a setting that is fixed",
        NoFields(),
        b"brokerConfigPath=/tmp/x",
        RequestCode.UPDATE_BROKER_CONFIG,
    ),
    Bad("settings cut short", NoFields(), b"a=\\u12", RequestCode.UPDATE_BROKER_CONFIG),
]
NAMESERVER = [
    Bad("a route of an unknown topic", GetRouteInfo(topic="refusals-none")),
    Bad("a key that is not there", GetKVConfig(namespace="none", key="k")),
    Bad("a namespace that is not there", GetKVListByNamespace(namespace="none")),
    Bad(
        "a setting that is fixed",
        NoFields(),
        b"kvConfigPath=/tmp/x",
        RequestCode.UPDATE_NAMESRV_CONFIG,
    ),
    Bad("settings cut short", NoFields(), b"a=\\u12", RequestCode.UPDATE_NAMESRV_CONFIG),
]


def assert_alike(servers: Servers, bad: Bad) -> None:
    java, ours = (server.request(bad.header, bad.body, code=bad.code) for server in servers)
    assert java.code != ResponseCode.SUCCESS
    assert ours.code == java.code, (ours.remark, java.remark)
    assert begins_as_java_s(ours.remark, java.remark), (ours.remark, java.remark)


@pytest.mark.parametrize("bad", SENDS, ids=lambda bad: bad.what)
def test_sends_are_refused_alike(brokers: Servers, bad: Bad) -> None:
    assert_alike(brokers, bad)


@pytest.mark.parametrize("bad", PULLS, ids=lambda bad: bad.what)
def test_pulls_are_refused_alike(brokers: Servers, bad: Bad) -> None:
    assert_alike(brokers, bad)


@pytest.mark.parametrize("bad", OFFSETS, ids=lambda bad: bad.what)
def test_offsets_are_refused_alike(brokers: Servers, bad: Bad) -> None:
    assert_alike(brokers, bad)


@pytest.mark.parametrize("bad", QUERIES, ids=lambda bad: bad.what)
def test_queries_are_refused_alike(brokers: Servers, bad: Bad) -> None:
    assert_alike(brokers, bad)


@pytest.mark.parametrize("bad", ADMIN, ids=lambda bad: bad.what)
def test_operators_are_refused_alike(brokers: Servers, bad: Bad) -> None:
    assert_alike(brokers, bad)


@pytest.mark.parametrize("bad", NAMESERVER, ids=lambda bad: bad.what)
def test_nameservers_refuse_alike(nameservers: Servers, bad: Bad) -> None:
    assert_alike(nameservers, bad)


def test_sql_expressions_are_refused_alike(brokers: Servers) -> None:
    """Where they are served: in the question of a starting client, and in a pull of its group."""
    bad = by_sql("a > > 5", version=5)
    beat = HeartbeatData(client_id="sql", consumer_data_set=(consumer(GROUP, bad),))
    try:
        for server in brokers:
            assert set_filters(server, "true").code == ResponseCode.SUCCESS
            assert server.request(Heartbeat(), beat.to_json()).code == ResponseCode.SUCCESS
        assert_alike(brokers, Bad("", pull(sys_flag=0, sub_version=5)))
        assert_alike(brokers, Bad("", pull(subscription="", expression_type="SQL92")))
        for subscription, code in (
            (by_sql("a > 5"), ResponseCode.SUCCESS),
            (bad, ResponseCode.SUBSCRIPTION_PARSE_FAILED),  # Java's words are its parser's
        ):
            for server in brokers:
                asked = check(subscription)
                answer = server.request(NoFields(), asked, code=RequestCode.CHECK_CLIENT_CONFIG)
                assert answer.code == code
    finally:
        for server in brokers:
            set_filters(server, "false")
            server.request(UnregisterClient(client_id="sql", consumer_group=GROUP))


def set_filters(server: BlockingConnection, value: str) -> Frame:
    settings = f"enablePropertyFilter={value}".encode()
    return server.request(NoFields(), settings, code=RequestCode.UPDATE_BROKER_CONFIG)
