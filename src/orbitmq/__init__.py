"""Apache RocketMQ for Python and Spark teams.

>>> from orbitmq import Message
>>> Message("orders", b"paid", tags="paid", keys=["o-42"])
Message(topic='orders', body=<4 bytes>, tags='paid', keys=('o-42',))
"""

from importlib import import_module
from typing import TYPE_CHECKING

from orbitmq.errors import BrokerError, InvalidInput, NetworkError, OrbitError, SendFailed
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus, StoredMessage

if TYPE_CHECKING:
    from orbitmq.client.producer import Producer
else:

    def __getattr__(name: str) -> object:
        """Import what is heavy when it is first asked for: Spark tasks need messages alone."""
        if name == "Producer":
            producer: object = import_module("orbitmq.client.producer").Producer
            globals()[name] = producer
            return producer
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BrokerError",
    "InvalidInput",
    "Message",
    "MessageQueue",
    "NetworkError",
    "OrbitError",
    "Producer",
    "SendFailed",
    "SendReceipt",
    "SendStatus",
    "StoredMessage",
]
