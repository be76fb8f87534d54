"""Topics: their settings, and tables that brokers and nameservers exchange."""

from enum import StrEnum

import msgspec
from msgspec import field

from orbitmq.errors import InvalidBody, LocalProtocolError
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "DataVersion",
    "TopicConfig",
    "TopicConfigList",
    "TopicConfigTable",
    "TopicFilterType",
    "TopicList",
]


class TopicFilterType(StrEnum):
    """Whether messages of the topic have one tag or several; brokers use only the first."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class DataVersion(Body, frozen=True, kw_only=True):
    """The version of a table: if it has changed, readers fetch the table again.

    A missing ``timestamp`` is 0; in Java it is the current time.
    """

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after a change of the table.

        >>> DataVersion(counter=6).next(1_700_000_000_000).counter
        7
        """
        return DataVersion(counter=self.counter + 1, timestamp=now_ms)


class TopicConfig(Body, frozen=True, kw_only=True):
    """The settings of a topic; the names of attributes to be set begin with ``+``."""

    attributes: dict[str, str] = field(default_factory=dict)
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: Int32 = 16
    topic_filter_type: TopicFilterType | None = TopicFilterType.SINGLE_TAG
    topic_name: str = ""
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16

    @property
    def has_batch_queues(self) -> bool:
        """Whether its batches are stored as one record each (``queue.type=BatchCQ``)."""
        return self.attributes.get("queue.type") == "BatchCQ"

    def to_text(self) -> str:
        """Return the form for compressed registrations, which omits sys flag and order.

        Raises `LocalProtocolError` if the name holds a blank, which separates the parts.

        >>> TopicConfig(topic_name="orders").to_text()
        'orders 16 16 6 SINGLE_TAG {}'
        """
        if not self.topic_name or " " in self.topic_name:
            raise LocalProtocolError(
                f"topic_name of {len(self.topic_name)} characters is empty or holds a blank;"
                " a compressed registration can't contain it"
            )
        filter_type = self.topic_filter_type or TopicFilterType.SINGLE_TAG
        return (
            f"{self.topic_name} {self.read_queue_nums} {self.write_queue_nums} {self.perm}"
            f" {filter_type} {msgspec.json.encode(self.attributes).decode()}"
        )

    @classmethod
    def from_text(cls, text: str) -> "TopicConfig":
        """Decode the text form; brokers before 5.0 omit the attributes.

        The attributes may hold blanks; Java's ``TopicConfig.decode`` loses all attributes then.
        Raises `InvalidBody`.

        >>> TopicConfig.from_text('orders 4 8 6 SINGLE_TAG').write_queue_nums
        8
        """
        name, *numbers = text.split(" ", 5)
        if len(numbers) < 4:
            raise InvalidBody(f"TopicConfig: {len(numbers) + 1} parts in its text form, not 5 or 6")
        values: dict[str, object] = {
            "topicName": name,
            **dict(zip(("readQueueNums", "writeQueueNums", "perm"), numbers, strict=False)),
            "topicFilterType": numbers[3] if numbers[3] in set(TopicFilterType) else None,
        }
        try:
            if numbers[4:] and numbers[4].strip():
                values["attributes"] = msgspec.json.decode(numbers[4], type=dict[str, str])
            return msgspec.convert(values, cls, strict=False)
        except (ValueError, RecursionError) as error:
            raise InvalidBody(f"TopicConfig: in its text form, {error}") from error


class TopicConfigTable(Body, frozen=True, kw_only=True):
    """All topics of a broker; Java: TopicConfigSerializeWrapper.

    Brokers keep it as topics.json, and old ones answer GET_ALL_TOPIC_CONFIG with it.
    """

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)


class TopicConfigList(Body, frozen=True, kw_only=True):
    """Several topics to create, from admin tools; Java: CreateTopicListRequestBody."""

    topic_config_list: tuple[TopicConfig, ...] = ()


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics, from a nameserver or a broker, for admin tools and consumers."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...] = ()
