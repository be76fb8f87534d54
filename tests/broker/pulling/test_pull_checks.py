from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.broker.clients.members import Members
from orbitmq.broker.pulling.pull_checks import PullChecks
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import MessageModel, SubscriptionData
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage
from tests.broker.fake_clients import Client, consumer, tags
from tests.broker.world import World


class Scene(World):
    """A topic of two queues, and a group that subscribes to it by tags."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.members = Members()
        self.topics.update([TopicConfig(topic_name="orders", read_queue_nums=2)])
        self.groups.get("billing")
        self.join(tags("orders", "paid", 7, version=5))

    def join(
        self, *subscriptions: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING
    ) -> None:
        self.members.join_consumers(
            consumer("billing", *subscriptions, model=model), Client().member()
        )

    def checks(self) -> PullChecks:
        return PullChecks(
            settings=self.settings,
            topics=self.topics,
            groups=self.groups,
            members=self.members,
            filters=self.filters,
            own_host=lambda: "10.0.0.9",
        )

    def refusal(self, code: int = RequestCode.PULL_MESSAGE, **fields: Any) -> Refusal:
        with pytest.raises(Refusal) as refusal:
            self.checks().check(pull(**fields), code, "10.0.0.7:50000")
        return refusal.value

    def set_group(self, **fields: Any) -> None:
        self.groups.update([SubscriptionGroupConfig(group_name="billing", **fields)])


def pull(**fields: Any) -> PullMessage:
    given = {
        "consumer_group": "billing", "topic": "orders", "queue_id": 0, "queue_offset": 0,
        "max_msg_nums": 32, "sys_flag": 0, "commit_offset": 0, "suspend_timeout_millis": 15_000,
        "sub_version": 5,
    }  # fmt: skip
    return PullMessage(**{**given, **fields})


def test_a_pull_of_a_group_gets_what_its_heartbeats_subscribe_to() -> None:
    scene = Scene()
    checked = scene.checks().check(pull(), RequestCode.PULL_MESSAGE, "peer")
    assert checked.topic.topic_name == "orders"
    assert checked.group.group_name == "billing"
    assert checked.subscription.code_set == (7,)


def test_a_pull_that_brings_its_subscription_needs_no_heartbeat() -> None:
    asked = pull(consumer_group="new", sys_flag=SUBSCRIPTION, subscription="late")
    checked = Scene().checks().check(asked, RequestCode.LITE_PULL_MESSAGE, "peer")
    assert checked.subscription.tags_set == ("late",)


def test_a_broker_that_may_not_be_read_refuses_first_of_all() -> None:
    refusal = Scene(broker_permission=2).refusal(topic="nothing", consumer_group="bad group")
    assert refusal.code == ResponseCode.NO_PERMISSION
    assert refusal.remark == "the broker[10.0.0.9] pulling message is forbidden"
    assert refusal.fields == {"forbiddenType": "1"}


def test_lite_pulls_can_be_switched_off() -> None:
    scene = Scene(lite_pull_message_enable=False)
    refusal = scene.refusal(RequestCode.LITE_PULL_MESSAGE)
    assert refusal.remark == "the broker[10.0.0.9] for lite pull consumer is forbidden"
    scene.checks().check(pull(), RequestCode.PULL_MESSAGE, "peer")


def test_an_unknown_group_is_created_unless_that_is_off() -> None:
    brought: dict[str, Any] = {"consumer_group": "new", "sys_flag": SUBSCRIPTION}
    Scene().checks().check(pull(**brought), RequestCode.PULL_MESSAGE, "peer")
    refusal = Scene(auto_create_subscription_group=False).refusal(**brought)
    assert refusal.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "subscription group [new] does not exist" in refusal.remark
    assert "autoCreateSubscriptionGroup" in refusal.remark


def test_a_group_can_be_kept_from_consuming() -> None:
    scene = Scene()
    scene.set_group(consume_enable=False)
    refusal = scene.refusal(topic="nothing")
    assert refusal.remark == "subscription group no permission, billing"
    assert refusal.fields == {"forbiddenType": "2"}


def test_a_topic_has_to_exist_and_be_readable() -> None:
    scene = Scene()
    refusal = scene.refusal(topic="nothing")
    assert refusal.code == ResponseCode.TOPIC_NOT_EXIST
    assert refusal.remark.startswith("topic[nothing] not exist, apply first please!")
    scene.topics.update([TopicConfig(topic_name="orders", perm=2)])
    refusal = scene.refusal()
    assert refusal.remark == "the topic[orders] pulling message is forbidden"
    assert refusal.fields == {"forbiddenType": "3"}


@pytest.mark.parametrize("queue_id", [-1, 2])
def test_a_queue_has_to_be_one_of_the_topic_s(queue_id: int) -> None:
    refusal = Scene().refusal(queue_id=queue_id)
    assert refusal.code == ResponseCode.INVALID_PARAMETER
    assert refusal.remark == (
        f"queueId[{queue_id}] is illegal, topic:[orders] topicConfig.readQueueNums:[2] "
        "consumer:[/10.0.0.7:50000]"
    )


def test_without_a_heartbeat_the_subscription_is_unknown() -> None:
    refusal = Scene().refusal(consumer_group="audit")
    assert refusal.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert refusal.remark.startswith("the consumer's group info not exist")


def test_a_group_can_be_kept_from_broadcasting() -> None:
    scene = Scene()
    scene.set_group(consume_broadcast_enable=False)
    scene.checks().check(pull(), RequestCode.PULL_MESSAGE, "peer")
    scene.join(tags("orders"), model=MessageModel.BROADCASTING)
    refusal = scene.refusal()
    assert refusal.remark == "the consumer group[billing] can not consume by broadcast way"
    assert refusal.fields == {"forbiddenType": "4"}


def test_a_group_can_be_kept_from_a_topic() -> None:
    scene = Scene()
    scene.groups.forbid("billing", "orders", on=True)
    refusal = scene.refusal()
    assert refusal.remark == "the consumer group[billing] is forbidden for topic[orders]"
    assert refusal.fields == {"forbiddenType": "5"}


def test_a_topic_that_the_group_does_not_subscribe_to_is_refused() -> None:
    scene = Scene()
    scene.topics.update([TopicConfig(topic_name="bills")])
    refusal = scene.refusal(topic="bills")
    assert refusal.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert refusal.remark.startswith("the consumer's subscription not exist")


def test_a_pull_newer_than_the_last_heartbeat_has_to_wait_for_one() -> None:
    refusal = Scene().refusal(sub_version=6)
    assert refusal.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert refusal.remark == "the consumer's subscription not latest"


# Filters by SQL92


def sql_scene(expression: str = "a > 1", *, registered: bool = True, **settings: object) -> Scene:
    scene = Scene(**settings)
    subscription = replace(tags("orders", expression, version=6), expression_type="SQL92")
    scene.join(subscription)
    if registered:
        scene.filters.register("billing", [subscription])
    return scene


SENT: Any = {"sys_flag": SUBSCRIPTION, "expression_type": "SQL92"}


def test_without_the_setting_only_tags_can_be_filtered_by() -> None:
    scene = sql_scene()
    for fields in ({}, {"subscription": "a > 1", **SENT}):
        refusal = scene.refusal(**fields)
        assert refusal.code == ResponseCode.SYSTEM_ERROR
        assert "filter message by SQL92" in refusal.remark


def test_a_pull_has_the_filter_of_its_heartbeats_or_its_own() -> None:
    scene = sql_scene(enable_property_filter=True)
    for fields, matching in (({}, "2"), ({"subscription": "a > 5", **SENT}, "6")):
        checked = scene.checks().check(pull(**fields), RequestCode.PULL_MESSAGE, "peer")
        assert checked.record_filter is not None
        assert checked.record_filter.matches(f"a\x01{matching}\x02")
        assert not checked.record_filter.matches("a\x010\x02")


def test_a_pull_without_a_filter_that_can_be_parsed_is_refused_with_the_reason() -> None:
    scene = sql_scene("a > > 1", enable_property_filter=True)
    refusal = scene.refusal()
    assert refusal.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert refusal.remark.startswith("The broker's consumer filter data is not exist!")
    assert "character 5" in refusal.remark
    refusal = scene.refusal(subscription="a > > 1", **SENT)
    assert refusal.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "character 5" in refusal.remark


def test_a_pull_newer_than_its_filter_has_to_wait_for_a_heartbeat() -> None:
    scene = sql_scene(enable_property_filter=True)
    scene.join(replace(tags("orders", "a > 1", version=8), expression_type="SQL92"))
    refusal = scene.refusal(sub_version=8)
    assert refusal.code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert refusal.remark == "the consumer's consumer filter data not latest"


def test_a_retry_topic_can_be_filtered_by_the_topics_of_its_messages() -> None:
    scene = sql_scene(enable_property_filter=True, filter_support_retry=True)
    scene.topics.update([TopicConfig(topic_name="%RETRY%billing")])
    asked = pull(topic="%RETRY%billing", subscription="FALSE", **SENT)
    checked = scene.checks().check(asked, RequestCode.PULL_MESSAGE, "peer")
    assert checked.record_filter is not None
    assert checked.record_filter.matches("a\x012\x02RETRY_TOPIC\x01orders\x02")
    assert not checked.record_filter.matches("a\x010\x02RETRY_TOPIC\x01orders\x02")
