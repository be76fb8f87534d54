"""Counters by topic, group and queue: Java's ``BrokerStatsManager``.

Each counter has a name, such as TOPIC_PUT_NUMS, and a key, such as a topic. It is sampled every ten
seconds, ten minutes and hour; operators see differences between samples::

    minute   7 samples, 10 s apart
    hour     7 samples, 10 min apart
    day     25 samples, 1 h apart
"""

from array import array
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from orbitmq.broker.figures.throughput import Throughput
from orbitmq.clock import local_stamp
from orbitmq.message.names import SCHEDULE_TOPIC, is_system_topic
from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

__all__ = ["BrokerStats"]

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
TOPIC_PUT_LATENCY: Final = "TOPIC_PUT_LATENCY"
QUEUE_PUT_NUMS: Final = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE: Final = "QUEUE_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
SEND_BACKS: Final = "SNDBCK_PUT_NUMS"
DEAD_LETTERS: Final = "SNDBCK2DLQ_TIMES"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
USER_PUT_NUMS: Final = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
USER_GET_NUMS: Final = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"

# A key is parts separated by @. The index of the topic and of the group in them:
_TOPIC_AT: Final = {
    TOPIC_PUT_NUMS: 0,
    TOPIC_PUT_SIZE: 0,
    TOPIC_PUT_LATENCY: 1,
    QUEUE_PUT_NUMS: 0,
    QUEUE_PUT_SIZE: 0,
    GROUP_GET_NUMS: 0,
    GROUP_GET_SIZE: 0,
    GROUP_GET_LATENCY: 1,
    SEND_BACKS: 0,
    DEAD_LETTERS: 1,
}
_GROUP_AT: Final = {
    GROUP_GET_NUMS: 1,
    GROUP_GET_SIZE: 1,
    GROUP_GET_LATENCY: 2,
    SEND_BACKS: 1,
    DEAD_LETTERS: 2,
}
_OF_BROKER: Final = (BROKER_PUT_NUMS, BROKER_GET_NUMS, USER_PUT_NUMS, USER_GET_NUMS)

_SAMPLE: Final = 3  # a time, a value and a number of times
_MINUTE_SAMPLES, _HOUR_SAMPLES, _DAY_SAMPLES = 7, 7, 25
_MINUTE_PACE_MS, _HOUR_PACE_MS, _DAY_PACE_MS = 10_000, 600_000, 3_600_000
_KEYS_MAX: Final = 100_000
"""Keys of one name. Topics and groups are limited, pairs of them are not."""
_DAY: Final = slice(0, 8)  # in yyyyMMddHHmmssSSS


