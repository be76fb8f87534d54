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
    from orbitmq.client.observe.hooks import SendContext, SendHook
    from orbitmq.client.producer.producer import Producer
    from orbitmq.client.producer.sending.delay_levels import delay_level
    from orbitmq.client.producer.sending.queue_choice import (
        ConsistentHash,
        by_hash,
        by_machine_room,
        by_random,
        by_sharding_key,
    )
    from orbitmq.client.producer.transactions import TransactionListener, TransactionState
else:
    # Imported on first use: a Spark task that needs Message alone loads no event loop.
    _LAZY = {
        "ConsistentHash": "orbitmq.client.producer.sending.queue_choice",
        "Producer": "orbitmq.client.producer.producer",
        "SendContext": "orbitmq.client.observe.hooks",
        "SendHook": "orbitmq.client.observe.hooks",
        "TransactionListener": "orbitmq.client.producer.transactions",
        "TransactionState": "orbitmq.client.producer.transactions",
        "by_hash": "orbitmq.client.producer.sending.queue_choice",
        "by_machine_room": "orbitmq.client.producer.sending.queue_choice",
        "by_random": "orbitmq.client.producer.sending.queue_choice",
        "by_sharding_key": "orbitmq.client.producer.sending.queue_choice",
        "delay_level": "orbitmq.client.producer.sending.delay_levels",
    }

    def __getattr__(name: str) -> object:
        """Import one of the names in ``_LAZY``."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "BrokerError",
    "ConsistentHash",
    "InvalidInput",
    "Message",
    "MessageQueue",
    "NetworkError",
    "OrbitError",
    "Producer",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendReceipt",
    "SendStatus",
    "StoredMessage",
    "TransactionListener",
    "TransactionState",
    "by_hash",
    "by_machine_room",
    "by_random",
    "by_sharding_key",
    "delay_level",
]
