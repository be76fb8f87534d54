"""The SQL92 filters of consumer groups, kept in consumerFilter.json (Java: ConsumerFilterManager).

::

    heartbeat ──▶ registered ──┬── the same or an older version ──▶ stays
                               ├── a newer version ──▶ replaced; removed if it can't be parsed
                               └── the last consumer left, or none subscribes to the topic ──▶ dead
    dead ──┬── heartbeat with the same version or a newer one ──▶ registered
           └── for ``filterDataCleanTimeSpan`` ──▶ removed

After a start all filters are dead until a heartbeat comes; pulls are served by a dead one too.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from orbitmq.broker.pulling import filters
from orbitmq.broker.pulling.bloom import bloom_data
from orbitmq.broker.pulling.filter_data import ConsumerFilterData, ConsumerFilterTable, TopicFilters
from orbitmq.broker.pulling.sql92.parser import EXPRESSION_MAX, SqlFilter
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.errors import InvalidExpression
from orbitmq.message.names import RETRY_PREFIX
from orbitmq.message.properties import RETRY_TOPIC, finder
from orbitmq.wire.bodies.heartbeat import SubscriptionData

__all__ = ["FILTERS_FILE", "PARSED_MAX", "ConsumerFilter", "ConsumerFilters", "RetryFilter"]

log = logging.getLogger("orbitmq.broker")

FILTERS_FILE: Final = "consumerFilter.json"
PARSED_MAX: Final = 2 * EXPRESSION_MAX
"""Characters of new expressions in one heartbeat, some 100 ms of work."""
_SILENT_MS: Final = 30_000
"""How long ago the consumers of a loaded filter count as gone, as in Java."""

_origin = finder(RETRY_TOPIC)


class ConsumerFilter(msgspec.Struct, eq=False):
    """The filter of a group for a topic."""

    topic: str
    group: str
    sql: SqlFilter
    version: int
    """The version of the subscription that it came with."""
    born_ms: int
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether no consumer of the group is connected and subscribed to the topic."""
        return self.dead_ms >= self.born_ms