class _Counter:
    """A value that only grows, how often it grew, and samples of both."""

    __slots__ = ("day", "hour", "minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        # Flat, eight bytes per number: each queue of each topic has a counter.
        self.minute = array("q")
        self.hour = array("q")
        self.day = array("q")

    def add(self, value: int, times: int = 1) -> None:
        self.value += value
        self.times += times

    def sample(self, samples: "array[int]", now_ms: int, pace_ms: int, limit: int) -> None:
        """Sample the value; the first sample gets one of zero before it, as in Java's StatsItem."""
        if not samples:
            samples.extend((now_ms - pace_ms, 0, 0))
        samples.extend((now_ms, self.value, self.times))
        del samples[: -limit * _SAMPLE]


class _Totals(NamedTuple):
    """Messages of users, put and got until some moment."""

    put: int = 0
    got: int = 0


class _PutCounters(msgspec.Struct, gc=False):
    """The counters of one queue of a topic, cached."""

    count: _Counter
    size: _Counter
    latency: _Counter
    queue_count: _Counter | None
    queue_size: _Counter | None
    of_user: bool


class BrokerStats:
    """All counters of a broker. Call ``sample`` once a second or so.

    ``cluster`` is the key of counters for the whole broker, as in Java.

    >>> stats = BrokerStats("DefaultCluster", now_ms=0)
    >>> stats.stored("orders", 3, count=30, size=30_000, elapsed_ms=1)
    >>> stats.sample(10_000)
    >>> stats.item("TOPIC_PUT_NUMS", "orders").stats_minute.tps
    3.0
    """

    def __init__(self, cluster: str, now_ms: int) -> None:
        self._tables: dict[str, dict[str, _Counter]] = {
            name: {} for name in (*_TOPIC_AT, *_OF_BROKER)
        }
        self._puts: dict[tuple[str, int], _PutCounters] = {}
        self._sampled_ms = dict.fromkeys((_MINUTE_PACE_MS, _HOUR_PACE_MS, _DAY_PACE_MS), now_ms)
        self._today = local_stamp(now_ms)[_DAY]
        self._yesterday_morning = self._today_morning = _Totals()
        self.throughput = Throughput(now_ms)
        """Totals and rates of the whole broker."""
        self._broker_put = self._counter(BROKER_PUT_NUMS, cluster)
        self._broker_get = self._counter(BROKER_GET_NUMS, cluster)
        self._user_put = self._counter(USER_PUT_NUMS, cluster)
        self._user_get = self._counter(USER_GET_NUMS, cluster)

    def __repr__(self) -> str:
        return f"<BrokerStats {sum(map(len, self._tables.values()))} counters>"

    # Counting

    def stored(
        self, topic: str, queue_id: int, count: int, size: int, elapsed_ms: int, times: int = 1
    ) -> None:
        """Count messages stored in a queue by ``times`` sends of ``elapsed_ms`` each."""
        puts = self._puts.get((topic, queue_id)) or self._new_puts(topic, queue_id)
        puts.count.add(count, times)
        puts.size.add(size, times)
        puts.latency.add(elapsed_ms * times, times)
        if puts.queue_count is not None and puts.queue_size is not None:
            puts.queue_count.add(count, times)
            puts.queue_size.add(size, times)
        self._broker_put.add(count, 0)
        if puts.of_user:
            self._user_put.add(count, 0)
        self.throughput.put(count, size, elapsed_ms, times)

    def not_stored(self, times: int = 1) -> None:
        """Count sends whose message was not stored."""
        self.throughput.put_failed(times)

    def fetched(
        self, group: str, topic: str, queue_id: int, count: int, size: int, elapsed_ms: int = 0
    ) -> None:
        """Count a pull that found messages, and the time it took."""
        key = f"{topic}@{group}"
        self._counter(GROUP_GET_NUMS, key).add(count)
        self._counter(GROUP_GET_SIZE, key).add(size)
        self._counter(GROUP_GET_LATENCY, f"{queue_id}@{key}").add(elapsed_ms)
        self._broker_get.add(count, 0)
        if not is_system_topic(topic):
            self._user_get.add(count, 0)
        self.throughput.got(count, elapsed_ms)

    def missed(self) -> None:
        """Count a pull that found none."""
        self.throughput.missed()

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a consumer sent back."""
        self._counter(SEND_BACKS, f"{topic}@{group}").add(1)

    def dead_lettered(self, group: str, topic: str) -> None:
        """Count a dead letter of a group."""
        # Java's key begins with the owner of an account; without accounts it writes null.
        self._counter(DEAD_LETTERS, f"null@{topic}@{group}@SEND_BACK_TO_DLQ").add(1)

    def sample(self, now_ms: int) -> None:
        """Note every value whose time has come."""
        self.throughput.sample(now_ms)
        self._sample_if_due(now_ms, _MINUTE_PACE_MS, _MINUTE_SAMPLES, lambda one: one.minute)
        self._sample_if_due(now_ms, _HOUR_PACE_MS, _HOUR_SAMPLES, lambda one: one.hour)
        self._sample_if_due(now_ms, _DAY_PACE_MS, _DAY_SAMPLES, lambda one: one.day)
        today = local_stamp(now_ms)[_DAY]
        if today != self._today:
            self._today = today
            self._yesterday_morning = self._today_morning
            self._today_morning = _Totals(self._user_put.value, self._user_get.value)

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic that was deleted."""
        self._puts = {key: puts for key, puts in self._puts.items() if key[0] != topic}
        self._drop(topic, _TOPIC_AT)

    def forget_group(self, group: str) -> None:
        """Drop the counters of a group that was deleted."""
        self._drop(group, _GROUP_AT)

    # Reports

    def item(self, name: str, key: str) -> BrokerStatsData | None:
        """Return one counter over the last minute, hour and day; None if there is none."""
        counter = self._tables.get(name, {}).get(key)
        if counter is None:
            return None
        return BrokerStatsData(
            stats_minute=_difference(counter.minute),
            stats_hour=_difference(counter.hour),
            stats_day=_difference(counter.day),
        )

    def topic_put_tps(self, topic: str) -> float:
        """Return the messages per second put to a topic in the last minute."""
        return self._tps(TOPIC_PUT_NUMS, topic)

    def group_get_tps(self, group: str, topic: str) -> float:
        """Return the messages per second that a group got from a topic in the last minute."""
        return self._tps(GROUP_GET_NUMS, f"{topic}@{group}")

    def info(self, now_ms: int) -> dict[str, str]:
        """Return the entries of Java's runtime info about puts and gets."""
        yesterday, today = self._yesterday_morning, self._today_morning
        return {
            **self.throughput.info(now_ms),
            "msgPutTotalYesterdayMorning": str(yesterday.put),
            "msgPutTotalTodayMorning": str(today.put),
            "msgPutTotalTodayNow": str(self._user_put.value),
            "msgGetTotalYesterdayMorning": str(yesterday.got),
            "msgGetTotalTodayMorning": str(today.got),
            "msgGetTotalTodayNow": str(self._user_get.value),
        }

    # Inside

    def _counter(self, name: str, key: str) -> _Counter:
        table = self._tables[name]
        counter = table.get(key)
        if counter is None:
            counter = _Counter()
            if len(table) < _KEYS_MAX:
                table[key] = counter
        return counter

    def _new_puts(self, topic: str, queue_id: int) -> _PutCounters:
        # Java counts by queue only delayed messages, where a queue is a delay level.
        by_queue = topic == SCHEDULE_TOPIC
        key = f"{topic}@{queue_id}"
        puts = _PutCounters(
            self._counter(TOPIC_PUT_NUMS, topic),
            self._counter(TOPIC_PUT_SIZE, topic),
            self._counter(TOPIC_PUT_LATENCY, f"{queue_id}@{topic}"),
            self._counter(QUEUE_PUT_NUMS, key) if by_queue else None,
            self._counter(QUEUE_PUT_SIZE, key) if by_queue else None,
            not is_system_topic(topic),
        )
        if len(self._puts) < _KEYS_MAX:
            self._puts[topic, queue_id] = puts
        return puts

    def _sample_if_due(
        self, now_ms: int, pace_ms: int, limit: int, samples_of: Callable[[_Counter], "array[int]"]
    ) -> None:
        if 0 <= now_ms - self._sampled_ms[pace_ms] < pace_ms:
            return  # after the clock was set back, sampling starts again
        self._sampled_ms[pace_ms] = now_ms
        for table in self._tables.values():
            for counter in table.values():
                counter.sample(samples_of(counter), now_ms, pace_ms, limit)

    def _drop(self, part: str, places: Mapping[str, int]) -> None:
        for name, place in places.items():
            table = self._tables[name]
            for key in [key for key in table if key.split("@")[place] == part]:
                del table[key]

    def _tps(self, name: str, key: str) -> float:
        counter = self._tables[name].get(key)
        return 0.0 if counter is None else _difference(counter.minute).tps


def _difference(samples: "array[int]") -> BrokerStatsItem:
    """Return the growth of a counter between its first and its last sample."""
    if not samples:
        return BrokerStatsItem()
    passed_ms = samples[-3] - samples[0]
    value, times = samples[-2] - samples[1], samples[-1] - samples[2]
    return BrokerStatsItem(
        sum=value,
        tps=value * 1_000 / passed_ms if passed_ms > 0 else 0.0,
        avgpt=value / times if times > 0 else 0.0,
    )
