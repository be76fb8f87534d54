"""One pull: the request, the broker that gets it, and the messages of the answer.

What an answer can be::

    SUCCESS                  FOUND           messages, and the offset of the next pull
    PULL_NOT_FOUND           NO_NEW          nothing new, after the broker held the pull
    PULL_RETRY_IMMEDIATELY   NO_MATCH        messages, but none that the subscription selects
    PULL_OFFSET_MOVED        OFFSET_ILLEGAL  the queue doesn't have the offset, or it was reset
    other codes              BrokerError

Each answer suggests the broker for the queue's next pull: the master, or a slave for old messages.

Brokers select by the hashes of tags, so the tags of the messages are compared again here.
"""

import asyncio
import enum
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.publish_route import MASTER_ID
from orbitmq.client.core.queue_broker import queue_broker
from orbitmq.errors import BrokerError, CorruptRecord, OrbitError
from orbitmq.message import flags
from orbitmq.message.compression import CompressionType, decompress
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.properties import MAX_OFFSET, MIN_OFFSET
from orbitmq.message.scan import decode_all, split_inner
from orbitmq.net.address import Address
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import (
    COMMIT_OFFSET,
    LITE_PULL,
    SUBSCRIPTION,
    SUSPEND,
    PullMessage,
    PullMessageAnswer,
)

__all__ = ["PullStatus", "Pulled", "Pulls"]

log = logging.getLogger("orbitmq.client")

_OPEN_HERE_MAX: Final = 16 * 1024
"""Larger compressed bodies are decompressed by a worker: they would block the loop."""

_INNER_BATCH: Final = flags.NEED_UNWRAP | flags.INNER_BATCH
_PACKED: Final = flags.COMPRESSED | _INNER_BATCH


class PullStatus(enum.Enum):
    """What a broker answered to a pull."""

    FOUND = "found"
    NO_NEW = "no new message"
    NO_MATCH = "no matching message"
    OFFSET_ILLEGAL = "offset illegal"


_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCH,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


