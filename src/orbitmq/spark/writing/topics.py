"""The topics of a write: checked, and created, on the driver.

The first sends to a missing topic create it too, but broker by broker. A task that starts meanwhile
would see the queues of some brokers only, and send the rows of a sharding key to another queue than
the tasks before it. So the driver creates the topic on all brokers before tasks start.
"""

import logging
from collections import Counter
from typing import Final

from orbitmq.blocking import Admin, Producer
from orbitmq.clock import pause
from orbitmq.errors import NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.options.options import WriteOptions
from orbitmq.spark.writing.producers import producer_for

__all__ = ["ensure_topic"]

log = logging.getLogger("orbitmq.spark")

_LOOK_MS: Final = 100
_LOOKS_MAX: Final = 50
"""How often nameservers are asked for a new topic; a Java broker tells them within a second."""


def ensure_topic(options: WriteOptions, topic: str) -> None:
    """Check that a topic can be written to; create it if the first send would.

    If brokers refuse to create it, for lack of admin rights, the first sends do. Raise an
    OrbitError if no nameserver answers, or the topic is missing and sends don't create it.
    """
    producer = producer_for(options)
    try:
        producer.queues(topic)
    except NoRoute:
        queues = producer.queues(topic, must_exist=False)
    else:
        return
    try:
        _create(producer, topic, queues)
    except OrbitError as error:
        log.warning(
            "the first sends will create topic %s, and rows of one sharding key may go to several "
            "queues until it is on all brokers; create it before the write: %s",
            *(topic, error),
        )


def _create(producer: Producer, topic: str, queues: tuple[MessageQueue, ...]) -> None:
    """Create a topic with these queues; return when nameservers know all of them."""
    per_broker = max(Counter(queue.broker_name for queue in queues).values())
    with Admin(client=producer.client_settings) as admin:
        admin.create_topic(topic, queues=per_broker)
        for _ in range(_LOOKS_MAX):
            if _known(admin, topic) >= set(queues):
                return
            pause(_LOOK_MS)


def _known(admin: Admin, topic: str) -> set[MessageQueue]:
    try:
        return set(admin.queues(topic))
    except NoRoute:
        return set()
