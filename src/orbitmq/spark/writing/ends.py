"""Ends transactions by END_TRANSACTION as a request with an answer, many in flight.

Java's client sends it one-way, and can't know what came of it; brokers answer all the same. Those
of one connection are sent in the order of the rows.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from orbitmq.clock import Clock, SystemClock, pause
from orbitmq.errors import BrokerError, NetworkError, OrbitError
from orbitmq.message import flags
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access
from orbitmq.spark.writing.half_list import Half, HalfListHead
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.transaction import EndTransaction

__all__ = ["TransactionEnds"]

_AT_ONCE: Final = 256
"""Ends of one broker in flight; each takes some 200 bytes in the buffers of a socket."""
_LATE_MS: Final = 5_000
"""So long before the end of its time a half counts as late, since clocks differ."""
_PAUSE_MS: Final = 500


class TransactionEnds:
    """Commits and rolls back half messages; a context manager.

    ``try_ms`` is how long failed ends are repeated, such as while a broker restarts.
    """

    def __init__(self, access: Access, *, try_ms: int, clock: Clock | None = None) -> None:
        self._cluster = Cluster(access)
        self._clock = clock or SystemClock()
        self._try_ms = try_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cluster.close()

    def commit(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        """Commit all halves; return the errors of those that are left, by index."""
        left = dict(enumerate(halves))
        until_ms = self._clock.monotonic_ms() + self._try_ms
        while True:
            errors = self._end(left, head, flags.TRANSACTION_COMMIT)
            left = {index: left[index] for index in errors}
            is_final = all(not _may_pass(error) for error in errors.values())
            if is_final or self._clock.monotonic_ms() >= until_ms:
                return errors
            pause(_PAUSE_MS)

    def roll_back(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        """Roll back all halves, with one try; return the errors by index."""
        return self._end(dict(enumerate(halves)), head, flags.TRANSACTION_ROLLBACK)

    def _end(
        self, halves: Mapping[int, Half], head: HalfListHead, decision: int
    ) -> dict[int, OrbitError]:
        by_broker: dict[str, list[int]] = {}
        for index, half in halves.items():
            by_broker.setdefault(half.broker, []).append(index)
        errors: dict[int, OrbitError] = {}
        for broker, indexes in by_broker.items():
            try:
                for start in range(0, len(indexes), _AT_ONCE):
                    some = indexes[start : start + _AT_ONCE]
                    errors |= self._end_at(broker, {n: halves[n] for n in some}, head, decision)
            except OrbitError as error:  # nothing after it was sent to this broker
                errors |= {index: errors.get(index, error) for index in indexes[start:]}
        return errors

    def _end_at(
        self, broker: str, halves: Mapping[int, Half], head: HalfListHead, decision: int
    ) -> dict[int, OrbitError]:
        """End transactions of one broker; return the errors that it answers.

        If an answer is missing, raise NetworkError: any of them may have ended.
        """
        queue = MessageQueue(next(iter(halves.values())).topic, broker, 0)
        try:
            connection = self._cluster.connection(queue, exact=True).connection
            numbers = connection.start_all(
                self._header(one, head, decision) for one in halves.values()
            )
            answers = [connection.result(number) for number in numbers]
        except OrbitError:
            self._cluster.forget(queue)  # also closes the connection, on which answers may follow
            raise
        return {
            index: BrokerError.of(answer.code, answer.remark, address=connection.peer)
            for index, answer in zip(halves, answers, strict=True)
            if answer.code != ResponseCode.SUCCESS
        }

    def _header(self, half: Half, head: HalfListHead, decision: int) -> EndTransaction:
        # After its time, brokers take the end of a half only as the answer to a check.
        is_late = self._clock.now_ms() >= head.expires_ms - _LATE_MS
        return EndTransaction(
            topic=self._cluster.wire_name(half.topic),
            producer_group=self._cluster.wire_name(head.group),
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=decision,
            from_transaction_check=is_late,
            msg_id=half.message_id,
            transaction_id=half.message_id,
            target_broker=half.broker,
        )


def _may_pass(error: OrbitError) -> bool:
    """Return whether the same end may succeed later."""
    return isinstance(error, NetworkError) or error.retriable