class Pulled(NamedTuple):
    """The answer to a pull; ``messages`` may be empty although some were FOUND: other tags."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class Pulls:
    """The pulls of one group.

    ``batch`` and ``batch_bytes`` limit an answer. A broker without new messages holds a pull for
    ``suspend_ms``; ``timeout_ms`` is for the answer. ``lite``: the group has no subscriptions at
    the brokers, so each pull has its own.
    """

    def __init__(
        self,
        core: ClientCore,
        group: str,
        *,
        batch: int,
        batch_bytes: int,
        suspend_ms: int,
        timeout_ms: int,
        lite: bool = False,
    ) -> None:
        self._core = core
        self._group = group
        self._batch = batch
        self._batch_bytes = batch_bytes
        self._suspend_ms = suspend_ms
        self._timeout_ms = timeout_ms
        self._lite = lite
        self._old: set[Address] = set()  # brokers of 4.x, which know PULL_MESSAGE alone
        self._suggested: dict[MessageQueue, int] = {}

    def __repr__(self) -> str:
        return f"<Pulls of {self._group}, {self._batch} messages each>"

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: SubscriptionData,
        *,
        commit: int | None = None,
        count: int | None = None,
        hold: bool = True,
    ) -> Pulled:
        """Return the next messages of a queue, from ``offset`` on.

        ``commit`` is an offset to commit on the way, ``count`` another limit than the batch.
        Without ``hold`` the broker answers at once. Raise BrokerError if it refuses, NetworkError
        and NoRoute if it can't be reached, CorruptRecord if the answer can't be read, and
        MissingExtra if a body needs a package that is not installed.
        """
        broker = await queue_broker(self._core, queue, self._suggested.get(queue, MASTER_ID))
        # Slaves take no commits.
        committed = commit if broker.is_master else None
        header = self._header(queue, offset, subscription, committed, count, hold)
        try:
            answer = await self._request(broker.address, header)
            pulled = await self._read(queue, offset, subscription, answer, broker.address)
        except OrbitError as error:
            self._suggested.pop(queue, None)
            if error.refresh_route or error.retriable:
                self._core.routes.invalidate(queue.topic)
            raise
        return pulled

    async def _request(self, address: Address, header: PullMessage) -> Frame:
        code = RequestCode.PULL_MESSAGE
        if self._lite and address not in self._old:
            code = RequestCode.LITE_PULL_MESSAGE
        answer = await self._core.request(address, header, timeout_ms=self._timeout_ms, code=code)
        is_unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        if is_unknown and code == RequestCode.LITE_PULL_MESSAGE:
            self._old.add(address)
            return await self._request(address, header)
        return answer

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is known of a queue that is no longer pulled."""
        self._suggested.pop(queue, None)

    def _header(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: SubscriptionData,
        commit: int | None,
        count: int | None,
        hold: bool,
    ) -> PullMessage:
        sys_flag = LITE_PULL | SUBSCRIPTION if self._lite else 0
        if hold:
            sys_flag |= SUSPEND
        if commit is not None:
            sys_flag |= COMMIT_OFFSET
        return PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._batch if count is None else count,
            sys_flag=sys_flag,
            commit_offset=commit or 0,
            suspend_timeout_millis=self._suspend_ms if hold else 0,
            subscription=subscription.sub_string if self._lite else None,
            sub_version=subscription.sub_version,
            max_msg_bytes=self._batch_bytes,
            expression_type=subscription.expression_type,
            target_broker=queue.broker_name,
        )

    async def _read(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: SubscriptionData,
        answer: Frame,
        address: Address,
    ) -> Pulled:
        status = _STATUS.get(answer.code)
        if status is None:
            raise BrokerError.of(answer.code, answer.remark, address=str(address))
        header = answer.read(PullMessageAnswer)
        self._suggested[queue] = header.suggest_which_broker_id
        messages: list[StoredMessage] = []
        if status is PullStatus.FOUND:
            messages = decode_all(
                answer.body,
                broker_name=queue.broker_name,
                open_bodies=False,
                more_properties={
                    MIN_OFFSET: str(header.min_offset),
                    MAX_OFFSET: str(header.max_offset),
                },
            )
            if any(one.sys_flag & _PACKED for one in messages):
                messages = await self._unpacked(messages)
            if header.offset_delta is not None:  # the queue of a static topic
                messages = _moved(messages, queue.queue_id, header.offset_delta)
            if messages and messages[0].queue_offset < offset:
                # Of a batch that is stored as one record, the broker sends all messages.
                messages = [one for one in messages if one.queue_offset >= offset]
            if subscription.tags_set and not subscription.class_filter_mode:
                wanted = frozenset(subscription.tags_set)
                messages = [one for one in messages if one.tags in wanted]
        return Pulled(
            status, messages, header.next_begin_offset, header.min_offset, header.max_offset
        )

    async def _unpacked(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return messages with bodies decompressed and batches split; large ones on a worker."""
        packed_bytes = sum(len(one.body) for one in messages if one.sys_flag & flags.COMPRESSED)
        if packed_bytes <= _OPEN_HERE_MAX:
            return _unpack(messages)
        return await asyncio.wrap_future(self._core.workers.submit(_unpack, messages))


def _unpack(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    return [part for one in messages for part in _parts(one)]


def _parts(message: StoredMessage) -> list[StoredMessage]:
    """Return the messages of a record, decompressed; the record as it is if that is impossible.

    Its sys flag then says that it is packed. A client can send such a record, and the messages
    behind it have to be consumed.
    """
    sys_flag, opened = message.sys_flag, message
    try:
        if sys_flag & flags.COMPRESSED and message.body:
            body = decompress(message.body, CompressionType.of(sys_flag))
            opened = replace(message, body=body, sys_flag=sys_flag & ~flags.COMPRESSED)
        if sys_flag & _INNER_BATCH != _INNER_BATCH:
            return [opened]
        ends = {name: message.properties[name] for name in (MIN_OFFSET, MAX_OFFSET)}
        return [
            replace(part, properties={**part.properties, **ends}) for part in split_inner(opened)
        ]
    except CorruptRecord as error:
        log.error(
            "topic %s, %s queue %d, offset %d: the message is delivered as it is stored: %s",
            *(message.topic, message.broker_name, message.queue_id, message.queue_offset, error),
        )
        return [message]


def _moved(messages: Iterable[StoredMessage], queue_id: int, delta: int) -> list[StoredMessage]:
    """Return messages with the logic queue's id and offsets, not those of the physical queue."""
    return [
        replace(one, queue_id=queue_id, queue_offset=one.queue_offset + delta) for one in messages
    ]
