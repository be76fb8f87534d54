"""Plain sends of one read, which are stored and answered together."""

from collections.abc import Callable, Sequence

from orbitmq.broker.sending.inbox import PutOutcome
from orbitmq.net.connection import Connection
from orbitmq.store.log.append import NewRecord, PutResult, PutStatus
from orbitmq.wire.plain_send import Placed, SendAnswerForm

__all__ = ["PlainBatch"]

OnFailure = Callable[[Connection, int, Placed, PutOutcome], None]
"""Answers one send that was refused, not stored, or not on disk in time, given its opaque."""


class PlainBatch:
    """Records in the order of their requests, and who gets the answers."""

    __slots__ = ("_connection", "_form", "_on_failure", "_opaques", "body_bytes", "records")

    def __init__(
        self,
        connection: Connection,
        opaques: Sequence[int],
        records: Sequence[NewRecord],
        form: SendAnswerForm,
        on_failure: OnFailure,
    ) -> None:
        self._connection = connection
        self._opaques = opaques
        self.records = records
        self.body_bytes = sum([len(record.body) for record in records])
        self._form = form
        self._on_failure = on_failure

    def __repr__(self) -> str:
        return f"<PlainBatch of {len(self.records)} from {self._connection.peer}>"

    def answer(
        self, stored: int, failure: PutOutcome | None, status: PutStatus = PutStatus.PUT_OK
    ) -> None:
        """Answer all: the first ``stored`` ones are stored, the others failed.

        The stored ones may be late: ``status`` says whether disk or replicas are not known to have
        them.
        """
        opaques, records, placed = self._opaques, self.records, self._placed()
        self._count(stored)
        if status is not PutStatus.PUT_OK:
            for opaque, one, record in zip(opaques[:stored], placed, records, strict=False):
                self._on_failure(self._connection, opaque, one, _late(record, status))
        elif stored:
            self._connection.respond_together(self._form.frames(opaques[:stored], placed))
        if failure is not None:
            for opaque, one in zip(opaques[stored:], placed[stored:], strict=True):
                self._on_failure(self._connection, opaque, one, failure)

    # For sends that are stored elsewhere than their answers say

    def _placed(self) -> Sequence[Placed]:
        """Return what the answers say of each."""
        return self.records

    def _count(self, stored: int) -> None:
        """Do nothing with the number of stored ones."""


def _late(record: NewRecord, status: PutStatus) -> PutResult:
    return PutResult(
        status=status,
        queue_offset=record.queue_offset,
        offsets=(record.commit_log_offset,),
        end=record.commit_log_offset + record.size,
        store_timestamp_ms=record.store_timestamp_ms,
    )
