"""Node's and Go's clients against our servers: what one sends the other gets, and the reverse."""

import itertools
from collections.abc import Iterable, Iterator

import msgspec
import pytest

from orbitmq.embedded import RunningCluster
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup
from orbitmq.wire.headers.offset import QueryConsumerOffset, QueryConsumerOffsetAnswer
from orbitmq.wire.headers.pull import PullMessage
from orbitmq.wire.headers.query import QueryMessage, ViewMessage
from orbitmq.wire.headers.route import GetRouteInfo
from tests.interop.client_packages import GO, NODE, OTHER_CLIENTS, OtherClient
from tests.interop.client_process import REFUSED_ONCE, Delivery, Order, Receipt, Receiver, Sender
from tests.interop.conftest import decline
from tests.interop.team import create_topic
from tests.interop.waiting import until

QUEUES = 4
COMPRESSED_BYTES = 10_000
"""Both clients compress a body of 4 KiB and more."""

END_OF_TIME_MS = 2**62

each_client = pytest.mark.parametrize("client", OTHER_CLIENTS, ids=lambda client: client.language)
both_ways = pytest.mark.parametrize(
    ("sends", "receives"), [(GO, NODE), (NODE, GO)], ids=["go to node", "node to go"]
)


@pytest.fixture(scope="module", autouse=True)
def present() -> None:
    for client in OTHER_CLIENTS:
        if why := client.missing():
            decline(why)


@pytest.fixture
def broker(our_cluster: RunningCluster) -> Iterator[BlockingConnection]:
    with BlockingConnection(Address.parse(our_cluster.brokers[0])) as connection:
        yield connection


numbers = itertools.count(1)


@pytest.fixture
def topic(our_cluster: RunningCluster) -> str:
    """A topic of this test's own that clients can find."""
    name = f"other-clients-{next(numbers)}"
    create_topic(Address.parse(our_cluster.brokers[0]), name, queues=QUEUES)
    with BlockingConnection(Address.parse(our_cluster.nameserver)) as nameserver:
        until(lambda: has_route(nameserver, name), what=f"the route of {name}")
    return name


def has_route(nameserver: BlockingConnection, topic: str) -> bool:
    return nameserver.request(GetRouteInfo(topic=topic)).code == ResponseCode.SUCCESS


def orders(topic: str, what: str, *, tags: str = "paid", count: int = 6) -> list[Order]:
    """Messages for every queue and more, one of them with a body that clients compress."""
    bodies = [f"{what} {number}, grün, 東京 🚀".encode() for number in range(count)]
    bodies[-1] = bodies[-1].ljust(COMPRESSED_BYTES, b".")
    keys = [(f"{what}-{number}", "shared") for number in range(count)]
    return [Order(topic, tags, key, body) for key, body in zip(keys, bodies, strict=True)]


def by_key(deliveries: list[Delivery]) -> dict[str, Delivery]:
    """Deliveries by their keys; queues have no order among each other."""
    return {delivery.keys: delivery for delivery in deliveries}


def check(order: Order, receipt: Receipt, delivery: Delivery) -> None:
    """A message arrived as it was sent, and from the place that the sender was told."""
    assert receipt.status == "SEND_OK"
    assert (delivery.topic, delivery.tags) == (order.topic, order.tags)
    assert delivery.body == order.body
    assert delivery.offset_id == receipt.offset_id
    assert (delivery.queue_id, delivery.queue_offset) == (receipt.queue_id, receipt.queue_offset)
    # Node's client makes no unique id: the broker does, and tells whoever receives the message.
    assert receipt.unique_id in ("", delivery.unique_id)
    assert delivery.unique_id
    assert delivery.reconsume_times == 0


@both_ways
def test_what_one_sends_the_other_gets(
    sends: OtherClient, receives: OtherClient, our_cluster: RunningCluster, topic: str
) -> None:
    before, while_it_waits = orders(topic, "before"), orders(topic, "waiting")
    with Sender(sends, our_cluster.nameserver) as sender:
        receipts = sender.send(before)
        with Receiver(receives, our_cluster.nameserver, topic, f"group-{topic}") as receiver:
            deliveries = receiver.receive(len(before))
            receipts += sender.send(while_it_waits)
            deliveries += receiver.receive(len(while_it_waits))
    got = by_key(deliveries)
    for order, receipt in zip(before + while_it_waits, receipts, strict=True):
        check(order, receipt, got.pop(" ".join(order.keys)))
    assert not got


