"""CONSUMER_SEND_MSG_BACK: a consumer failed to handle a message and sends it back.

The message is read from the log at the offset in the request and stored again: in a delay level for
the group's retry topic, or as a dead letter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.sending import stored_properties
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.retries import Destination, Retries, delay_level, max_tries
from orbitmq.broker.settings import LiveSettings
from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.message.ids import offset_id
from orbitmq.message.record_view import RecordView
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import WRITE, RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ConsumerSendMsgBack
from orbitmq.wire.session import Response

__all__ = ["SendBackHandlers"]

_WITHOUT_QUEUE: Final = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class SendBackHandlers:
    """Serves messages that consumers send back.

    ``store_host`` returns the address in message ids, ``own_host`` the host in routes.
    """

    store: MessageStore
    inbox: Inbox
    retries: Retries
    stats: BrokerStats
    settings: LiveSettings
    store_host: Callable[[], Host]
    own_host: Callable[[], str]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, connection: Connection, request: Frame) -> Response | None:
        """Store the message again; answer when it is stored as safely as a send.

        The consumer then commits an offset past it. Java's broker does not wait for the disk: its
        groups miss the message if power is lost in that moment. If disk or slaves don't have it in
        time, it counts as stored all the same: clients would store a second one. A master that may
        have been replaced says that it is not: its message may be cut from the log.
        """
        header = request.read(ConsumerSendMsgBack)
        group = self.retries.group(header.group)
        if not self.settings.broker.broker_permission & WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.own_host()}] sending message is forbidden",
            )
        if group.retry_queue_nums <= 0:
            return Response()  # the group has no retries
        retry = self.retries.retry(group, unit_mode=header.unit_mode)
        record = self.store.record(header.offset)
        if record is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}"
            )
        if record.sys_flag & flags.INNER_BATCH:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{PutStatus.MESSAGE_ILLEGAL.value}: it is one of an inner batch, which can't be "
                "stored again as a whole; clients then send the message to the retry topic",
            )
        limit = max_tries(group, header.max_reconsume_times, request.version)
        if record.reconsume_times >= limit or header.delay_level < 0:
            destination, level = self.retries.dead_letter(header.group), 0
        else:
            destination = retry
            level = delay_level(header.delay_level, record.reconsume_times)
        highest = len(self.settings.store.message_delay_level.split())
        message, topic = self._again(record, destination, min(level, highest))
        on_stored = partial(self._answer, connection, request, header.group, topic, destination)
        self.inbox.put(message, on_stored)
        return None

    def _again(
        self, record: RecordView, destination: Destination, level: int
    ) -> tuple[Incoming, str]:
        """Return the message to store, and its original topic."""
        found = properties.decode(record.properties)
        found.pop(properties.CRC32, None)  # the checksum of the record that was read
        origin = found.setdefault(properties.RETRY_TOPIC, record.topic.decode(errors="replace"))
        found[properties.WAIT] = "false"
        found[properties.DELAY] = str(level)
        if not found.get(properties.ORIGIN_MESSAGE_ID, "").strip():
            found[properties.ORIGIN_MESSAGE_ID] = offset_id(
                record.store_host, record.commit_log_offset
            )
        topic, queue_id = destination.topic.topic_name, destination.queue_id
        if level > 0 and flags.transaction_state(record.sys_flag) not in _WITHOUT_QUEUE:
            topic, queue_id = stored_properties.schedule(found, level, topic, queue_id)
        message = Incoming(
            topic=topic,
            queue_id=queue_id,
            body=record.body,
            properties=properties.join(found),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
            store_host=self.store_host(),
            reconsume_times=record.reconsume_times + 1,
        )
        return message, origin

    def _answer(
        self,
        connection: Connection,
        request: Frame,
        group: str,
        topic: str,
        destination: Destination,
        outcome: PutOutcome,
    ) -> None:
        if isinstance(outcome, Refusal):
            response = outcome.response()
        elif outcome.status.is_stored:
            response = Response()
            self.stats.sent_back(group, topic)
            if destination.is_dead:
                self.stats.dead_lettered(group, topic)
        else:
            remark = f"{outcome.status.value}: {outcome.remark}"
            response = Response(ResponseCode.SYSTEM_ERROR, remark=remark)
        connection.respond(request, response)
