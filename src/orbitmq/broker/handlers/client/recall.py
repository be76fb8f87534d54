"""RECALL_MESSAGE: a producer takes a message back before its delivery time.

The checks are those of Java's ``RecallMessageProcessor``, in its order. A recall is a message too:
it waits in the slot of the other one, and cancels it when the slot is due.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from orbitmq.broker.handlers.client.send import born_host
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.timer_rules import TimerRules
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.topics import Topics
from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.host import Host
from orbitmq.message.ids import RecallHandle, parse_recall_handle
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming
from orbitmq.wire.codes import WRITE, RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import RecallMessage
from orbitmq.wire.session import Response

__all__ = ["RecallHandlers"]

_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"
_UNAVAILABLE: Final = "recall failed, broker service not available"


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class RecallHandlers:
    """Serves recalls; ``store_host`` returns the address in message ids."""

    inbox: Inbox
    topics: Topics
    timer_rules: TimerRules
    settings: LiveSettings
    clock: Clock
    store_host: Callable[[], Host]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.RECALL_MESSAGE: self.recall}

    def recall(self, connection: Connection, request: Frame) -> Response | None:
        """Store a recall; answer with the id of the recalled message when it is stored."""
        header = request.read(RecallMessage)
        region = {"MSG_REGION": self.settings.broker.region_id}
        try:
            handle = self._checked(header)
            message = self._message(header, handle, connection.peer)
            answer = partial(_answer, connection, request, handle.message_id, region)
            self.inbox.put(message, answer)
        except Refusal as refusal:
            return Response(refusal.code, remark=refusal.remark, fields=region)
        return None

    def _checked(self, header: RecallMessage) -> RecallHandle:
        """Return the parts of a handle that may be recalled; refuse it otherwise."""
        self._check_broker()
        if self.topics.get(header.topic) is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"recall failed, the topic[{header.topic}] not exist",
            )
        try:
            handle = parse_recall_handle(header.recall_handle)
        except InvalidInput as error:
            raise _illegal(f"recall handle is invalid: {error}") from None
        if handle.topic != header.topic:
            raise _illegal(f"recall failed, topic not match: the handle is for {handle.topic}")
        if handle.broker_name != self.settings.broker.broker_name:
            raise _illegal(f"{_UNAVAILABLE}: the handle is for {handle.broker_name}")
        left_ms = handle.timestamp_ms - self.clock.now_ms()
        if left_ms <= 0:
            raise _illegal(
                "recall failed, timestamp invalid: the message is delivered, or will be soon"
            )
        if left_ms >= self.settings.store.timer_max_delay_s * 1000:
            raise _illegal(f"recall failed, timestamp invalid: it is {left_ms} ms from now")
        return handle

    def _check_broker(self) -> None:
        settings = self.settings.broker
        if not settings.recall_message_enable:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                "recall failed, operation is forbidden: recallMessageEnable is false",
            )
        if self.clock.now_ms() < settings.start_accept_send_request_time_stamp:
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, f"{_UNAVAILABLE} yet")
        is_writable = settings.broker_permission & WRITE
        if not is_writable and not settings.allow_recall_when_broker_not_writeable:
            raise Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"{_UNAVAILABLE}: brokerPermission is {settings.broker_permission}",
            )

    def _message(self, header: RecallMessage, handle: RecallHandle, peer: str) -> Incoming:
        now_ms = self.clock.now_ms()
        key = handle.message_id
        if self.settings.store.timer_delete_key_with_topic:
            key = f"{handle.topic}+{key}"
        found = {
            properties.TAGS: _TAG,
            properties.TIMER_DELETE_UNIQUE_KEY: key,
            properties.UNIQUE_KEY: handle.message_id,
            properties.TIMER_DELIVER_MS: str(handle.timestamp_ms),
            properties.BORN_TIMESTAMP: str(now_ms),
        }
        if header.producer_group:
            found[properties.PRODUCER_GROUP] = header.producer_group
        topic, queue_id = self.timer_rules.place(found, handle.topic, 0)
        try:
            text = properties.encode(found)
        except InvalidInput as error:
            raise _illegal(f"recall handle is invalid: {error}") from None
        return Incoming(
            topic=topic,
            queue_id=queue_id,
            body=_BODY,
            properties=text,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=born_host(peer),
            store_host=self.store_host(),
        )


def _answer(
    connection: Connection,
    request: Frame,
    message_id: str,
    region: dict[str, str],
    outcome: PutOutcome,
) -> None:
    if isinstance(outcome, Refusal):
        response = outcome.response()
    elif outcome.status.is_stored:
        response = Response(fields={"msgId": message_id, **region})
    else:
        remark = f"recall failed, execute error: {outcome.status.value} {outcome.remark}"
        response = Response(ResponseCode.SYSTEM_ERROR, remark=remark, fields=region)
    connection.respond(request, response)


def _illegal(why: str) -> Refusal:
    return Refusal(ResponseCode.ILLEGAL_OPERATION, why)
