"""Messages with a delivery time: how many wait, by topic."""

from msgspec import field

from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import Int64
from orbitmq.wire.json.body import Body

__all__ = ["TimerMetrics", "TopicTimers"]


class TopicTimers(Body, frozen=True, kw_only=True):
    """How many messages of a topic wait; Java: TimerMetrics.Metric."""

    count: Int64 = 0
    time_stamp: Int64 = 0
    """When it changed, in ms since 1970."""


class TimerMetrics(Body, frozen=True, kw_only=True):
    """How many messages wait, by topic; Java: TimerMetricsSerializeWrapper.

    The answer to GET_TIMER_METRICS, and the file ``config/timermetrics``.
    """

    data_version: DataVersion | None = None
    timing_count: dict[str, TopicTimers] = field(default_factory=dict)