@each_client
def test_what_a_sender_is_told_is_where_its_message_is(
    client: OtherClient, our_cluster: RunningCluster, broker: BlockingConnection, topic: str
) -> None:
    sent = orders(topic, "told")
    with Sender(client, our_cluster.nameserver) as sender:
        receipts = sender.send(sent)
    for order, receipt in zip(sent, receipts, strict=True):
        assert receipt.broker == "broker-a"
        (by_id,) = messages_in(broker.request(ViewMessage(offset=offset_in(receipt))))
        (by_place,) = messages_in(broker.request(place_of(topic, receipt)))
        (with_key,) = messages_in(broker.request(keyed(topic, order.keys[0])))
        (by_unique_id,) = messages_in(broker.request(unique(topic, by_id.message_id)))
        assert by_id == by_place == with_key == by_unique_id
        assert receipt.unique_id in ("", by_id.message_id)
        assert (by_id.body, by_id.tags, by_id.keys) == (order.body, order.tags, order.keys)
        assert (by_id.queue_id, by_id.queue_offset) == (receipt.queue_id, receipt.queue_offset)


def messages_in(answer: Frame) -> list[StoredMessage]:
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode_all(answer.body, broker_name="broker-a")


def offset_in(receipt: Receipt) -> int:
    """The place in the commit log that an offset id names."""
    _host, offset = parse_offset_id(receipt.offset_id)
    return offset


def place_of(topic: str, receipt: Receipt) -> PullMessage:
    """A pull of the one message that a receipt is about."""
    return PullMessage(
        consumer_group="pullers",
        topic=topic,
        queue_id=receipt.queue_id,
        queue_offset=receipt.queue_offset,
        max_msg_nums=1,
        sys_flag=4,  # the subscription is in this header
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )


def keyed(topic: str, key: str) -> QueryMessage:
    """A query for the messages with a key, of any time."""
    return QueryMessage(
        topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=END_OF_TIME_MS
    )


def unique(topic: str, unique_id: str) -> QueryMessage:
    """A query for the message with a unique id."""
    return msgspec.structs.replace(keyed(topic, unique_id), unique_key=True)


@each_client
def test_a_consumer_gets_the_tags_that_it_asks_for(
    client: OtherClient, our_cluster: RunningCluster, topic: str
) -> None:
    paid, lost, sent = (orders(topic, tag, tags=tag) for tag in ("paid", "lost", "sent"))
    with Sender(client, our_cluster.nameserver) as sender:
        sender.send(paid + lost + sent)
    tags = "paid || sent"
    with Receiver(client, our_cluster.nameserver, topic, f"group-{topic}", tags) as receiver:
        got = receiver.receive(len(paid) + len(sent))
    assert by_key(got).keys() == {" ".join(order.keys) for order in paid + sent}


@each_client
def test_a_group_goes_on_where_it_was_and_gets_again_what_it_refused(
    client: OtherClient, our_cluster: RunningCluster, broker: BlockingConnection, topic: str
) -> None:
    group = f"group-{topic}"
    first, refused = orders(topic, "first"), orders(topic, "refused", tags=REFUSED_ONCE, count=1)
    with Sender(client, our_cluster.nameserver) as sender:
        receipts = sender.send(first)
        with Receiver(client, our_cluster.nameserver, topic, group) as receiver:
            receiver.receive(len(first))
        behind = left_to_read(broker, topic, group, zip(first, receipts, strict=True))
        sender.send(refused)
    assert len(behind) < len(first)
    with Receiver(client, our_cluster.nameserver, topic, group) as receiver:
        got = receiver.receive(len(behind) + 2)
    once, again = (delivery for delivery in got if delivery.tags == REFUSED_ONCE)
    assert by_key(got).keys() == {" ".join(order.keys) for order in behind + refused}
    assert (once.reconsume_times, again.reconsume_times) == (0, 1)
    assert (once.topic, once.body) == (again.topic, again.body) == (topic, refused[0].body)
    assert once.unique_id == again.unique_id


def left_to_read(
    broker: BlockingConnection, topic: str, group: str, sent: Iterable[tuple[Order, Receipt]]
) -> list[Order]:
    """Wait until the broker has heard the last of a group, and return what it has not committed.

    That need not be nothing: a pull that Go's client sends while it stops may commit less than what
    it committed a moment before.
    """
    until(lambda: not has_members(broker, group), what=f"{group} is gone")
    at = [
        broker.request(QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue))
        .read(QueryConsumerOffsetAnswer)
        .offset
        for queue in range(QUEUES)
    ]
    return [order for order, receipt in sent if receipt.queue_offset >= at[receipt.queue_id]]


def has_members(broker: BlockingConnection, group: str) -> bool:
    return broker.request(GetConsumerListByGroup(consumer_group=group)).code == ResponseCode.SUCCESS


def test_a_send_to_a_new_topic_makes_the_topic(our_cluster: RunningCluster) -> None:
    name = f"made-by-go-{next(numbers)}"
    sent = orders(name, "first")
    # By Go's client: Node's gives up when a topic has no route.
    with Sender(GO, our_cluster.nameserver) as sender:
        sender.send(sent)
    with Receiver(NODE, our_cluster.nameserver, name, f"group-{name}") as receiver:
        got = receiver.receive(len(sent))
    assert by_key(got).keys() == {" ".join(order.keys) for order in sent}
