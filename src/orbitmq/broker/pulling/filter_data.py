"""The file consumerFilter.json: the SQL92 filters of consumers, in Java's layout."""

from msgspec import field

from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = ["BloomFilterData", "ConsumerFilterData", "ConsumerFilterTable", "TopicFilters"]


class BloomFilterData(Body, frozen=True, kw_only=True):
    """The bits of one filter among those of all filters."""

    bit_num: Int32 = 0
    bit_pos: tuple[Int32, ...] = ()


class ConsumerFilterData(Body, frozen=True, kw_only=True):
    """The filter of a group for a topic."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Int64 = 0
    client_version: Int64 = 0
    """The version of the subscription that it came with."""
    consumer_group: str = ""
    dead: bool = False
    """Redundant, and ignored by readers."""
    dead_time: Int64 = 0
    """When the last consumer of the group left; before ``born_time`` if there is one."""
    expression: str = ""
    expression_type: str = ""
    topic: str = ""


class TopicFilters(Body, frozen=True, kw_only=True):
    """The filters for one topic, by group; Java: FilterDataMapByTopic."""

    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)
    topic: str = ""


class ConsumerFilterTable(Body, frozen=True, kw_only=True):
    """All filters of a broker, by topic; Java: ConsumerFilterManager."""

    filter_data_by_topic: dict[str, TopicFilters] = field(default_factory=dict)
