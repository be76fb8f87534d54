"""Finds messages by key, using the indexes of brokers if these are reliable.

A broker answers QUERY_MESSAGE the same way whether no message has the key or the broker keeps no
index (``messageIndexEnable=false`` in Java). So a broker that finds nothing is tested: it must find
the newest message of a queue by its unique id, which is in the same index.

The keys of messages in an inner batch are in no index, only the batch's own; so a topic with batch
queues has to be read.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from orbitmq.errors import BrokerError, OrbitError
from orbitmq.message import properties
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.message.tags import SELECT_ALL
from orbitmq.spark.cluster.brokers import Brokers, QueueAnswers
from orbitmq.spark.offsets import Range
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX, Header
from orbitmq.wire.headers.admin import GetTopicConfig
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage
from orbitmq.wire.headers.query import QueryMessage

__all__ = ["KeySearch"]

log = logging.getLogger("orbitmq.spark")

_FOUND_MAX: Final = 64
"""The most messages that a broker returns for a key by default (maxMsgsNumBatch in Java)."""
_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger answer may be incomplete: Java truncates it to the limit of a frame."""


class KeySearch:
    """Searches some queues."""

    def __init__(
        self,
        brokers: Brokers,
        ranges: Mapping[MessageQueue, Range],
        wire_name: Callable[[str], str],
        group: str,
    ) -> None:
        self._brokers = brokers
        self._filled = {queue: has for queue, has in ranges.items() if has.max > has.min}
        self._queues = tuple(ranges)
        self._wire_name = wire_name
        self._group = group

    def offsets(self, key: str) -> dict[MessageQueue, list[int]] | None:
        """Return the offsets of the messages with a key, sorted, per queue.

        None if all messages have to be read: an index is off, has more messages than a broker
        returns, or can't be queried, or the topic has batch queues. The read then shows what is
        wrong.
        """
        wanted = {queue: list[int]() for queue in self._queues}
        one_of_each_broker = {(queue.topic, queue.broker_name): queue for queue in self._filled}
        try:
            for one in one_of_each_broker.values():
                found = None if self._has_batches(one) else self._found(one, key)
                if found is None or (not found and not self._has_index(one)):
                    return None
                for message in found:
                    queue = MessageQueue(one.topic, one.broker_name, message.queue_id)
                    # The index holds hashes: messages with another key of the same hash come too.
                    if queue in wanted and key in message.keys:
                        wanted[queue].append(message.queue_offset)
        except OrbitError as error:
            log.info("key %.60s is searched in all messages, not in indexes: %s", key, error)
            return None
        return {queue: sorted(offsets) for queue, offsets in wanted.items()}

    def _found(self, queue: MessageQueue, key: str) -> list[StoredMessage] | None:
        """Return a topic's messages with a key from the broker of a queue; None if incomplete."""
        header = QueryMessage(
            topic=self._wire_name(queue.topic),
            key=key,
            max_num=_FOUND_MAX,
            begin_timestamp=0,
            end_timestamp=INT64_MAX,
            unique_key=False,
        )
        return self._ask(queue, header, _whole)

    def _has_batches(self, queue: MessageQueue) -> bool:
        """Return whether a topic has batch queues; releases before 5.0 don't know such topics."""
        asked = GetTopicConfig(topic=self._wire_name(queue.topic))
        try:
            return self._brokers.ask([queue], lambda _queue: (asked,), _is_batched)[queue]
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return False
            raise

    def _has_index(self, queue: MessageQueue) -> bool:
        """Return whether the broker of a queue finds its newest message by index."""
        newest = self._ask(queue, self._pull_of_newest(queue), _messages)
        unique_key = newest[0].properties.get(properties.UNIQUE_KEY) if newest else None
        return unique_key is not None and bool(self._found(queue, unique_key))

    def _pull_of_newest(self, queue: MessageQueue) -> PullMessage:
        return PullMessage(
            consumer_group=self._wire_name(self._group),
            topic=self._wire_name(queue.topic),
            queue_id=queue.queue_id,
            queue_offset=self._filled[queue].max - 1,
            max_msg_nums=1,
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=SELECT_ALL,
            sub_version=0,
        )

    def _ask(
        self,
        queue: MessageQueue,
        header: Header,
        read: Callable[[QueueAnswers], list[StoredMessage] | None],
    ) -> list[StoredMessage] | None:
        return self._brokers.ask([queue], lambda _queue: (header,), read)[queue]


def _whole(answers: QueueAnswers) -> list[StoredMessage] | None:
    if len(answers.frames[0].body) > _BYTES_MAX:
        return None
    found = _messages(answers)
    return found if len(found) < _FOUND_MAX else None


def _is_batched(answers: QueueAnswers) -> bool:
    return TopicConfig.from_json(answers.frames[0].body).has_batch_queues


def _messages(answers: QueueAnswers) -> list[StoredMessage]:
    return decode_all(answers.frames[0].body)
