from typing import Any

import pytest

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.clients.members import Members
from orbitmq.broker.clients.queue_locks import LOCK_MS, QueueLocks
from orbitmq.broker.handlers.client.members import MemberHandlers
from orbitmq.message.model import MessageQueue
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies import members as bodies
from orbitmq.wire.bodies.group import ConsumerIdList, SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionCheck,
    SubscriptionData,
)
from orbitmq.wire.bodies.locks import LockedQueues, LockRequest, UnlockRequest
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.headers.heartbeat import (
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetProducerConnectionList,
    Heartbeat,
    HeartbeatAnswer,
    LockBatchMq,
    NotifyConsumerIdsChanged,
    UnlockBatchMq,
    UnregisterClient,
)
from orbitmq.wire.session import Response
from tests.broker.fake_clients import Client, consumer, tags
from tests.broker.world import World
from tests.store.logs import NOW

EXPIRY_MS = 120_000
REBALANCE = (NotifyConsumerIdsChanged(consumer_group="billing"), b"")


class Scene(World):
    """A broker that knows two clients, of which none has sent a heartbeat."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.one, self.other = Client("one"), Client("other")
        self.members = Members()
        self.handlers = MemberHandlers(
            members=self.members,
            locks=QueueLocks(),
            topics=self.topics,
            groups=self.groups,
            calls=ClientCalls(self.members),
            filters=self.filters,
            settings=self.settings,
            clock=self.clock,
        )

    def ask(self, client: Client, header: Header, body: bytes = b"", **more: Any) -> Response:
        answer = client.ask(self.handlers.table(), header, body, **more)
        assert answer is not None
        return answer

    def beat(self, client: Client, *groups: ConsumerData, **fields: Any) -> HeartbeatAnswer:
        """Send a heartbeat as a consumer of groups; return its answer."""
        data = HeartbeatData(client_id=client.client_id, consumer_data_set=groups, **fields)
        answer = self.ask(client, Heartbeat(), data.to_json()).header
        assert isinstance(answer, HeartbeatAnswer)
        return answer

    def client_ids(self) -> tuple[str, ...]:
        asked = GetConsumerListByGroup(consumer_group="billing")
        return ConsumerIdList.from_json(body_of(self.ask(self.one, asked))).consumer_id_list


def body_of(answer: Response) -> bytes:
    assert isinstance(answer.body, bytes)
    return answer.body


BILLING = consumer("billing", tags("orders"))


@pytest.fixture
def scene() -> Scene:
    return Scene()


# Heartbeats


def test_a_heartbeat_takes_a_client_in(scene: Scene) -> None:
    answer = scene.beat(scene.one, BILLING, producer_data_set=(ProducerData(group_name="shop"),))
    assert (answer.supports_v2, answer.subscriptions_changed) == (True, True)
    assert scene.client_ids() == ("one",)
    assert scene.members.producer_groups() == ["shop"]


def test_a_consumer_needs_a_retry_topic(scene: Scene) -> None:
    scene.groups.update([SubscriptionGroupConfig(group_name="billing", retry_queue_nums=3)])
    scene.beat(scene.one, BILLING)
    topic = scene.topics.get("%RETRY%billing")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm, topic.topic_sys_flag) == (3, 6, 0)


def test_a_consumer_of_another_unit_marks_its_retry_topic(scene: Scene) -> None:
    scene.beat(scene.one, ConsumerData(group_name="billing", unit_mode=True))
    topic = scene.topics.get("%RETRY%billing")
    assert topic is not None
    assert topic.topic_sys_flag == 2


def test_a_group_that_may_not_be_created_is_ignored() -> None:
    scene = Scene(auto_create_subscription_group=False)
    scene.beat(scene.one, BILLING, heartbeat_fingerprint=5)
    assert scene.members.consumers("billing") is None
    assert scene.topics.get("%RETRY%billing") is None
    assert scene.members._fingerprints == {}


def test_a_new_member_makes_all_members_rebalance(scene: Scene) -> None:
    scene.beat(scene.one, BILLING)
    scene.one.received.clear()
    scene.beat(scene.other, BILLING)
    assert (scene.one.received, scene.other.received) == ([REBALANCE], [REBALANCE])
    scene.beat(scene.other, BILLING)
    assert len(scene.one.received) == 1


@pytest.mark.parametrize("of_group", [True, False])
def test_members_are_not_notified_if_that_is_off(of_group: bool) -> None:
    scene = Scene(notify_consumer_ids_changed_enable=of_group)
    scene.groups.update(
        [
            SubscriptionGroupConfig(
                group_name="billing", notify_consumer_ids_changed_enable=not of_group
            )
        ]
    )
    scene.beat(scene.one, BILLING)
    assert scene.one.received == []


def test_a_fingerprint_saves_the_subscriptions(scene: Scene) -> None:
    first = scene.beat(scene.one, BILLING, heartbeat_fingerprint=5)
    assert first.subscriptions_changed is False
    again = scene.beat(scene.one, consumer("billing"), heartbeat_fingerprint=5, without_sub=True)
    assert again.subscriptions_changed is False
    assert scene.members.subscription("billing", "orders") == tags("orders")


def test_a_broker_that_was_restarted_asks_for_them(scene: Scene) -> None:
    answer = scene.beat(scene.one, consumer("billing"), heartbeat_fingerprint=5, without_sub=True)
    assert answer.subscriptions_changed is True
    assert scene.client_ids() == ("one",)


def test_another_fingerprint_asks_for_them(scene: Scene) -> None:
    scene.beat(scene.one, BILLING, heartbeat_fingerprint=5)
    more = consumer("billing", tags("orders"), tags("bills"))
    assert scene.beat(scene.other, more, heartbeat_fingerprint=6).subscriptions_changed is True


# Going


def test_a_client_that_unregisters_is_removed(scene: Scene) -> None:
    shop = (ProducerData(group_name="shop"),)
    for client in (scene.one, scene.other):
        scene.beat(client, BILLING, producer_data_set=shop)
    scene.one.received.clear()
    farewell = UnregisterClient(client_id="other", consumer_group="billing", producer_group="shop")
    assert scene.ask(scene.other, farewell).code == 0
    assert scene.client_ids() == ("one",)
    assert [member.client_id for member in scene.members.producers("shop")] == ["one"]
    assert scene.one.received == [REBALANCE]
    scene.ask(scene.other, UnregisterClient(client_id="other", consumer_group="nobody"))


def test_a_lost_connection_is_a_good_bye(scene: Scene) -> None:
    for _ in range(2):
        scene.beat(scene.one, BILLING)
        scene.beat(scene.other, BILLING)
    scene.one.received.clear()
    scene.other.abort("the peer closed it")
    assert scene.client_ids() == ("one",)
    assert scene.one.received == [REBALANCE]


def test_a_silent_client_is_disconnected(scene: Scene) -> None:
    scene.beat(scene.one, BILLING)
    scene.clock.now += EXPIRY_MS
    scene.beat(scene.other, BILLING)
    scene.handlers.expire(EXPIRY_MS)
    assert scene.client_ids() == ("one", "other")
    scene.clock.now += 1
    scene.handlers.expire(EXPIRY_MS)
    assert scene.one.closed_for == "no heartbeat for 120000 ms"
    assert scene.client_ids() == ("other",)


# Asking


def test_a_group_without_members_is_java_s_error(scene: Scene) -> None:
    with pytest.raises(Refusal, match="no consumer for this group, billing") as refusal:
        scene.client_ids()
    assert refusal.value.code == ResponseCode.SYSTEM_ERROR


def test_two_connections_of_one_client_are_one_id(scene: Scene) -> None:
    scene.beat(scene.one, BILLING)
    scene.beat(Client("one"), BILLING)
    assert scene.client_ids() == ("one",)


def test_the_connections_of_a_group_are_listed(scene: Scene) -> None:
    asked = GetConsumerConnectionList(consumer_group="billing")
    with pytest.raises(Refusal, match="the consumer group.billing. not online") as refusal:
        scene.ask(scene.one, asked)
    assert refusal.value.code == ResponseCode.CONSUMER_NOT_ONLINE
    scene.beat(scene.one, BILLING)
    found = bodies.ConsumerConnection.from_json(body_of(scene.ask(scene.one, asked)))
    (connection,) = found.connection_set
    assert (connection.client_id, connection.client_addr) == ("one", scene.one.peer)
    assert (connection.language, connection.version) == ("JAVA", 493)
    assert found.subscription_table == {"orders": tags("orders")}
    assert found.consume_type == BILLING.consume_type
    assert found.message_model == BILLING.message_model
    assert found.consume_from_where == BILLING.consume_from_where


def test_the_producers_of_a_group_are_listed(scene: Scene) -> None:
    asked = GetProducerConnectionList(producer_group="shop")
    with pytest.raises(Refusal, match="the producer group.shop. not exist"):
        scene.ask(scene.one, asked)
    scene.beat(scene.one, producer_data_set=(ProducerData(group_name="shop"),))
    found = bodies.ProducerConnection.from_json(body_of(scene.ask(scene.one, asked)))
    assert [connection.client_id for connection in found.connection_set] == ["one"]


def test_all_producers_are_listed_with_the_time_of_their_last_heartbeat(scene: Scene) -> None:
    scene.beat(scene.one, producer_data_set=(ProducerData(group_name="shop"),))
    scene.clock.now += 7_000
    answer = scene.ask(scene.one, GetAllProducerInfo())
    ((producer,),) = bodies.ProducerTableInfo.from_json(body_of(answer)).data.values()
    assert (producer.client_id, producer.remote_ip) == ("one", f"/{scene.one.peer}")
    assert producer.last_update_timestamp == NOW


@pytest.mark.parametrize(
    ("subscription", "code"),
    [
        (None, 0),
        (tags("orders"), 0),
        (SubscriptionData(topic="orders", expression_type="SQL92"), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_client_asks_whether_its_filter_can_be_served(
    scene: Scene, subscription: SubscriptionData | None, code: int
) -> None:
    body = SubscriptionCheck(client_id="one", subscription_data=subscription).to_json()
    try:
        answer = scene.ask(scene.one, NoFields(), body, code=RequestCode.CHECK_CLIENT_CONFIG)
    except Refusal as refusal:
        answer = refusal.response()
    assert answer.code == code


@pytest.mark.parametrize(
    ("expression", "kind", "remark"),
    [
        ("a > 1", "SQL92", None),
        ("a > > 1", "SQL92", "SQL92 expression 'a > > 1', character 5"),
        ("a > 1", "XPATH", "expressions of type XPATH are not known"),
    ],
)
def test_the_expression_of_a_filter_is_checked(
    expression: str, kind: str, remark: str | None
) -> None:
    scene = Scene(enable_property_filter=True)
    data = SubscriptionData(topic="orders", sub_string=expression, expression_type=kind)
    body = SubscriptionCheck(client_id="one", subscription_data=data).to_json()
    code = RequestCode.CHECK_CLIENT_CONFIG
    if remark is None:
        assert scene.ask(scene.one, NoFields(), body, code=code).code == 0
        return
    with pytest.raises(Refusal) as refusal:
        scene.ask(scene.one, NoFields(), body, code=code)
    assert refusal.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert refusal.value.remark.startswith(remark)


def test_heartbeats_bring_filters_that_die_with_the_last_consumer(scene: Scene) -> None:
    data = SubscriptionData(topic="orders", sub_string="a > 1", expression_type="SQL92")
    for client in (scene.one, scene.other):
        scene.beat(client, consumer("billing", data))
    found = scene.filters.get("billing", "orders")
    assert found is not None
    scene.ask(scene.one, UnregisterClient(client_id="one", consumer_group="billing"))
    assert not found.is_dead
    scene.other.abort("gone")
    assert found.is_dead
    scene.clock.now += 86_400_000
    scene.handlers.expire(EXPIRY_MS)
    assert scene.filters.get("billing", "orders") is None


def test_a_heartbeat_without_subscriptions_leaves_the_filters(scene: Scene) -> None:
    data = SubscriptionData(topic="orders", sub_string="a > 1", expression_type="SQL92")
    scene.beat(scene.one, consumer("billing", data))
    scene.beat(scene.one, consumer("billing"), without_sub=True, heartbeat_fingerprint=7)
    found = scene.filters.get("billing", "orders")
    assert found is not None
    assert not found.is_dead


# Locks


def test_queues_are_locked_for_one_client_until_it_gives_them_back(scene: Scene) -> None:
    queue = MessageQueue("orders", "broker-a", 0)

    def lock(client: Client) -> tuple[MessageQueue, ...]:
        asked = LockRequest(client_id=client.client_id, consumer_group="billing", mq_set=(queue,))
        answer = scene.ask(client, LockBatchMq(), asked.to_json())
        return LockedQueues.from_json(body_of(answer)).locked

    assert lock(scene.one) == (queue,)
    assert lock(scene.other) == ()
    back = UnlockRequest(client_id="one", consumer_group="billing", mq_set=(queue,))
    assert scene.ask(scene.one, UnlockBatchMq(), back.to_json()).code == 0
    assert lock(scene.other) == (queue,)
    scene.clock.now += LOCK_MS + 1
    scene.handlers.expire(EXPIRY_MS)
    assert lock(scene.one) == (queue,)
