from collections.abc import Mapping

from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.operator.subscriptions import SubscriptionHandlers
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.group import GroupList
from orbitmq.wire.bodies.query import SubscriptionAnswer
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.headers.query import (
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
)
from tests.broker.fake_clients import joined, tags
from tests.broker.world import World, ask


class Scene(World):
    """A group that is connected, and one that was once."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members()
        joined(self.members, "online", "orders")
        for topic in ("orders", "bills"):
            self.offsets.commit("gone", topic, 0, 1)

    def table(self) -> Mapping[int, Handler]:
        return SubscriptionHandlers(
            members=self.members, offsets=self.offsets, address=lambda: "10.0.0.1:10911"
        ).table()


def test_groups_read_a_topic_now_or_have_read_it() -> None:
    answer = ask(Scene().table(), QueryTopicConsumeByWho(topic="orders"))
    assert GroupList.from_json(answer.body).group_list == ("gone", "online")
    answer = ask(Scene().table(), QueryTopicConsumeByWho(topic="nothing"))
    assert GroupList.from_json(answer.body).group_list == ()


def test_the_topics_of_a_group_are_those_it_has_committed_in() -> None:
    answer = ask(Scene().table(), QueryTopicsByConsumer(group="gone"))
    found = TopicList.from_json(answer.body)
    assert (found.topic_list, found.broker_addr) == (("bills", "orders"), "10.0.0.1:10911")


def test_a_subscription_is_returned_if_there_is_one() -> None:
    answer = ask(Scene().table(), QuerySubscriptionByConsumer(group="online", topic="orders"))
    found = SubscriptionAnswer.from_json(answer.body)
    assert (found.group, found.topic) == ("online", "orders")
    assert found.subscription_data == tags("orders")
    answer = ask(Scene().table(), QuerySubscriptionByConsumer(group="gone"))
    assert SubscriptionAnswer.from_json(answer.body).subscription_data is None
