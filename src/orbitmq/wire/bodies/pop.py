"""Pop consumption: assignments of queues, request modes, and batches of acks."""

from enum import StrEnum

from msgspec import field

from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.heartbeat import MessageModel
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "AssignmentQuery",
    "Assignments",
    "BatchAck",
    "BatchAcks",
    "MessageQueueAssignment",
    "MessageRequestMode",
    "RequestModeSetting",
    "RequestModeTable",
]


class MessageRequestMode(StrEnum):
    """How the consumers of a group read a topic."""

    PULL = "PULL"
    POP = "POP"


class AssignmentQuery(Body, frozen=True, kw_only=True):
    """A consumer's request for its queues; Java: QueryAssignmentRequestBody."""

    client_id: str = ""
    consumer_group: str = ""
    message_model: MessageModel | None = None
    strategy_name: str = ""
    topic: str = ""


class MessageQueueAssignment(Body, frozen=True, kw_only=True):
    """One queue, and how to read it; queue id -1 means pop from all queues of the broker."""

    attachments: dict[str, str] | None = None
    message_queue: MessageQueue | None = None
    mode: MessageRequestMode | None = MessageRequestMode.PULL


class Assignments(Body, frozen=True, kw_only=True):
    """The broker's answer; None lets a consumer keep its queues, and none takes them away.

    Java: QueryAssignmentResponseBody.
    """

    message_queue_assignments: tuple[MessageQueueAssignment, ...] | None = None


class RequestModeSetting(Body, frozen=True, kw_only=True):
    """How a group reads a topic, set by admin tools; Java: SetMessageRequestModeRequestBody."""

    consumer_group: str = ""
    mode: MessageRequestMode | None = MessageRequestMode.PULL
    pop_share_queue_num: Int32 = 0
    topic: str = ""


class RequestModeTable(Body, frozen=True, kw_only=True):
    """All request mode settings of a broker, by topic and group, for its slaves.

    Java: MessageRequestModeSerializeWrapper.
    """

    message_request_mode_map: dict[str, dict[str, RequestModeSetting]] = field(default_factory=dict)


class BatchAck(Body, frozen=True, kw_only=True):
    """Acks of the messages of one pop.

    Bit i of ``bits``, from the lowest bit of the first byte, acks the message at
    ``start_offset`` + i.
    """

    bits: bytes = field(default=b"", name="b")
    consumer_group: str = field(default="", name="c")
    invisible_time: Int64 = field(default=0, name="it")
    pop_time: Int64 = field(default=0, name="pt")
    queue_id: Int32 = field(default=0, name="q")
    retry: str = field(default="0", name="r")
    revive_queue_id: Int32 = field(default=0, name="rq")
    start_offset: Int64 = field(default=0, name="so")
    topic: str = field(default="", name="t")


class BatchAcks(Body, frozen=True, kw_only=True):
    """Acks of the messages of several pops; Java: BatchAckMessageRequestBody."""

    acks: tuple[BatchAck, ...] = ()
    broker_name: str = ""
