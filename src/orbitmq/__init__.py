"""Apache RocketMQ for Python and Spark teams.

>>> from orbitmq import Message
>>> Message("orders", b"paid", tags="paid", keys=["o-42"])
Message(topic='orders', body=b'paid' (4 bytes), tags='paid', keys=('o-42',))
"""

from orbitmq.errors import BrokerError, InvalidInput, NetworkError, OrbitError
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus, StoredMessage

__all__ = [
    "BrokerError",
    "InvalidInput",
    "Message",
    "MessageQueue",
    "NetworkError",
    "OrbitError",
    "SendReceipt",
    "SendStatus",
    "StoredMessage",
]
