"""Plain halves of one read: stored in the half queue, answered as if they were where they may go.

::

    send to orders, queue 3 ──▶ record of RMQ_SYS_TRANS_HALF_TOPIC, queue 0 ──▶ answer: queue 3
                                that names orders, queue 3
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from orbitmq.broker.sending.plain.batch import OnFailure, PlainBatch
from orbitmq.broker.sending.plain.cutting import PLAIN_FLAGS
from orbitmq.broker.sending.plain.half_texts import destination
from orbitmq.message import flags
from orbitmq.message.names import HALF_TOPIC
from orbitmq.net.connection import Connection
from orbitmq.store.log.append import NewRecord
from orbitmq.wire.plain_send import Placed, SendAnswerForm

__all__ = ["HALF_FLAGS", "HALF_QUEUE", "HalfBatch"]

HALF_FLAGS: Final = PLAIN_FLAGS | flags.TRANSACTION_PREPARED
"""What the sys flag of a plain half may say."""
HALF_QUEUE: Final = 0


class _Answered(NamedTuple):
    commit_log_offset: int
    queue_id: int
    queue_offset: int
    unique_key: bytes | None


class HalfBatch(PlainBatch):
    """Halves in the order of their requests; ``records`` are as of sends that are no halves.

    ``began`` counts the stored ones by topic.
    """

    __slots__ = ("_began", "_destinations")

    def __init__(
        self,
        connection: Connection,
        opaques: Sequence[int],
        records: Sequence[NewRecord],
        form: SendAnswerForm,
        on_failure: OnFailure,
        began: Callable[[str, int], None],
    ) -> None:
        super().__init__(connection, opaques, records, form, on_failure)
        self._began = began
        self._destinations = [(one.topic, one.queue_id) for one in records]
        for one in records:
            one.properties += destination(one.unique_key or b"", one.topic, one.queue_id)
            one.topic, one.queue_id = HALF_TOPIC, HALF_QUEUE
            one.sys_flag = flags.with_transaction_state(one.sys_flag, flags.TRANSACTION_NONE)

    def _placed(self) -> Sequence[Placed]:
        return [
            _Answered(one.commit_log_offset, queue_id, one.queue_offset, one.unique_key)
            for one, (_, queue_id) in zip(self.records, self._destinations, strict=True)
        ]

    def _count(self, stored: int) -> None:
        for topic, count in Counter([topic for topic, _ in self._destinations[:stored]]).items():
            self._began(topic, count)
