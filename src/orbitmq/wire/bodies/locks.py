"""Locks on queues, for consumers that keep messages in order."""

from msgspec import field

from orbitmq.message.model import MessageQueue
from orbitmq.wire.json.body import Body

__all__ = ["LockRequest", "LockedQueues", "UnlockRequest"]


class LockRequest(Body, frozen=True, kw_only=True):
    """Queues that a consumer wants to lock; Java: LockBatchRequestBody.

    With ``only_this_broker`` the broker doesn't ask the other brokers of its name.
    """

    client_id: str = ""
    consumer_group: str = ""
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


class LockedQueues(Body, frozen=True, kw_only=True):
    """The queues that were locked; Java: LockBatchResponseBody."""

    locked: tuple[MessageQueue, ...] = field(default=(), name="lockOKMQSet")


class UnlockRequest(Body, frozen=True, kw_only=True):
    """Queues that a consumer unlocks; Java: UnlockBatchRequestBody."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False
