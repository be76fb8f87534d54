"""How many messages of each topic wait for their delivery time, kept in ``config/timermetrics``."""

from collections.abc import Collection, Mapping
from typing import Final

from orbitmq.message.tags import java_hash
from orbitmq.wire.bodies.timers import TimerMetrics, TopicTimers
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["TIMER_COUNTS_FILE", "TimerCounts"]

TIMER_COUNTS_FILE: Final = "timermetrics"


class TimerCounts:
    """Waiting messages by topic; one that recalls another counts as -1."""

    def __init__(self) -> None:
        self._counts: dict[str, TopicTimers] = {}
        self.data_version = DataVersion()

    def __repr__(self) -> str:
        return f"<TimerCounts {self.total} of {len(self._counts)} topics>"

    @property
    def total(self) -> int:
        """The messages of all topics."""
        return sum(one.count for one in self._counts.values())

    def add(self, topic: str, count: int, now_ms: int) -> None:
        """Add to the number of a topic."""
        known = self._counts.get(topic)
        count += 0 if known is None else known.count
        self._counts[topic] = TopicTimers(count=count, time_stamp=now_ms)
        self.data_version = self.data_version.next(now_ms)

    def forget(self, topic: str) -> None:
        """Remove a topic that was deleted."""
        self._counts.pop(topic, None)

    def recount(self, by_hash: Mapping[int, int], topics: Collection[str], now_ms: int) -> None:
        """Replace all numbers by those of the timer log, which names topics by Java's hash."""
        names = {java_hash(topic): topic for topic in (*topics, *self._counts)}
        self._counts = {
            names[topic_hash]: TopicTimers(count=count, time_stamp=now_ms)
            for topic_hash, count in by_hash.items()
            if count and topic_hash in names
        }
        self.data_version = self.data_version.next(now_ms)

    def metrics(self) -> TimerMetrics:
        """Return all numbers, for replicas and tools."""
        return TimerMetrics(data_version=self.data_version, timing_count=dict(self._counts))

    def to_json(self) -> str:
        """Return the text of the file."""
        return self.metrics().to_json().decode()

    def load_json(self, text: str) -> None:
        """Load the numbers of an earlier run; raise InvalidBody if the text is none."""
        found = TimerMetrics.from_json(text.encode())
        self._counts = dict(found.timing_count)
        if found.data_version is not None:
            self.data_version = found.data_version
