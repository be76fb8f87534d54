"""Which records of a store a read selects by topic and by the kind of the message.

>>> rule = TopicRule(pattern="order.*")
>>> rule.wants("orders"), rule.wants("refunds"), rule.wants("RMQ_SYS_TRANS_HALF_TOPIC")
(True, False, False)
"""

import re
from collections.abc import Collection
from functools import cached_property

import msgspec

from orbitmq.message import names
from orbitmq.spark.store_source.options import Include, StoreOptions

__all__ = ["TopicRule", "kind_of", "rule_of"]


def kind_of(topic: str) -> Include | None:
    """Return the kind of a topic that is not a user's; None for one that is.

    Retry and dead-letter topics are users': their messages are.
    """
    if topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC, names.CHECKED_TOO_OFTEN_TOPIC):
        return Include.HALVES
    if topic in (names.SCHEDULE_TOPIC, names.TIMER_TOPIC):
        return Include.DELAYED
    if names.is_system_topic(topic) or topic.endswith(names.REPLY_TOPIC_SUFFIX):
        return Include.SYSTEM
    return None


class TopicRule(msgspec.Struct, frozen=True, dict=True):
    """Selects topics: those named, or users' topics that match; and the kinds to include.

    A pattern matches retry and dead-letter topics only if it begins with ``%``.
    """

    named: Collection[str] = ()
    pattern: str | None = None
    include: frozenset[Include] = frozenset()

    @property
    def is_narrow(self) -> bool:
        """Whether some topics of users may be left out."""
        return bool(self.named) or self.pattern is not None

    @property
    def wants_halves(self) -> bool:
        """Whether prepared and rolled-back messages are read, which no consumer gets."""
        return Include.HALVES in self.include

    def wants(self, topic: str) -> bool:
        """Return whether the messages of a topic are read."""
        if topic in self.named:
            return True
        kind = kind_of(topic)
        if kind is not None:
            return kind in self.include
        if self.named:
            return False
        if self.pattern is None:
            return True
        if topic.startswith("%") and not self.pattern.startswith("%"):
            return False
        return self._compiled.fullmatch(topic) is not None

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern or "")


def rule_of(options: StoreOptions) -> TopicRule:
    """Return the rule of a read."""
    return TopicRule(frozenset(options.topics), options.pattern, options.include)
