"""Replies to requests: pushed to the client that asked, and confirmed by it.

::

    replier ── SEND_REPLY_MESSAGE ──▶ broker ── PUSH_REPLY_MESSAGE_TO_CLIENT ──▶ requester
            ◀──── answer ────────────        ◀──── confirmation, within 10 s ────

The requester is found by the client id in the reply's properties, among the clients that have a
producer here. Each reply waits for its own confirmation only; their number and bytes are limited.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orbitmq.broker.clients.members import Members
from orbitmq.broker.sending import fast_fail
from orbitmq.broker.sending.send_checks import SendHeader
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message import properties
from orbitmq.message.host import Host
from orbitmq.net.connection import Connection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ReplyMessage

__all__ = ["Replies"]

log = logging.getLogger("orbitmq.broker")

_CONFIRM_TIMEOUT_MS: Final = 10_000
"""Java's (Broker2Client.callClient)."""
_ID_SHOWN_MAX: Final = 256
"""Characters of a client id in a remark. Java shows all, which may be megabytes."""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Replies:
    """Pushes replies to requesters; ``store_host`` returns the broker's address in messages."""

    members: Members
    settings: LiveSettings
    clock: Clock
    store_host: Callable[[], Host]
    _waiting: dict[Frame, int] = field(default_factory=dict, init=False)  # and since when
    _waiting_bytes: int = field(default=0, init=False)

    @property
    def waiting(self) -> int:
        """Replies that their requesters have not confirmed yet."""
        return len(self._waiting)

    async def push(
        self, header: SendHeader, found: Mapping[str, str], request: Frame, replier: str
    ) -> str | None:
        """Push a reply; return None when the requester has it, or a remark why it doesn't.

        ``found`` are its properties. Raise Refusal if too many replies wait for requesters.
        """
        self._check_room()
        client_id = found.get(properties.REPLY_TO_CLIENT)
        if client_id is None:
            return (
                f"reply message properties[{properties.REPLY_TO_CLIENT}] is null; copy it from the "
                "request, as MessageUtil.createReplyMessage and Producer.reply do"
            )
        requester, client_id = self.members.producer(client_id), client_id[:_ID_SHOWN_MAX]
        if requester is None:
            remark = (
                f"push reply message fail, channel of <{client_id}> not found. The requester has "
                "no producer connected to this broker any more, or not yet"
            )
            log.info("a reply of %s: %s", replier, remark)
            return remark
        now_ms = self.clock.now_ms()
        pushed_properties = {**found, properties.PUSH_REPLY_TIME: str(now_ms)}
        pushed = ReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties.join(pushed_properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=bool(header.unit_mode),
            born_host=replier,
            store_host=str(self.store_host()),
            store_timestamp=now_ms,
        )
        why = await self._confirmed(requester, pushed, request)
        if why is None:
            return None
        log.warning("the reply of %s was not pushed to %s: %s", replier, client_id, why)
        return f"push reply message to {client_id}fail. {why}"

    async def _confirmed(
        self, requester: Connection, pushed: ReplyMessage, request: Frame
    ) -> str | None:
        """Return None when the requester has confirmed the reply, or why it has not."""
        body = request.body
        self._waiting[request] = self.clock.monotonic_ms()
        self._waiting_bytes += len(body)
        try:
            answer = await requester.request(pushed, body, timeout_ms=_CONFIRM_TIMEOUT_MS)
        except OrbitError as error:
            return str(error)
        finally:
            del self._waiting[request]
            self._waiting_bytes -= len(body)
        if answer.code != ResponseCode.SUCCESS:
            return f"it answered {answer.code}: {answer.remark}"
        return None

    def _check_room(self) -> None:
        oldest_ms = next(iter(self._waiting.values()), self.clock.monotonic_ms())
        refusal = fast_fail.queue_full(
            len(self._waiting),
            self._waiting_bytes,
            capacity=self.settings.broker.reply_thread_pool_queue_capacity,
            oldest_ms=self.clock.monotonic_ms() - oldest_ms,
        )
        if refusal is not None:
            raise refusal
