"""Requests of operators to consumers, forwarded by the broker.

GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY, INVOKE_BROKER_TO_GET_CONSUMER_STATUS.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.errors import InvalidInput
from orbitmq.message.ids import parse_offset_id
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import ConsumeMessageDirectly, GetConsumerRunningInfo
from orbitmq.wire.headers.offset import GetConsumerStatus
from orbitmq.wire.session import Response

__all__ = ["RelayHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class RelayHandlers:
    """Forwards requests to clients, and returns their answers."""

    calls: ClientCalls
    store: MessageStore
    broker_name: str

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._status,
        }

    async def _running_info(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetConsumerRunningInfo)
        return await self.calls.relay(header.consumer_group, header.client_id, header)

    async def _consume_directly(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(ConsumeMessageDirectly)
        header = msgspec.structs.replace(asked, broker_name=self.broker_name)
        if not header.client_id or not header.msg_id:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                "clientId and msgId are missing; name the client and the message to consume",
            )
        body = self._record(header.msg_id)
        return await self.calls.relay(header.consumer_group, header.client_id, header, body)

    async def _status(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetConsumerStatus)
        status = await self.calls.statuses(header.group, header.topic, header.client_addr)
        return Response(body=status.to_json())

    def _record(self, message_id: str) -> bytes:
        try:
            _, offset = parse_offset_id(message_id)
        except InvalidInput as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
        found = self.store.record(offset)
        if found is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"no message is stored under the id {message_id}"
            )
        return bytes(found.raw)
