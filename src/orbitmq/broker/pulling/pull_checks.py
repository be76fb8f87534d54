"""The checks before a pull is served, in the order of Java's broker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from orbitmq.broker.clients.members import Members
from orbitmq.broker.pulling import filters
from orbitmq.broker.pulling.consumer_filters import ConsumerFilters, RetryFilter
from orbitmq.broker.pulling.sql92.parser import SqlFilter
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.topics import Topics
from orbitmq.message.names import is_retry_topic
from orbitmq.net.refusal import Refusal
from orbitmq.store.serving.pull_reader import RecordFilter
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import MessageModel, SubscriptionData
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import READ, RequestCode, ResponseCode
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage

__all__ = ["CheckedPull", "PullChecks"]

# The kind of a refusal (ForbiddenType in Java), for proxies.
_BROKER_FORBIDDEN: Final = "1"
_GROUP_FORBIDDEN: Final = "2"
_TOPIC_FORBIDDEN: Final = "3"
_BROADCASTING_FORBIDDEN: Final = "4"
_SUBSCRIPTION_FORBIDDEN: Final = "5"


class CheckedPull(msgspec.Struct, frozen=True, gc=False):
    """A pull that passed the checks, with its topic, group and subscription."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    subscription: SubscriptionData
    record_filter: RecordFilter | None = None
    """What selects by properties; None if tags select, or nothing."""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class PullChecks:
    """Checks pulls against the settings, the topic, the group and its subscriptions."""

    settings: LiveSettings
    topics: Topics
    groups: Groups
    members: Members
    filters: ConsumerFilters
    own_host: Callable[[], str]
    why_unreadable: Callable[[], str] = lambda: ""
    """Returns why no pulls are served yet; empty if they are."""

    def check(self, pull: PullMessage, code: int, peer: str) -> CheckedPull:
        """Check a pull; raise Refusal, with the reason as its remark, if it is not allowed."""
        if why := self.why_unreadable():
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST]system busy, start flow control for a while. {why}",
            )
        self._check_broker(code)
        group = self._group(pull.consumer_group)
        topic = self._topic(pull, peer)
        if pull.sys_flag & SUBSCRIPTION:
            subscription = filters.subscription_of(
                pull.topic, pull.subscription, pull.expression_type
            )
        else:
            subscription = self._subscription(pull, group)
        if filters.is_by_tags(subscription.expression_type):
            return CheckedPull(topic, group, subscription)
        return CheckedPull(topic, group, subscription, self._record_filter(pull, subscription))

    def _check_broker(self, code: int) -> None:
        settings = self.settings.broker
        if not settings.broker_permission & READ:
            raise _forbidden(
                f"the broker[{self.own_host()}] pulling message is forbidden",
                _BROKER_FORBIDDEN,
            )
        if code == RequestCode.LITE_PULL_MESSAGE and not settings.lite_pull_message_enable:
            raise _forbidden(
                f"the broker[{self.own_host()}] for lite pull consumer is forbidden",
                _BROKER_FORBIDDEN,
            )

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self.groups.get(name)
        if group is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, create it, or set "
                "autoCreateSubscriptionGroup=true at the broker",
            )
        if not group.consume_enable:
            raise _forbidden(f"subscription group no permission, {name}", _GROUP_FORBIDDEN)
        return group

    def _topic(self, pull: PullMessage, peer: str) -> TopicConfig:
        topic = self.topics.get(pull.topic)
        if topic is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{pull.topic}] not exist, apply first please! Create it, or send to it "
                "while autoCreateTopicEnable=true",
            )
        if not topic.perm & READ:
            raise _forbidden(
                f"the topic[{pull.topic}] pulling message is forbidden", _TOPIC_FORBIDDEN
            )
        if not 0 <= pull.queue_id < topic.read_queue_nums:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer}]",
            )
        return topic

    def _subscription(self, pull: PullMessage, group: SubscriptionGroupConfig) -> SubscriptionData:
        name = pull.consumer_group
        consumers = self.members.consumers(name)
        if consumers is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no heartbeat of {name} has come here yet",
            )
        if (
            not group.consume_broadcast_enable
            and consumers.message_model is MessageModel.BROADCASTING
        ):
            raise _forbidden(
                f"the consumer group[{name}] can not consume by broadcast way",
                _BROADCASTING_FORBIDDEN,
            )
        if self.groups.is_forbidden(name, pull.topic):
            raise _forbidden(
                f"the consumer group[{name}] is forbidden for topic[{pull.topic}]",
                _SUBSCRIPTION_FORBIDDEN,
            )
        subscription = consumers.subscriptions.get(pull.topic)
        if subscription is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {name} is not subscribed to "
                f"{pull.topic}; all members of a group subscribe to the same topics",
            )
        if subscription.sub_version < pull.sub_version:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return subscription

    def _record_filter(self, pull: PullMessage, subscription: SubscriptionData) -> RecordFilter:
        """Return the filter of a subscription that is not by tags."""
        settings, kind = self.settings.broker, subscription.expression_type
        found: SqlFilter | None = None
        if not pull.sys_flag & SUBSCRIPTION:
            found = self._registered(pull, subscription)
        filters.check_enabled(kind, is_enabled=settings.enable_property_filter)
        if found is None:
            found = filters.sent_filter(subscription)
        if settings.filter_support_retry and is_retry_topic(pull.topic):
            return RetryFilter(self.filters, pull.topic)
        return found

    def _registered(self, pull: PullMessage, subscription: SubscriptionData) -> SqlFilter:
        """Return the filter that a heartbeat brought; refuse if there is none, or an older one."""
        found = self.filters.get(pull.consumer_group, pull.topic)
        if found is None:
            raise Refusal(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!"
                f" {filters.fault(subscription)}",
            )
        if found.version < pull.sub_version:
            raise Refusal(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                "the consumer's consumer filter data not latest",
            )
        return found.sql


def _forbidden(remark: str, kind: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": kind})