class ConsumerFilters:
    """The filters of all groups."""

    def __init__(self, settings: LiveSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}  # group → topic
        self._refused: dict[str, dict[str, int]] = {}  # group → topic → version, each logged once
        self.changes = 0
        """Grows with every change of ``to_json``."""

    def __repr__(self) -> str:
        return f"<ConsumerFilters of {len(self._by_group)} groups>"

    def get(self, group: str, topic: str) -> ConsumerFilter | None:
        """Return the filter of a group for a topic; None if it has none."""
        return self.of_group(group).get(topic)

    def of_group(self, group: str) -> Mapping[str, ConsumerFilter]:
        """Return the filters of a group, by topic."""
        return self._by_group.get(group, {})

    def register(
        self, group: str, subscriptions: Iterable[SubscriptionData], limit: int = PARSED_MAX
    ) -> int:
        """Take over the filters of a group's heartbeat; those of other topics become dead.

        New expressions of more than ``limit`` characters together have to wait for the next
        heartbeat. Return how many characters are left.
        """
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if limit > 0 and not filters.is_by_tags(subscription.expression_type):
                limit -= self._register(group, subscription)
        self._bury(one for one in self.of_group(group).values() if one.topic not in topics)
        return limit

    def unregister(self, group: str) -> None:
        """Note that the last consumer of a group left."""
        self._refused.pop(group, None)
        self._bury(self.of_group(group).values())

    def clean(self) -> None:
        """Remove the filters that were dead for too long; call it every few seconds."""
        dead_before = self._clock.now_ms() - self._settings.broker.filter_data_clean_time_span
        for one in [one for one in self._all() if one.is_dead and one.dead_ms <= dead_before]:
            log.info("filter of group %s for topic %s removed: not used", one.group, one.topic)
            self._remove(one)

    def shown(self, one: ConsumerFilter) -> ConsumerFilterData:
        """Return a filter as Java shows and keeps it."""
        settings = self._settings.broker
        return ConsumerFilterData(
            bloom_filter_data=bloom_data(
                f"{one.group}#{one.topic}",
                error_percent=settings.max_error_rate_of_bloom_filter,
                expected=settings.expect_consumer_num_use_filter,
            ),
            born_time=one.born_ms,
            client_version=one.version,
            consumer_group=one.group,
            dead=one.is_dead,
            dead_time=one.dead_ms,
            expression=one.sql.expression,
            expression_type=filters.SQL92,
            topic=one.topic,
        )

    # Changes

    def _register(self, group: str, subscription: SubscriptionData) -> int:
        """Take over a filter; return how many characters were parsed."""
        topic, version = subscription.topic, subscription.sub_version
        old = self.get(group, topic)
        if not subscription.sub_string or (old is not None and version < old.version):
            return 0
        if self._refused.get(group, {}).get(topic) == version:
            return 0
        if old is not None and (
            version == old.version or old.sql.expression == subscription.sub_string
        ):
            if old.is_dead or old.version != version:
                old.dead_ms, old.version = 0, version
                self.changes += 1
            return 0
        sql = self._compiled(group, subscription)
        if sql is None:
            if old is not None:
                self._remove(old)
            return len(subscription.sub_string)
        if sql.ignored is not None:
            log.warning(
                "filter of group %s for topic %s: everything from character %d on is ignored: %s",
                *(group, topic, sql.ignored.position, sql.expression[:200]),
            )
        log.info("filter of group %s for topic %s: %s", group, topic, sql.expression[:200])
        self._add(ConsumerFilter(topic, group, sql, version, self._clock.now_ms()))
        return len(sql.expression)

    def _compiled(self, group: str, subscription: SubscriptionData) -> SqlFilter | None:
        """Return a filter; None, and log it, if it can't be parsed: its pulls are refused."""
        topic, version = subscription.topic, subscription.sub_version
        try:
            return filters.compiled(subscription.sub_string, subscription.expression_type)
        except InvalidExpression as error:
            self._refused.setdefault(group, {})[topic] = version
            log.warning("filter of group %s for topic %s refused: %s", group, topic, error)
            return None

    def _add(self, one: ConsumerFilter) -> None:
        self._by_group.setdefault(one.group, {})[one.topic] = one
        self.changes += 1

    def _bury(self, unused: Iterable[ConsumerFilter]) -> None:
        for one in unused:
            if not one.is_dead:
                one.dead_ms = max(self._clock.now_ms(), one.born_ms)
                self.changes += 1

    def _remove(self, one: ConsumerFilter) -> None:
        of_group = self._by_group[one.group]
        del of_group[one.topic]
        if not of_group:
            del self._by_group[one.group]
        self.changes += 1

    def _all(self) -> Iterator[ConsumerFilter]:
        for of_group in self._by_group.values():
            yield from of_group.values()

    # The file

    def to_json(self) -> str:
        """Return the text of ``consumerFilter.json``, sorted by topic and group."""
        by_topic: dict[str, dict[str, ConsumerFilterData]] = {}
        for one in sorted(self._all(), key=lambda one: (one.topic, one.group)):
            by_topic.setdefault(one.topic, {})[one.group] = self.shown(one)
        table = ConsumerFilterTable(
            filter_data_by_topic={
                topic: TopicFilters(group_filter_data=data, topic=topic)
                for topic, data in by_topic.items()
            }
        )
        return table.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load the filters of an earlier run; one that can't be parsed is left out.

        Raise InvalidBody, and change nothing, if the text is not a table of filters.
        """
        table = ConsumerFilterTable.from_json(text.encode())
        silent_since = self._clock.now_ms() - _SILENT_MS
        for topic, of_topic in table.filter_data_by_topic.items():
            for group, data in of_topic.group_filter_data.items():
                try:
                    sql = filters.compiled(data.expression, data.expression_type)
                except InvalidExpression as error:
                    log.warning("%s: filter of group %s dropped: %s", FILTERS_FILE, group, error)
                    continue
                dead_ms = data.dead_time or max(silent_since, data.born_time)
                self._add(
                    ConsumerFilter(topic, group, sql, data.client_version, data.born_time, dead_ms)
                )


class RetryFilter:
    """Selects the messages of a group's retry topic by the filters for their own topics.

    In use with ``filterSupportRetry``, if the retry topic itself is not subscribed by tags.
    """

    def __init__(self, filters_of_groups: ConsumerFilters, retry_topic: str) -> None:
        # A retry topic of pop consumers is %RETRY%group+topic.
        group, _, _ = retry_topic.removeprefix(RETRY_PREFIX).partition("+")
        self._by_topic = filters_of_groups.of_group(group)
        self.terms = max((one.sql.terms for one in self._by_topic.values()), default=1)

    def matches(self, properties: str) -> bool:
        """Return whether a message matches; one of a topic without a filter does."""
        found = self._by_topic.get(_origin(properties) or "")
        return found is None or found.sql.matches(properties)
