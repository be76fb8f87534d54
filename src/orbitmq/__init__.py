"""Apache RocketMQ for Python and Spark teams.

>>> from orbitmq import Message
>>> Message("orders", b"paid", tags="paid", keys=["o-42"])
Message(topic='orders', body=<4 bytes>, tags='paid', keys=('o-42',))
"""

from importlib import import_module
from typing import TYPE_CHECKING

from orbitmq.errors import BrokerError, InvalidInput, NetworkError, OrbitError, SendFailed
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus, StoredMessage
from orbitmq.version import VERSION as _VERSION

__version__ = _VERSION

if TYPE_CHECKING:
    from orbitmq.client.admin.admin import Admin
    from orbitmq.client.consumer.deduplication.deduplicator import Deduplicator
    from orbitmq.client.consumer.delivery.handler import RetryLater
    from orbitmq.client.consumer.pull import PullConsumer
    from orbitmq.client.consumer.push import Consumer
    from orbitmq.client.consumer.subscriptions import Sql
    from orbitmq.client.observe.consume_hooks import ConsumeContext, ConsumeHook
    from orbitmq.client.observe.hooks import SendContext, SendHook
    from orbitmq.client.observe.receipt_log import ReceiptLog
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
    from orbitmq.client.run import run
else:
    # Imported on first use: a Spark task that needs Message alone loads no event loop.
    _LAZY = {
        "Admin": "orbitmq.client.admin.admin",
        "ConsistentHash": "orbitmq.client.producer.sending.queue_choice",
        "ConsumeContext": "orbitmq.client.observe.consume_hooks",
        "ConsumeHook": "orbitmq.client.observe.consume_hooks",
        "Consumer": "orbitmq.client.consumer.push",
        "Deduplicator": "orbitmq.client.consumer.deduplication.deduplicator",
        "Producer": "orbitmq.client.producer.producer",
        "PullConsumer": "orbitmq.client.consumer.pull",
        "ReceiptLog": "orbitmq.client.observe.receipt_log",
        "RetryLater": "orbitmq.client.consumer.delivery.handler",
        "SendContext": "orbitmq.client.observe.hooks",
        "SendHook": "orbitmq.client.observe.hooks",
        "Sql": "orbitmq.client.consumer.subscriptions",
        "TransactionListener": "orbitmq.client.producer.transactions",
        "TransactionState": "orbitmq.client.producer.transactions",
        "by_hash": "orbitmq.client.producer.sending.queue_choice",
        "by_machine_room": "orbitmq.client.producer.sending.queue_choice",
        "by_random": "orbitmq.client.producer.sending.queue_choice",
        "by_sharding_key": "orbitmq.client.producer.sending.queue_choice",
        "delay_level": "orbitmq.client.producer.sending.delay_levels",
        "run": "orbitmq.client.run",
    }

    def __getattr__(name: str) -> object:
        """Import one of the names in ``_LAZY``."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "Admin",
    "BrokerError",
    "ConsistentHash",
    "ConsumeContext",
    "ConsumeHook",
    "Consumer",
    "Deduplicator",
    "InvalidInput",
    "Message",
    "MessageQueue",
    "NetworkError",
    "OrbitError",
    "Producer",
    "PullConsumer",
    "ReceiptLog",
    "RetryLater",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendReceipt",
    "SendStatus",
    "Sql",
    "StoredMessage",
    "TransactionListener",
    "TransactionState",
    "by_hash",
    "by_machine_room",
    "by_random",
    "by_sharding_key",
    "delay_level",
    "run",
]
