"""Replies to requests: SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2.

A reply passes the checks of a send, is pushed to its requester, and then stored in the reply topic
if ``storeReplyMessageEnable`` is set. The answer says whether the requester has it, whether or not
it is stored (Java's ``ReplyMessageProcessor``).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from orbitmq.broker.handlers.client.send import born_host
from orbitmq.broker.sending import stored_properties
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.replies import Replies
from orbitmq.broker.sending.send_checks import SendChecks, SendHeader
from orbitmq.broker.settings import LiveSettings
from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessage, SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Response

__all__ = ["ReplyHandlers"]

log = logging.getLogger("orbitmq.broker")

# Java stores no flags, so that a consumer of the reply topic can't read a compressed body.
_STORED_FLAGS: Final = flags.COMPRESSED | flags.COMPRESSION_MASK


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ReplyHandlers:
    """Serves replies; ``store_host`` returns the address in message ids."""

    replies: Replies
    checks: SendChecks
    inbox: Inbox
    settings: LiveSettings
    store_host: Callable[[], Host]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply_v2,
        }

    async def reply(self, connection: Connection, request: Frame) -> Response:
        """Push a reply; the header has its fields by name."""
        return await self._serve(connection.peer, request, request.read(SendMessage))

    async def reply_v2(self, connection: Connection, request: Frame) -> Response:
        """Push a reply; the header has its fields by letter."""
        return await self._serve(connection.peer, request, request.read(SendMessageV2))

    async def _serve(self, peer: str, request: Frame, header: SendHeader) -> Response:
        own = stored_properties.own_properties(self.settings.broker)
        region = {name: own[name] for name in (properties.REGION, properties.TRACE_ON)}
        found = stored_properties.read(header.properties or "") | region
        try:
            topic = self.checks.topic(header, peer)
            queue_id = self.checks.queue_id(header.queue_id, topic, peer)
            remark = await self.replies.push(header, found, request, peer)
        except Refusal as refusal:
            return Response(refusal.code, remark=refusal.remark, fields=region)
        stored = None
        if self.settings.broker.store_reply_message_enable:
            message = Incoming(
                topic=header.topic,
                queue_id=queue_id,
                body=request.body,
                properties=properties.join(found),
                flag=header.flag,
                sys_flag=header.sys_flag & _STORED_FLAGS,
                born_timestamp_ms=header.born_timestamp,
                born_host=born_host(peer),
                store_host=self.store_host(),
                reconsume_times=header.reconsume_times or 0,
            )
            stored = await self._stored(message)
        answer = None
        if stored is not None:
            answer = SendMessageAnswer(
                msg_id=stored.message_ids(self.store_host()),
                queue_id=queue_id,
                queue_offset=stored.queue_offset,
            )
        elif remark is None:  # clients expect these fields
            answer = SendMessageAnswer(msg_id="0", queue_id=queue_id, queue_offset=0)
        code = ResponseCode.SUCCESS if remark is None else ResponseCode.SYSTEM_ERROR
        return Response(code, answer, remark=remark, fields=region)

    async def _stored(self, message: Incoming) -> PutResult | None:
        """Store a reply; return None if that failed, which is only logged: it was pushed before."""
        done: asyncio.Future[PutOutcome] = asyncio.get_running_loop().create_future()
        try:
            self.inbox.put(message, done.set_result)
            outcome = await done
        except Refusal as refusal:
            outcome = refusal
        if isinstance(outcome, PutResult) and outcome.offsets:
            return outcome
        log.warning("a reply was not stored in %s: %s", message.topic, outcome.remark)
        return None
