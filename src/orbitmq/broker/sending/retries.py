"""What becomes of a message that a group could not consume: tried again later, or a dead letter.

::

    topic ──▶ consumer ── gives it back ──▶ waits for its delay level ──▶ %RETRY%group ──▶ consumer
                                   │
                                   └── once too often ──▶ %DLQ%group, where it stays

It is given back in one of two ways: by CONSUMER_SEND_MSG_BACK, which names its place in the log, or
by a plain send to the group's retry topic, which brings the message again.
"""

from collections.abc import Callable
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
"""The delay level of the first try, ten seconds; each later one waits a level more."""
_DEAD_LETTER_QUEUES: Final = 1
_UNIT_RETRY_FLAG: Final = 2
"""A topic that subscribers in units made (``TopicSysFlag`` in Java)."""
_FIRST_TO_SAY: Final = 121
"""The first version of clients that says how often it wants to try: 3.4.9."""


class Destination(msgspec.Struct, frozen=True, gc=False):
    """Where a message that was given back goes."""

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
    """Return the level at which a message waits for its next try.

    >>> delay_level(0, reconsume_times=2), delay_level(7, reconsume_times=2)
    (5, 7)
    """
    return asked or _FIRST_LEVEL + reconsume_times


class Retries:
    """Decides where messages go that a group could not consume, and makes the topics for them.

    Args:
        topics: the broker's topics.
        groups: its groups.
        holds_locks: tells whether a client of a group holds a lock on a queue: it consumes in
            order then, and a message that it gives up must not come again behind the others.
        randomness: chooses among the queues of a retry topic.

    """

    def __init__(
        self,
        *,
        topics: Topics,
        groups: Groups,
        holds_locks: Callable[[str], bool],
        randomness: Randomness,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._holds_locks = holds_locks
        self._randomness = randomness

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return the settings of a group.

        Raises:
            Refusal: it is unknown, and may not be created.

        """
        found = self._groups.get(name)
        if found is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name}: create it, or set "
                "autoCreateSubscriptionGroup",
            )
        return found

    def retry(self, group: SubscriptionGroupConfig, *, unit_mode: bool) -> Destination:
        """Return where a message waits to be tried again.

        Raises:
            Refusal: nobody may write there.

        """
        topic = self._topics.for_send_back(
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
        # The group may have been given more since the topic was made; nobody can read those. Java
        # sends there all the same.
        queues = max(1, min(group.retry_queue_nums, topic.write_queue_nums, topic.read_queue_nums))
        return Destination(topic, self._randomness.below(queues), is_dead=False)

    def dead_letter(self, group: str) -> Destination:
        """Return where a message goes that is not tried any more."""
        name = dead_letter_topic(group)
        topic = self._topics.for_send_back(name, _DEAD_LETTER_QUEUES, READ | WRITE, 0)
        return Destination(topic, 0, is_dead=True)

    def is_given_up(
        self, topic: str, reconsume_times: int, asked_max: int | None, version: int
    ) -> bool:
        """Return whether a send to a retry topic comes once too often, and is a dead letter.

        Args:
            topic: the retry topic.
            reconsume_times: how often it was tried.
            asked_max: how often the client wants to try at most.
            version: the client's.

        Raises:
            Refusal: the group is unknown, and may not be created.

        """
        group = self.group(group_of(topic))
        if reconsume_times > max_tries(group, asked_max, version):
            return True
        return self._holds_locks(group.group_name)


def max_tries(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return how often a message is tried again: what the client says, else the group's setting.

    >>> billing = SubscriptionGroupConfig(group_name="billing")
    >>> max_tries(billing, None, version=493), max_tries(billing, 3, version=493)
    (16, 3)
    """
    if asked is None or version < _FIRST_TO_SAY:
        return group.retry_max_times
    return asked
