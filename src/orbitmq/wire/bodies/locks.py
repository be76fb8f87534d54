"""Locks on queues: consumers that keep the order of messages ask brokers for them."""

from msgspec import field

from orbitmq.message.model import MessageQueue
from orbitmq.wire.json.body import Body

__all__ = ["LockRequest", "LockedQueues", "UnlockRequest"]


class LockRequest(Body, frozen=True, kw_only=True):
    """Queues a consumer wants for itself alone; Java: LockBatchRequestBody.

    ``only_this_broker`` keeps a broker from asking its peers of the same name too.
    """

    client_id: str = ""
    consumer_group: str = ""
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


class LockedQueues(Body, frozen=True, kw_only=True):
    """Those of them it now has; Java: LockBatchResponseBody."""

    locked: tuple[MessageQueue, ...] = field(default=(), name="lockOKMQSet")


class UnlockRequest(Body, frozen=True, kw_only=True):
    """Queues a consumer gives back; Java: UnlockBatchRequestBody."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False
