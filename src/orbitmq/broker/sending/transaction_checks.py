"""Checks of undecided transactions: a producer of the group is asked how its transaction ended.

Every ``transactionCheckInterval`` a round walks over the halves that were not looked at yet::

    done with ────────────────────────▶ next
    checked transactionCheckMax times ▶ kept in TRANS_CHECK_MAX_TIME_TOPIC
    CHECK_IMMUNITY_TIME_IN_SECONDS ───▶ waits until that is over
    younger than transactionTimeOut ──▶ the round ends here
    otherwise ────────────────────────▶ waits for a producer of its group

A half for which there is a producer is copied to the end of the half queue with one check more,
which makes it the last of the next round, and the producer is asked about the copy. The answer is
an END_TRANSACTION. Laws:

- No check, no count: a half whose group has no producer, or only busy ones, waits in its place. As
  soon as one is there it is asked.
- Never discarded without a check, unlike in Java's broker, which counts checks that reached no
  producer.
- A producer has a limited number of checks that it has not answered: Java's client drops checks
  when too many wait (``checkRequestHoldMax``). A round gives a silent one new ones.
- A half that waits long is copied as it is, before its file expires or the done ones after it fill
  the memory.
- A turn does a limited part; the rest follows when that is stored, or at the next tick.
"""

import heapq
import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from orbitmq.broker.clients.members import Member, Members
from orbitmq.broker.sending.half_messages import HalfMessages, copy_of
from orbitmq.broker.sending.inbox import Inbox, OnStored, OrderedRun, PutOutcome
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.topics import Topics
from orbitmq.errors import OrbitError
from orbitmq.message import properties
from orbitmq.message.ids import offset_id
from orbitmq.message.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC
from orbitmq.message.record import Record, encode
from orbitmq.message.record_view import RecordView
from orbitmq.net.connection import Connection
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.wire.codes import READ, WRITE
from orbitmq.wire.headers.transaction import CheckTransactionState

__all__ = ["TransactionChecks", "immunity_ms"]

log = logging.getLogger("orbitmq.broker")

_WALKED_AT_ONCE: Final = 500
"""Halves that a turn looks at, ten microseconds each."""
_COPIED_AT_ONCE: Final = 64
"""Copies in flight to the log, and halves that a turn looks for in the key index."""
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Their bytes at most, which leaves room in the inbox for sends of clients."""
_UNANSWERED_MAX: Final = 1_000
"""Checks that a producer has not answered; Java's client holds 2000."""
_DONE_MAX: Final = 65_536
"""Halves in memory that are done with behind one that is not."""
_HOUR_MS: Final = 3_600_000
_NEVER_STORED: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class _Copy(msgspec.Struct, frozen=True):
    """The copy of a half that is to take its place."""

    half: RecordView
    message: Incoming
    found: dict[str, str]
    """Its properties."""
    member: Member | None = None
    """The producer to ask; None if it is only moved."""

    @property
    def group(self) -> str:
        """The group of its producers."""
        return self.found.get(properties.PRODUCER_GROUP, "")


