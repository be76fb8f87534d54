"""The topics of a broker: their settings, and how they are created.

An operator creates a topic, or a send to an unknown name does (if the default topic it names lets
others inherit from it), or the broker itself, for retries and dead letters. The table is kept in
``topics.json``, in Java's form (``TopicConfigManager``).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.broker.tables.attributes import TOPIC_ATTRIBUTES, changed
from orbitmq.broker.tables.paging import page
from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput
from orbitmq.message.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    is_lmq,
    reply_topic,
)
from orbitmq.wire.bodies.topic import DataVersion, TopicConfig, TopicConfigTable
from orbitmq.wire.codes import INHERIT, READ, WRITE

__all__ = ["QUEUES_MAX", "TOPICS_FILE", "TOPICS_MAX", "Topics"]

log = logging.getLogger("orbitmq.broker")

_ALL: Final = READ | WRITE | INHERIT

TOPICS_FILE: Final = "topics.json"
TOPICS_MAX: Final = 100_000
"""A registration with more would not fit a frame of 16 MiB, at some 160 bytes per topic."""
QUEUES_MAX: Final = 65_536
"""Queues of one topic: statistics and resets visit all of them. Java has no limit."""

_SCHEDULE_QUEUES: Final = 18
_BENCHMARK_QUEUES: Final = 1_024
_CLUSTER_QUEUES: Final = 16
_REVIVE_QUEUES: Final = 8


class Topics:
    """The table of topics, system topics included.

    ``on_change`` is called after each change with the names of new topics.
    """

    def __init__(
        self,
        settings: LiveSettings,
        clock: Clock,
        on_change: Callable[[Collection[str]], None] = lambda _new: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        own = {topic.topic_name: topic for topic in _own_topics(settings.broker)}
        self._table = dict(own)
        self.system_topics: frozenset[str] = SYSTEM_TOPICS | own.keys()
        """Names that RocketMQ reserves, besides those with its prefix."""
        self.data_version = DataVersion(timestamp=clock.now_ms())

    def __repr__(self) -> str:
        return f"<Topics {len(self._table)}, version {self.data_version.counter}>"

    # Queries

    @property
    def table(self) -> Mapping[str, TopicConfig]:
        """All topics by name."""
        return MappingProxyType(self._table)

    def get(self, name: str) -> TopicConfig | None:
        """Return a topic; None if it is unknown. Each light queue counts as a topic."""
        found = self._table.get(name)
        if found is None and self._settings.store.lmq_enabled and is_lmq(name):
            return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
        return found

    def is_system(self, name: str) -> bool:
        """Return whether RocketMQ reserves the name."""
        return name in self.system_topics or name.startswith(SYSTEM_TOPIC_PREFIX)

    def page(self, first: int, count: int, known: str | None) -> dict[str, TopicConfig]:
        """Return a page of the table; see `orbitmq.broker.tables.paging.page`."""
        return page(self._table, self.data_version, first=first, count=count, known=known)

    # Creation

    def for_send(
        self, topic: str, default_topic: str, queue_nums: int, sys_flag: int
    ) -> TopicConfig | None:
        """Return the topic of a send, created like ``default_topic`` if it is new.

        None means that it is unknown and may not be created. The caller has checked the name.
        """
        found = self._table.get(topic)
        if found is not None:
            return found
        model = self._table.get(default_topic)
        if model is None:
            log.warning(
                "unknown topic %s: its default topic %s is unknown too", topic, default_topic
            )
            return None
        switched_off = (
            default_topic == AUTO_CREATE_TOPIC
            and not self._settings.broker.auto_create_topic_enable
        )
        if switched_off or not model.perm & INHERIT:
            log.warning("unknown topic %s: the default topic %s creates none", topic, default_topic)
            return None
        if len(self._table) >= TOPICS_MAX:
            log.error(
                "topic %s is not created: the limit of %d topics is reached", topic, TOPICS_MAX
            )
            return None
        queues = max(0, min(queue_nums, model.write_queue_nums))
        return self._create(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=model.perm & ~INHERIT,
                topic_sys_flag=sys_flag,
                topic_filter_type=model.topic_filter_type,
            )
        )

    def for_send_back(
        self, topic: str, queue_nums: int, perm: int, sys_flag: int, *, order: bool = False
    ) -> TopicConfig:
        """Return a topic that the broker itself needs, for retries and dead letters.

        It is created if it is unknown, even over the limit, since groups are limited. If it is
        known, its order is set to ``order``.
        """
        found = self._table.get(topic)
        if found is None:
            queues = min(max(queue_nums, 0), QUEUES_MAX)
            return self._create(
                TopicConfig(
                    topic_name=topic,
                    read_queue_nums=queues,
                    write_queue_nums=queues,
                    perm=perm,
                    topic_sys_flag=sys_flag,
                    order=order,
                )
            )
        if found.order is not order:
            found = self._change([replace(found, order=order)])[0]
        return found

    def _create(self, topic: TopicConfig) -> TopicConfig:
        log.info("topic %s created with %d queues", topic.topic_name, topic.write_queue_nums)
        return self._change([topic])[0]

    def _change(self, topics: Sequence[TopicConfig]) -> Sequence[TopicConfig]:
        changed = {topic.topic_name: topic for topic in topics}
        new = [name for name in changed if name not in self._table]
        self._table.update(changed)
        self.touch(new)
        return topics

    # Changes

    def update(self, topics: Sequence[TopicConfig]) -> list[TopicConfig]:
        """Create or change topics, all or none; return those that changed.

        The attributes of each are a change, as `attributes.change_of` returns it. Raise
        InvalidInput if an attribute or the number of queues is invalid, or there would be too many
        topics.
        """
        after = [self._merged(topic) for topic in topics]
        new = {topic.topic_name for topic in after} - self._table.keys()
        if len(self._table) + len(new) > TOPICS_MAX:
            raise InvalidInput(
                f"there are {len(self._table)} topics, and the limit is {TOPICS_MAX}; delete some",
                field="topic",
            )
        different = [one for one in after if self._table.get(one.topic_name) != one]
        if different:
            self._change(different)
        return different

    def delete(self, name: str) -> bool:
        """Delete a topic; return whether it existed."""
        if self._table.pop(name, None) is None:
            return False
        log.info("topic %s deleted", name)
        self.touch()
        return True

    def take(self, table: TopicConfigTable) -> None:
        """Replace all topics by those of the master, if the versions differ; for a slave."""
        if table.data_version == self.data_version or not table.topic_config_table:
            return
        self._table = dict(table.topic_config_table)
        self.data_version = table.data_version
        self._on_change(())

    def learn(self, topic: str, queue_id: int) -> None:
        """Add the topic of a copied message, or its queue; for a slave.

        The table of the master comes every ten seconds alone, and a slave that is promoted before
        has to know what it has. The next table of the master replaces what was learned.

        >>> from orbitmq.clock import SystemClock
        >>> topics = Topics(LiveSettings(), SystemClock())
        >>> topics.learn("orders", 3)
        >>> topics.table["orders"].read_queue_nums
        4
        """
        found = self._table.get(topic) or TopicConfig(
            topic_name=topic, read_queue_nums=0, write_queue_nums=0
        )
        if not found.read_queue_nums <= queue_id < QUEUES_MAX:
            return
        if self.is_system(topic) or is_lmq(topic):
            return
        queues = queue_id + 1
        writable = max(found.write_queue_nums, queues)
        self._table[topic] = replace(found, read_queue_nums=queues, write_queue_nums=writable)
        self.touch()

    def mark_ordered(self, names: Iterable[str]) -> None:
        """Mark topics as ordered that a nameserver's order configuration names."""
        found = [topic for name in names if (topic := self._table.get(name)) and not topic.order]
        ordered = [replace(topic, order=True) for topic in found]
        if ordered:
            self._change(ordered)

    def settings_changed(self, properties: Collection[str]) -> None:
        """Update the default topic TBW102 after its settings were changed.

        Java creates it at the start only, so that later changes have no effect.
        """
        settings = self._settings.broker
        found, wanted = self._table.get(AUTO_CREATE_TOPIC), _default_topic(settings)
        if found is None:
            if "autoCreateTopicEnable" in properties and settings.auto_create_topic_enable:
                self._create(wanted)
        elif "defaultTopicQueueNums" in properties:
            queues = wanted.write_queue_nums
            self._create(replace(found, read_queue_nums=queues, write_queue_nums=queues))

    def touch(self, new: Collection[str] = ()) -> None:
        """Give the table a new version, which is then registered and saved.

        That of a slave has no time: it must not be equal to one of its master by chance.
        """
        now_ms = 0 if self._settings.broker.is_slave else self._clock.now_ms()
        self.data_version = self.data_version.next(now_ms)
        self._on_change(new)

    def _merged(self, topic: TopicConfig) -> TopicConfig:
        for field in ("read_queue_nums", "write_queue_nums"):
            if not 0 <= (queues := getattr(topic, field)) <= QUEUES_MAX:
                raise InvalidInput(
                    f"{field} of topic {topic.topic_name} is {queues}, not 0 to {QUEUES_MAX}",
                    field=field,
                )
        before = self._table.get(topic.topic_name)
        current = None if before is None else before.attributes
        return replace(topic, attributes=changed(current, topic.attributes, TOPIC_ATTRIBUTES))

    # topics.json

    def to_json(self) -> str:
        """Return the table as the text of ``topics.json``, sorted by name."""
        table = dict(sorted(self._table.items()))
        wrapper = TopicConfigTable(data_version=self.data_version, topic_config_table=table)
        return wrapper.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load a table; it may change system topics too.

        Raise InvalidBody, and change nothing, if the text is not a table of topics.
        """
        loaded = TopicConfigTable.from_json(text.encode())
        self._table.update(loaded.topic_config_table)
        self.data_version = loaded.data_version


def _default_topic(settings: BrokerSettings) -> TopicConfig:
    queues = min(settings.default_topic_queue_nums, QUEUES_MAX)
    return TopicConfig(
        topic_name=AUTO_CREATE_TOPIC, read_queue_nums=queues, write_queue_nums=queues, perm=_ALL
    )


def _own_topics(settings: BrokerSettings) -> Iterable[TopicConfig]:
    """Yield the topics that Java's broker creates at its start, except those of its RocksDB."""

    def own(name: str, queues: int, perm: int = READ | WRITE) -> TopicConfig:
        return TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm
        )

    cluster, name = settings.broker_cluster_name, settings.broker_name
    yield own(SELF_TEST_TOPIC, 1)
    if settings.auto_create_topic_enable:
        yield _default_topic(settings)
    yield own(BENCHMARK_TOPIC, _BENCHMARK_QUEUES)
    yield own(
        cluster, _CLUSTER_QUEUES, INHERIT | (READ | WRITE if settings.cluster_topic_enable else 0)
    )
    yield own(name, 1, INHERIT | (READ | WRITE if settings.broker_topic_enable else 0))
    yield own(OFFSET_MOVED_TOPIC, 1)
    yield own(SCHEDULE_TOPIC, _SCHEDULE_QUEUES)
    if settings.trace_topic_enable:
        yield own(settings.msg_trace_topic_name, 1)
    yield own(reply_topic(cluster), 1)
    yield own(f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}", _REVIVE_QUEUES)
    yield own(f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{name}", 1, INHERIT)
    yield own(HALF_TOPIC, 1)
    yield own(OP_HALF_TOPIC, 1)
    yield own(TIMER_TOPIC, 1)
