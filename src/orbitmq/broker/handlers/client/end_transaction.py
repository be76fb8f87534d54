"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE: how a transaction ends, and checks again.

::

    END_TRANSACTION ─▶ the half is found ─▶ in time ─▶ group and offsets are right ─▶ ended once
          └─ unknown: nothing happens, the broker asks later

Clients send END_TRANSACTION one-way; the answers are for those that don't. The first outcome holds:
a second end with the same decision is a success, one with the other is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from orbitmq.broker import remarks
from orbitmq.broker.sending.half_messages import Decision, HalfMessages, copy_of
from orbitmq.broker.sending.inbox import Inbox, PutOutcome
from orbitmq.broker.sending.transaction_checks import TransactionChecks, immunity_ms
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput
from orbitmq.message import flags, properties
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC
from orbitmq.message.record_view import RecordView
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.transaction import EndTransaction, ResumeCheckHalfMessage
from orbitmq.wire.session import Response

__all__ = ["TransactionHandlers"]

_DECISIONS: Final[Mapping[int, Decision]] = {
    flags.TRANSACTION_COMMIT: Decision.COMMIT,
    flags.TRANSACTION_ROLLBACK: Decision.ROLLBACK,
}
_NOT_FOUND: Final = "Find prepared transaction message failed"
_producer_group = properties.finder(properties.PRODUCER_GROUP.encode())
_immunity = properties.finder(properties.CHECK_IMMUNITY_SECONDS.encode())


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class TransactionHandlers:
    """Serves ends of transactions, and operators who want one checked again."""

    store: MessageStore
    inbox: Inbox
    halves: HalfMessages
    checks: TransactionChecks
    settings: LiveSettings
    clock: Clock

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    def end(self, connection: Connection, request: Frame) -> Response | None:
        """Commit or roll back; answer when that is stored."""
        header = request.read(EndTransaction)
        if header.from_transaction_check:
            self.checks.answered(connection)
        if header.commit_or_rollback == flags.TRANSACTION_NONE:
            return Response()  # Java doesn't answer; a caller that waits would time out
        decision = _DECISIONS.get(header.commit_or_rollback)
        if decision is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"commitOrRollback is {header.commit_or_rollback}; it must be "
                f"{flags.TRANSACTION_COMMIT} to commit, {flags.TRANSACTION_ROLLBACK} to roll back, "
                "or 0 if that is unknown",
            )
        half = self._record(header.commit_log_offset, HALF_TOPIC)
        if half is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{_NOT_FOUND}: there is no half message at {header.commit_log_offset} of the log; "
                "it may have expired",
            )
        self._check_in_time(half, header)
        _check_same(half, header)
        self.halves.end(half, decision, partial(self._answer, connection, request, decision))
        return None

    def resume(self, connection: Connection, request: Frame) -> Response | None:
        """Make a half that was checked too often wait for checks again."""
        header = request.read(ResumeCheckHalfMessage)
        failed = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
        try:
            _, offset = parse_offset_id(header.msg_id or "")
        except InvalidInput as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{failed} {error}") from error
        record = self._record(offset, CHECKED_TOO_OFTEN_TOPIC)
        if record is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{failed} {header.msg_id} is no message of {CHECKED_TOO_OFTEN_TOPIC}",
            )
        if why_not := self.halves.why_not_resumed(record):
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{failed} {why_not}")
        found = properties.decode(record.properties)
        found[properties.TRANSACTION_CHECK_TIMES] = "0"
        message = copy_of(record, HALF_TOPIC, found)
        on_stored = partial(self._resumed, connection, request)
        real_topic = found.get(properties.REAL_TOPIC, "")
        self.inbox.put(message, self.halves.counting(real_topic, on_stored))
        return None

    def _record(self, offset: int, topic: str) -> RecordView | None:
        """Return the record of a topic at an offset of the log that a client names."""
        found = self.store.record(offset)
        if found is None or found.topic != topic.encode() or not self.store.is_filed(found):
            return None
        return found

    def _check_in_time(self, half: RecordView, header: EndTransaction) -> None:
        """Refuse an end after the immunity time, which a check decides (Java does the same)."""
        text = _immunity(half.properties)
        if not text or header.from_transaction_check:
            return
        time_out_ms = self.settings.broker.transaction_time_out
        immune_ms = max(immunity_ms(text.decode(errors="replace"), time_out_ms), time_out_ms)
        if self.clock.now_ms() - half.born_timestamp_ms > immune_ms:
            raise Refusal(
                ResponseCode.ILLEGAL_OPERATION,
                f"the {immune_ms} ms of CHECK_IMMUNITY_TIME_IN_SECONDS are over; wait for the "
                "check of the broker",
            )

    def _answer(
        self,
        connection: Connection,
        request: Frame,
        asked: Decision,
        outcome: Decision | PutOutcome,
    ) -> None:
        if isinstance(outcome, Refusal):
            response = outcome.response()
        elif isinstance(outcome, PutResult):
            response = self._not_stored(outcome)
        elif outcome is asked:
            response = Response()
        else:
            response = Response(
                ResponseCode.ILLEGAL_OPERATION,
                remark=f"the transaction was {outcome.value} before, and stays so",
            )
        connection.respond(request, response)

    def _not_stored(self, result: PutResult) -> Response:
        if result.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
            remark = remarks.message_illegal(result.remark, self.settings.store.max_message_bytes)
            return Response(ResponseCode.MESSAGE_ILLEGAL, remark=remark)
        if result.status is PutStatus.SERVICE_NOT_AVAILABLE:
            remark = f"Service not available now. {result.remark}"
            return Response(ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark)
        if result.status is PutStatus.CREATE_MAPPED_FILE_FAILED:
            remark = f"Create mapped file failed. {result.remark}"
        else:
            remark = f"UNKNOWN_ERROR {result.remark}"
        return Response(ResponseCode.SYSTEM_ERROR, remark=remark)

    def _resumed(self, connection: Connection, request: Frame, outcome: PutOutcome) -> None:
        if isinstance(outcome, Refusal):
            response = outcome.response()
        elif outcome.status.is_stored:
            response = Response()
        else:
            response = Response(
                ResponseCode.SYSTEM_ERROR,
                remark=f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {outcome.remark}",
            )
        connection.respond(request, response)


def _check_same(half: RecordView, header: EndTransaction) -> None:
    """Refuse an end that is about another half than the one in the log."""
    if (_producer_group(half.properties) or b"").decode(errors="replace") != header.producer_group:
        wrong = "The producer group wrong"
    elif half.queue_offset != header.tran_state_table_offset:
        wrong = "The transaction state table offset wrong"
    elif half.commit_log_offset != header.commit_log_offset:
        wrong = "The commit log offset wrong"
    else:
        return
    raise Refusal(
        ResponseCode.SYSTEM_ERROR,
        f"{wrong}: the half message at {half.commit_log_offset} of the log is another one; end a "
        "transaction with the offsets of its own send or check",
    )
