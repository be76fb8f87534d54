"""Messages that a group failed to consume: retried later, or dead letters.

::

    topic ──▶ consumer ── sends it back ──▶ waits in a delay level ──▶ %RETRY%group ──▶ consumer
                                   │
                                   └── too many times ──▶ %DLQ%group, where it stays

A consumer sends a message back in one of two ways: by CONSUMER_SEND_MSG_BACK, which has its log
offset, or by a plain send to the group's retry topic, which has the whole message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.topics import Topics
from orbitmq.message.names import RETRY_PREFIX, dead_letter_topic, retry_topic
from orbitmq.net.refusal import Refusal
from orbitmq.randomness import Randomness
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import READ, WRITE, ResponseCode

__all__ = ["Destination", "Retries", "delay_level", "group_of", "max_tries"]

_FIRST_LEVEL: Final = 3
"""The delay level of the first retry, ten seconds; each later retry waits a level longer."""
_DEAD_LETTER_QUEUES: Final = 1
_UNIT_RETRY_FLAG: Final = 2
"""A topic that subscribers in units created (``TopicSysFlag`` in Java)."""
_FIRST_WITH_LIMIT: Final = 121
"""The first client version that sends its limit of retries: 3.4.9."""


class Destination(msgspec.Struct, frozen=True, gc=False):
    """The topic and queue of a message that was sent back."""

    topic: TopicConfig
    queue_id: int
    is_dead: bool


def group_of(topic: str) -> str:
    """Return the group that a retry topic belongs to.

    >>> group_of("%RETRY%billing")
    'billing'
    """
    return topic.removeprefix(RETRY_PREFIX)


def delay_level(asked: int, reconsume_times: int) -> int:
    """Return the delay level of a message's next retry.

    >>> delay_level(0, reconsume_times=2), delay_level(7, reconsume_times=2)
    (5, 7)
    """
    return asked or _FIRST_LEVEL + reconsume_times


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Retries:
    """Decides where messages go that a group failed to consume, and creates their topics."""

    topics: Topics
    groups: Groups
    holds_locks: Callable[[str], bool]
    """Whether a client of a group holds a queue lock. The group consumes in order then, and a
    message that it gives up must not come again behind the others."""
    randomness: Randomness

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return the settings of a group; refuse one that is unknown and may not be created."""
        found = self.groups.get(name)
        if found is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name}: create it, or set "
                "autoCreateSubscriptionGroup",
            )
        return found

    def retry(self, group: SubscriptionGroupConfig, *, unit_mode: bool) -> Destination:
        """Return the destination of a message to retry; refuse if its topic may not be written."""
        topic = self.topics.for_send_back(
            retry_topic(group.group_name),
            group.retry_queue_nums,
            READ | WRITE,
            _UNIT_RETRY_FLAG if unit_mode else 0,
        )
        if not topic.perm & WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.topic_name}] sending message is forbidden",
            )
        # The group may have more retry queues than the topic by now, and those could not be read.
        # Java sends there all the same.
        queues = max(1, min(group.retry_queue_nums, topic.write_queue_nums, topic.read_queue_nums))
        return Destination(topic, self.randomness.below(queues), is_dead=False)

    def dead_letter(self, group: str) -> Destination:
        """Return the destination of a message that is not retried any more."""
        name = dead_letter_topic(group)
        topic = self.topics.for_send_back(name, _DEAD_LETTER_QUEUES, READ | WRITE, 0)
        return Destination(topic, 0, is_dead=True)

    def is_given_up(
        self, topic: str, reconsume_times: int, asked_max: int | None, version: int
    ) -> bool:
        """Return whether a send to a retry topic exceeds the limit, so that it is a dead letter.

        Refuse a group that is unknown and may not be created.
        """
        group = self.group(group_of(topic))
        if reconsume_times > max_tries(group, asked_max, version):
            return True
        return self.holds_locks(group.group_name)


def max_tries(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return the limit of retries: the client's, or else the group's.

    >>> billing = SubscriptionGroupConfig(group_name="billing")
    >>> max_tries(billing, None, version=493), max_tries(billing, 3, version=493)
    (16, 3)
    """
    if asked is None or version < _FIRST_WITH_LIMIT:
        return group.retry_max_times
    return asked