class TransactionChecks:
    """Asks producers about undecided transactions.

    Call ``begin_round`` every ``transactionCheckInterval``, and ``tick`` every 100 ms or so, with
    the time of day.
    """

    def __init__(
        self,
        *,
        halves: HalfMessages,
        inbox: Inbox,
        members: Members,
        topics: Topics,
        settings: LiveSettings,
    ) -> None:
        self._halves = halves
        self._inbox = inbox
        self._members = members
        self._topics = topics
        self._settings = settings
        self._next = 0  # the first half that was not looked at
        self._round_end = 0
        self._is_walked = True  # as far as the age of the halves allows
        self._immune: list[tuple[int, int, str]] = []  # until when, offset, group; a heap
        self._waiting: dict[str, deque[int]] = {}  # offsets by group, each in order
        self._to_discard: deque[int] = deque()
        self._in_flight: dict[int, int] = {}  # offsets and sizes of halves that are being copied
        self._unanswered: dict[Connection, int] = {}
        self._tried = 0  # halves read in this turn, to be copied
        self._turn = 0
        self._now_ms = 0
        self._pauses = False
        self._stopped = False

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<TransactionChecks at {self._next}, {waiting} wait for producers>"

    @property
    def is_settled(self) -> bool:
        """Whether the round has come as far as it can now, and no copy is on its way."""
        return self._is_walked and not self._in_flight

    def begin_round(self) -> None:
        """Begin to look at all halves that are there now."""
        self._unanswered.clear()
        self._immune = [one for one in self._immune if not self._halves.is_done(one[1])]
        heapq.heapify(self._immune)
        queue = self._halves.queue
        self._round_end = 0 if queue is None else queue.max_offset
        self._next = min(self._next, self._round_end)  # the queue may have been deleted

    def tick(self, now_ms: int) -> None:
        """Go on with the round, and check what has waited for a time or a producer."""
        self._now_ms = now_ms
        self._pauses = False
        self._walk(now_ms)
        while self._immune and self._immune[0][0] < now_ms:
            _, offset, group = heapq.heappop(self._immune)
            self._wait(offset, group)
        self._move_long_waiting(now_ms)
        self._check_waiting()

    def stop(self) -> None:
        """Check no more."""
        self._stopped = True

    def answered(self, connection: Connection) -> None:
        """Note that a producer answered a check."""
        left = self._unanswered.get(connection, 0) - 1
        if left > 0:
            self._unanswered[connection] = left
        else:
            self._unanswered.pop(connection, None)

    # The round

    def _walk(self, now_ms: int) -> None:
        self._next = max(self._next, self._halves.offset)
        end = min(self._round_end, self._next + _WALKED_AT_ONCE)
        while self._next < end and self._look_at(self._next, now_ms):
            self._next += 1
        self._is_walked = self._next < end or self._next == self._round_end

    def _look_at(self, offset: int, now_ms: int) -> bool:
        """Decide what happens with a half; return False if it is too young."""
        if self._halves.is_done(offset):
            return True
        half = self._read(offset)
        if half is None:
            return True
        found = properties.decode(half.properties)
        settings, age_ms = self._settings.broker, now_ms - half.born_timestamp_ms
        times = _number(found.get(properties.TRANSACTION_CHECK_TIMES), 0)
        group = found.get(properties.PRODUCER_GROUP, "")
        immunity = found.get(properties.CHECK_IMMUNITY_SECONDS)
        if self._is_over(times, age_ms):
            self._to_discard.append(offset)
        elif immunity is not None:
            until_ms = half.born_timestamp_ms + immunity_ms(immunity, settings.transaction_time_out)
            heapq.heappush(self._immune, (until_ms, offset, group))
        elif 0 <= age_ms <= settings.transaction_time_out:
            return False
        else:
            self._wait(offset, group)
        return True

    def _is_over(self, times: int, age_ms: int) -> bool:
        reserved_ms = self._settings.store.reserved_hours * _HOUR_MS
        most = self._settings.broker.transaction_check_max
        return times > 0 and (times >= most or age_ms > reserved_ms)

    def _read(self, offset: int) -> RecordView | None:
        """Return a half; None if it is lost, because its file is gone."""
        self._tried += 1
        half = self._halves.record(offset)
        if half is None:
            log.error("half message %d can't be read; its transaction is lost", offset)
            self._halves.lost(offset)
        return half

    def _wait(self, offset: int, group: str) -> None:
        self._waiting.setdefault(group, deque()).append(offset)

    # Copies

    def _check_waiting(self) -> None:
        """Copy and check what can be checked now, up to the limits."""
        self._tried = 0
        run = OrderedRun()
        self._discard_some(run)
        for group in self._members.producer_groups() if self._waiting else ():
            if group not in self._waiting:
                continue
            offsets = self._waiting[group]
            while offsets and self._may_copy() and self._check(offsets[0], group, run):
                offsets.popleft()
            if not offsets:
                del self._waiting[group]

    def _check(self, offset: int, group: str, run: OrderedRun) -> bool:
        """Put the copy of a half that a producer is asked about; return False if it has to wait."""
        if self._halves.is_done(offset):
            return True
        member = self._free_producer(group)
        if member is None or offset in self._in_flight:
            return False
        half = self._read(offset)
        if half is None or self._halves.is_outdated(half):
            return True
        found = properties.decode(half.properties)
        times = _number(found.get(properties.TRANSACTION_CHECK_TIMES), 0) + 1
        found[properties.TRANSACTION_CHECK_TIMES] = str(times)
        if not self._put_copy(_Copy(half, copy_of(half, HALF_TOPIC, found), found, member), run):
            return False
        self._unanswered[member.connection] = self._unanswered.get(member.connection, 0) + 1
        return True

    def _put_copy(self, copy: _Copy, run: OrderedRun) -> bool:
        offset = copy.half.queue_offset
        return self._put(copy.message, offset, partial(self._on_copied, copy), run)

    def _on_copied(self, copy: _Copy, outcome: PutOutcome) -> None:
        """Ask the producer about a copy that is stored."""
        half, member = copy.half, copy.member
        self._in_flight.pop(half.queue_offset, None)
        if not isinstance(outcome, Refusal) and outcome.status.is_stored:
            if self._halves.copied(half, outcome) and member is not None:
                self._ask(copy, member, outcome)
        elif member is not None and _is_final(outcome):
            self._ask_in_place(copy, member)
        else:
            self._pauses = True
            if member is not None:
                self._waiting.setdefault(copy.group, deque()).appendleft(half.queue_offset)
        self._go_on()

    def _ask_in_place(self, copy: _Copy, member: Member) -> None:
        """Ask about a half whose properties have no room for the count, in every round."""
        half = copy.half
        here = PutResult(
            status=PutStatus.PUT_OK,
            queue_offset=half.queue_offset,
            offsets=(half.commit_log_offset,),
            store_timestamp_ms=half.store_timestamp_ms,
        )
        found = properties.decode(half.properties)
        self._ask(_Copy(half, copy_of(half, HALF_TOPIC, found), found), member, here)
        again_ms = self._now_ms + self._settings.broker.transaction_check_interval
        heapq.heappush(self._immune, (again_ms, half.queue_offset, copy.group))

    def _discard_some(self, run: OrderedRun) -> None:
        while self._to_discard and self._may_copy():
            offset = self._to_discard[0]
            if offset in self._in_flight:
                return
            half = None if self._halves.is_done(offset) else self._read(offset)
            if half is not None and not self._halves.is_outdated(half):
                self._topics.for_send_back(CHECKED_TOO_OFTEN_TOPIC, 1, READ | WRITE, 0)
                found = properties.decode(half.properties)
                message = copy_of(half, CHECKED_TOO_OFTEN_TOPIC, found)
                if not self._put(message, offset, partial(self._on_discarded, half), run):
                    return
            self._to_discard.popleft()

    def _on_discarded(self, half: RecordView, outcome: PutOutcome) -> None:
        self._in_flight.pop(half.queue_offset, None)
        if not isinstance(outcome, Refusal) and outcome.status.is_stored:
            self._halves.discarded(half, outcome.end)
            log.warning(
                "the transaction of message %s was checked too often and is kept in %s",
                *(_unique_key(half), CHECKED_TOO_OFTEN_TOPIC),
            )
        elif _is_final(outcome):
            log.error("half message %d can't be kept: %s", half.queue_offset, outcome)
            self._halves.lost(half.queue_offset)
        else:
            self._pauses = True
            self._to_discard.append(half.queue_offset)
        self._go_on()

    def _move_long_waiting(self, now_ms: int) -> None:
        """Copy halves that wait at the beginning of the queue, without a check."""
        self._tried = 0
        run = OrderedRun()
        stored_before_ms = now_ms - self._settings.store.reserved_hours * _HOUR_MS // 2
        for offset in self._first_pending():
            if not self._may_copy():
                return
            half = self._read(offset)
            if half is None:
                continue
            if half.store_timestamp_ms >= stored_before_ms and not self._is_crowded():
                return
            if self._halves.is_outdated(half):
                continue
            found = properties.decode(half.properties)
            if not self._put_copy(_Copy(half, copy_of(half, HALF_TOPIC, found), found), run):
                return

    def _first_pending(self) -> Iterator[int]:
        return (
            offset
            for offset in range(self._halves.offset, self._next)
            if offset not in self._in_flight and not self._halves.is_done(offset)
        )

    def _is_crowded(self) -> bool:
        done = self._halves.done_after_offset
        if done <= _DONE_MAX:
            return False
        # The more wait, the more have to be copied for the same effect.
        waiting = len(self._immune) + sum(map(len, self._waiting.values()))
        return done > _DONE_MAX + 4 * waiting

    def _put(self, message: Incoming, offset: int, on_stored: OnStored, run: OrderedRun) -> bool:
        """Put a copy; return False if the inbox is full."""
        try:
            self._inbox.put(message, on_stored, run)
        except Refusal as refusal:
            log.debug("checks of transactions wait: %s", refusal)
            self._pauses = True
            return False
        self._in_flight[offset] = len(message.body)
        return True

    def _may_copy(self) -> bool:
        return (
            not (self._pauses or self._stopped)
            and max(self._tried, len(self._in_flight)) < _COPIED_AT_ONCE
            and sum(self._in_flight.values()) < _BYTES_AT_ONCE
        )

    def _go_on(self) -> None:
        if not self._in_flight:
            self._check_waiting()  # there may be more; after a failure the next tick retries

    # Producers

    def _free_producer(self, group: str) -> Member | None:
        """Return the next producer of a group that can be asked now; None if there is none."""
        members = self._members.producers(group)
        self._turn += 1
        for index in range(len(members)):
            member = members[(self._turn + index) % len(members)]
            unanswered = self._unanswered.get(member.connection, 0)
            if member.connection.is_writable and unanswered < _UNANSWERED_MAX:
                return member
        return None

    def _ask(self, copy: _Copy, member: Member, place: PutResult) -> None:
        """Ask a producer about a copy of a half; if it has gone, another one of the group."""
        offset = place.offsets[0]
        unique_key = copy.found.get(properties.UNIQUE_KEY)
        header = CheckTransactionState(
            topic=HALF_TOPIC,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=offset_id(copy.message.store_host, offset),
            target_broker=self._settings.broker.broker_name,
        )
        body = bytes(encode(_as_sent(copy, place)))
        others = [one for one in self._members.producers(copy.group) if one is not member]
        for one in (member, *others):
            try:
                one.connection.oneway(header, body)
            except OrbitError as error:
                log.info(
                    "producer %s can't be asked about %s: %s", one.client_id, unique_key, error
                )
            else:
                return


