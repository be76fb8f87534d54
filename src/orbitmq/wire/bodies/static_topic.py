"""Static topics: how logic queues, which clients see, map to queues of brokers."""

from msgspec import field

from orbitmq.wire.bodies.topic import DataVersion, TopicFilterType
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "LogicQueueMappingItem",
    "TopicConfigAndQueueMapping",
    "TopicQueueMappingDetail",
    "TopicQueueMappingInfo",
    "TopicQueueMappingOne",
    "TopicQueueMappingTable",
    "TopicRemappingDetail",
]


class LogicQueueMappingItem(Body, frozen=True, kw_only=True):
    """A part of a logic queue, from one offset to another, that is on one broker."""

    bname: str = ""
    end_offset: Int64 = -1
    gen: Int32 = 0
    logic_offset: Int64 = 0
    queue_id: Int32 = 0
    start_offset: Int64 = 0
    time_of_end: Int64 = -1
    time_of_start: Int64 = -1


class TopicQueueMappingInfo(Body, frozen=True, kw_only=True):
    """The logic queues that a broker leads; part of registrations and routes."""

    bname: str = ""
    curr_id_map: dict[Int32, Int32] = field(default_factory=dict)
    dirty: bool = False
    epoch: Int64 = 0
    scope: str = "__global__"
    topic: str = ""
    total_queues: Int32 = 0


class TopicQueueMappingDetail(Body, frozen=True, kw_only=True):
    """A broker's part of a static topic; admin tools set it."""

    bname: str = ""
    curr_id_map: dict[Int32, Int32] = field(default_factory=dict)
    dirty: bool = False
    epoch: Int64 = 0
    hosted_queues: dict[Int32, tuple[LogicQueueMappingItem, ...]] = field(default_factory=dict)
    scope: str = "__global__"
    topic: str = ""
    total_queues: Int32 = 0


class TopicQueueMappingOne(Body, frozen=True, kw_only=True):
    """One logic queue with its history, for tools that move it between brokers."""

    bname: str = ""
    global_id: Int32 | None = None
    items: tuple[LogicQueueMappingItem, ...] = ()
    mapping_detail: TopicQueueMappingDetail | None = None
    topic: str = ""


class TopicQueueMappingTable(Body, frozen=True, kw_only=True):
    """All static topics of a broker; Java: TopicQueueMappingSerializeWrapper."""

    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)


class TopicConfigAndQueueMapping(Body, frozen=True, kw_only=True):
    """A topic and the broker's part of a static topic: the answer to GET_TOPIC_CONFIG."""

    attributes: dict[str, str] = field(default_factory=dict)
    mapping_detail: TopicQueueMappingDetail | None = None
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: Int32 = 16
    topic_filter_type: TopicFilterType | None = TopicFilterType.SINGLE_TAG
    topic_name: str = ""
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicRemappingDetail(Body, frozen=True, kw_only=True):
    """An admin tool's plan to move a static topic; Java: TopicRemappingDetailWrapper."""

    broker_config_map: dict[str, TopicConfigAndQueueMapping] = field(default_factory=dict)
    broker_to_map_in: tuple[str, ...] = ()
    broker_to_map_out: tuple[str, ...] = ()
    epoch: Int64 = 0
    topic: str = ""
    type_: str = field(default="", name="type")
