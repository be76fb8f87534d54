"""Op messages name the half messages that are done with, by their queue offsets.

They are in RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0::

    TAGS   d
    body   0,1,3,4,     Java 5: all that were done since the last op message
           4            Java 4: one

A half message is done with when its transaction ended, or a later copy of it took its place. Laws:

- Offsets are collected for ``transactionOpBatchInterval``, or until they take
  ``transactionOpMsgMaxSize`` bytes, except those that have to be in the log now.
- Those of an op message that could not be stored are collected again.
- The op offset of a broker (of the group CID_RMQ_SYS_TRANS) never passes an op message that names a
  half message at or after the half offset: a start reads the others again.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from orbitmq.broker.sending.inbox import Inbox, OnStored, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.message import properties
from orbitmq.message.host import Host
from orbitmq.message.names import OP_HALF_TOPIC
from orbitmq.message.record_view import RecordView
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore

__all__ = ["OpMessages", "named_offsets"]

log = logging.getLogger("orbitmq.broker")

_PROPERTIES: Final = properties.join({properties.TAGS: "d", properties.WAIT: "true"})
_tags_of = properties.finder(properties.TAGS.encode())
_Named: TypeAlias = tuple[int, OnStored | None]


class OpMessages:
    """Writes op messages, and knows which of them are still needed.

    ``store_host`` returns the address in message ids, ``call_soon`` is ``loop.call_soon``.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        inbox: Inbox,
        settings: LiveSettings,
        clock: Clock,
        store_host: Callable[[], Host],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._settings = settings
        self._clock = clock
        self._store_host = store_host
        self._call_soon = call_soon
        self._collected: list[_Named] = []
        self._bytes = 0
        self._since_ms = 0
        self._writes_soon = False
        self._first = 0
        # Op messages in use: the queue offset, and the highest half offset that it names.
        self._used: deque[tuple[int, int]] = deque()

    def __repr__(self) -> str:
        return f"<OpMessages {len(self._collected)} collected, {len(self._used)} in use>"

    def load(self, first: int | None) -> Iterator[int]:
        """Yield the half offsets named from an op offset on; None is the beginning."""
        queue = self._store.queues.queue(OP_HALF_TOPIC, 0)
        if queue is None:
            return
        first = queue.min_offset if first is None else first
        self._first = min(max(first, queue.min_offset), queue.max_offset)
        for offset, entry in queue.iterate(self._first):
            record = self._store.record(entry.commit_log_offset)
            named = [] if record is None else named_offsets(record)
            self._used.append((offset, max(named, default=-1)))
            yield from named

    def add(self, half_offset: int) -> None:
        """Name a half message in the next op message."""
        self._add((half_offset, None))

    def add_now(self, half_offset: int, on_stored: OnStored) -> None:
        """Name a half message in an op message of this turn, and report when that is stored.

        If it could not be stored, the half message is not named.
        """
        self._add((half_offset, on_stored))
        self._write_soon()

    def tick(self) -> None:
        """Write what was collected for long enough."""
        waited_ms = self._clock.monotonic_ms() - self._since_ms
        if self._collected and waited_ms >= self._settings.broker.transaction_op_batch_interval:
            self.write()

    def write(self) -> None:
        """Write all that was collected."""
        self._writes_soon = False
        named, self._collected, self._bytes = self._collected, [], 0
        most = self._settings.broker.transaction_op_msg_max_size
        part: list[_Named] = []
        size = 0
        for one in named:
            part.append(one)
            size += _size(one[0])
            if size >= most:
                self._put(part)
                part, size = [], 0
        if part:
            self._put(part)

    def offset_before(self, half_offset: int) -> int:
        """Return the offset of the first op message that is needed if halves begin there."""
        while self._used and self._used[0][1] < half_offset:
            self._first = self._used.popleft()[0] + 1
        return self._first

    # Inside

    def _add(self, one: _Named) -> None:
        if not self._collected:
            self._since_ms = self._clock.monotonic_ms()
        self._collected.append(one)
        self._bytes += _size(one[0])
        if self._bytes > self._settings.broker.transaction_op_msg_max_size:
            self._write_soon()

    def _write_soon(self) -> None:
        if not self._writes_soon:
            self._writes_soon = True
            self._call_soon(self.write)

    def _put(self, part: Sequence[_Named]) -> None:
        here = self._store_host()
        message = Incoming(
            topic=OP_HALF_TOPIC,
            queue_id=0,
            body="".join(f"{offset}," for offset, _ in part).encode(),
            properties=_PROPERTIES,
            born_timestamp_ms=self._clock.now_ms(),
            born_host=here,
            store_host=here,
            wait=any(on_stored is not None for _, on_stored in part),
        )
        try:
            self._inbox.put(message, partial(self._on_stored, part))
        except Refusal as refusal:
            self._on_stored(part, refusal)

    def _on_stored(self, part: Sequence[_Named], outcome: PutOutcome) -> None:
        is_stored = not isinstance(outcome, Refusal) and outcome.status.is_stored
        if not isinstance(outcome, Refusal) and is_stored:
            self._used.append((outcome.queue_offset, max(offset for offset, _ in part)))
        else:
            log.debug("an op message was not stored: %s", outcome)
        for offset, on_stored in part:
            if on_stored is not None:
                on_stored(outcome)
            elif not is_stored:
                if not self._collected:  # the next tick but one tries again
                    self._since_ms = self._clock.monotonic_ms()
                self._collected.append((offset, None))
                self._bytes += _size(offset)


def named_offsets(record: RecordView) -> list[int]:
    """Return the half offsets that an op message names; what can't be read is logged."""
    if _tags_of(record.properties) != b"d":
        log.error("op message %d has another tag than d; it is skipped", record.queue_offset)
        return []
    texts = bytes(record.body).split(b",")
    return [int(text) for text in texts if text.isdigit() and len(text) < 20]


def _size(half_offset: int) -> int:
    return len(str(half_offset)) + 1