def immunity_ms(text: str, time_out_ms: int) -> int:
    """Return for how long a half is not checked; the usual time if the text is no number.

    >>> immunity_ms("60", 6_000), immunity_ms("soon", 6_000)
    (60000, 6000)
    """
    seconds = _number(text, -1)
    return time_out_ms if seconds == -1 else seconds * 1_000


def _number(text: str | None, otherwise: int) -> int:
    digits = (text or "").removeprefix("-")
    if text is None or not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        return otherwise
    return int(text)


def _is_final(outcome: PutOutcome) -> bool:
    """Return whether the store will not take a message later either."""
    return not isinstance(outcome, Refusal) and outcome.status in _NEVER_STORED


def _as_sent(copy: _Copy, place: PutResult) -> Record:
    """Return a copy of a half as its producer knows it: with the topic and queue it was sent to."""
    message = copy.message
    return Record(
        topic=copy.found.get(properties.REAL_TOPIC, "").encode(),
        queue_id=_number(copy.found.get(properties.REAL_QUEUE_ID), 0),
        queue_offset=place.queue_offset,
        commit_log_offset=place.offsets[0],
        store_timestamp_ms=place.store_timestamp_ms,
        body=message.body,
        properties=message.properties,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        body_crc=copy.half.body_crc,
    )


def _unique_key(half: RecordView) -> str:
    return properties.decode(half.properties).get(properties.UNIQUE_KEY, "without a key")
