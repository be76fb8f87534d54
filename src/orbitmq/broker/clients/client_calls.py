"""Requests of a broker to its clients: to rebalance, to reset offsets, to report their status.

Notifications are one-way. A client that can't be reached is only logged: its connection is closed,
which removes it from its group and notifies the others.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from orbitmq.broker.clients.members import Member, Members
from orbitmq.errors import OrbitError, RequestTimeout
from orbitmq.message.model import MessageQueue
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.offsets import ConsumerStatus, OffsetReset, OffsetResetForC, QueueOffset
from orbitmq.wire.codes import Language, RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.heartbeat import NotifyConsumerIdsChanged
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response

__all__ = ["ClientCalls"]

log = logging.getLogger("orbitmq.broker")

_STATUS_TIMEOUT_MS: Final = 5_000
_RELAY_TIMEOUT_MS: Final = 10_000
"""Both are Java's (Broker2Client, AdminBrokerProcessor.callConsumer)."""


@dataclass(slots=True, eq=False, repr=False)
class ClientCalls:
    """Sends requests to the clients of groups."""

    members: Members

    def notify_ids_changed(self, groups: Iterable[str]) -> None:
        """Notify the consumers of groups that a member joined or left, so that they rebalance."""
        for name in groups:
            group = self.members.consumers(name)
            if group is None or group.is_broadcasting:
                continue
            for member in list(group.members.values()):
                self._notify(member, NotifyConsumerIdsChanged(consumer_group=name))

    def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int, offsets: Mapping[MessageQueue, int]
    ) -> None:
        """Ask all consumers of a group to continue from other offsets; refuse if there are none."""
        found = self.members.consumers(group)
        if found is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "Consumer not online, so can not reset offset, "
                f"Group: {group} Topic: {topic} Timestamp: {timestamp_ms}",
            )
        header = ResetOffset(group=group, topic=topic, timestamp=timestamp_ms)
        body = OffsetReset(offset_table=QueueMap(offsets)).to_json()
        for member in list(found.members.values()):
            # The C++ client reads a list; Java's reads a map with objects as keys.
            is_cpp = member.language == Language.CPP.name
            self._notify(member, header, _listed(offsets) if is_cpp else body)

    async def statuses(self, group: str, topic: str, client_id: str | None) -> ConsumerStatus:
        """Return the consumer offsets of the clients of a group, by client id.

        Raise Refusal if no client is connected.
        """
        found = self.members.consumers(group)
        if found is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{group}]",
            )
        asked = [
            member
            for member in found.members.values()
            if not client_id or member.client_id == client_id
        ]
        header = GetConsumerStatus(topic=topic, group=group)
        # All at once; Java asks one after another, so that a silent client delays the others.
        statuses = await asyncio.gather(*(self._status(member, header) for member in asked))
        answered = zip(asked, statuses, strict=True)
        return ConsumerStatus(
            consumer_table={
                member.client_id: status.message_queue_table
                for member, status in answered
                if status is not None
            }
        )

    async def relay(
        self, group: str, client_id: str, header: Header, body: bytes = b""
    ) -> Response:
        """Forward a request to one client of a group and return its answer.

        Raise Refusal if the client isn't connected, or does not answer.
        """
        member = self.members.consumer(group, client_id)
        if member is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        try:
            answer = await member.connection.request(header, body, timeout_ms=_RELAY_TIMEOUT_MS)
        except RequestTimeout as error:
            raise Refusal(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{client_id}> Timeout: {error}",
            ) from error
        except OrbitError as error:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"invoke consumer <{group}> <{client_id}> Exception: {error}",
            ) from error
        return Response(answer.code, body=bytes(answer.body), remark=answer.remark)

    async def _status(self, member: Member, header: GetConsumerStatus) -> ConsumerStatus | None:
        """Return the offsets of one client; None if it does not answer."""
        try:
            answer = await member.connection.request(
                header,
                timeout_ms=_STATUS_TIMEOUT_MS,
                code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            )
            if answer.code == ResponseCode.SUCCESS and answer.body:
                return ConsumerStatus.from_json(answer.body)
            log.warning(
                "consumer %s did not report its status: %s", member.client_id, answer.remark
            )
        except OrbitError as error:
            log.warning("consumer %s did not report its status: %s", member.client_id, error)
        return None

    def _notify(self, member: Member, header: Header, body: bytes = b"") -> None:
        try:
            member.connection.oneway(header, body)
        except OrbitError as error:
            log.warning("consumer %s could not be notified: %s", member.client_id, error)


def _listed(offsets: Mapping[MessageQueue, int]) -> bytes:
    rows = tuple(
        QueueOffset(
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            offset=offset,
        )
        for queue, offset in offsets.items()
    )
    return OffsetResetForC(offset_table=rows).to_json()
