"""The client for code without an event loop: the same names, arguments and errors, without await.

>>> from orbitmq import embedded
>>> from orbitmq.message.model import Message
>>> with embedded.start() as cluster:
...     with Producer("billing", nameserver=cluster.nameserver) as producer:
...         producer.send(Message("orders", b"paid", keys=["o-42"])).status
<SendStatus.SEND_OK: 'SEND_OK'>

Each object wraps an async one, which runs on the loop thread of the process
(``client/core/loop_thread.py``), so heartbeats continue between calls. Threads may share objects.

Selectors and hooks run on the loop thread and must not block. Functions that may block run on other
threads: the work and checks of transactions, and the callbacks of ``send_later``.
"""

from orbitmq.blocking.admin import Admin
from orbitmq.blocking.consumer import Consumer
from orbitmq.blocking.producer import Outbox, Producer, Transaction
from orbitmq.blocking.pull import PullConsumer
from orbitmq.client.consumer.deduplication.blocking import Deduplicator
from orbitmq.client.producer.transactions import TransactionState

__all__ = [
    "Admin",
    "Consumer",
    "Deduplicator",
    "Outbox",
    "Producer",
    "PullConsumer",
    "Transaction",
    "TransactionState",
]
