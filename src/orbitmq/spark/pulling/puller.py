"""A slice of a queue, pulled: several requests on their way, answers in the order of the queue.

::

    slice   ├── stretch ──┼── stretch ──┼── stretch ──┼─ not asked for yet ──▶
               answered      on its way    on its way

Each pull is for a stretch that no other one covers; what an answer leaves of its stretch is asked
for again when its turn comes. Requests leave several at a time, in one write. The first goes alone:
its answer tells how far one goes (``stride``).

What an answer can be::

    SUCCESS                       records, and where the next pull should begin
    PULL_RETRY_IMMEDIATELY        by its remark: none of the records looked at has the tags, go on
                                  behind them; or their file is being deleted; or a replica in one
                                  of Java's broker containers says so instead of what follows
    PULL_NOT_FOUND, OFFSET_MOVED  the queue doesn't have the offset: a replica is behind, an
                                  operator moved the group, or the data is gone
    other codes                   errors

Brokers pass over entries whose log file is gone, and the queue may begin there for a while yet. So
an answer counts as far as its records have no gap, and where it begins with one, data is gone. With
tags that can't be seen. There, answers are held until their broker has shown the record that stands
where the first of them began: files go from the oldest on, so that it had all behind it too.

What a replica lacks, the primary may have. So only the primary is believed that data is gone, and
if a replica stands in for it, the primary is waited for.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from orbitmq.clock import pause
from orbitmq.errors import (
    BrokerBusy,
    BrokerError,
    BrokerFailed,
    NetworkError,
    NoRoute,
    OrbitError,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from orbitmq.message.model import MessageQueue
from orbitmq.message.tags import SELECT_ALL
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.brokers import Reached
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.cluster.read_route import PRIMARY_ID
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Lost, Range, Slice, data_lost
from orbitmq.spark.pulling.pull_span import Stride
from orbitmq.spark.pulling.record_run import Records, records_before, run_from
from orbitmq.wire.bodies.static_topic import TopicConfigAndQueueMapping
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import GetTopicConfig
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage, PullMessageAnswer
from orbitmq.wire.pull_template import PullTemplate

__all__ = ["WINDOW", "Demand", "pull", "pull_header"]

log = logging.getLogger("orbitmq.spark")

WINDOW: Final = 16
"""Pulls on their way at once: at 256 KiB each, 4 MiB, which keeps a fast network busy."""

_FILTER_SPAN: Final = 800
"""Entries that a broker looks at for one filtered pull (maxFilterMessageSize, 16,000 bytes)."""

_PAUSES_MS: Final = (0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400)
"""Between tries without any success; together they outlast the restart of a broker."""

_PASSING: Final = (NetworkError, NoRoute, BrokerFailed, BrokerBusy, ServiceNotAvailable)
"""What may be over soon: a broker that restarts is gone from the routes, then not ready yet."""

_ANSWERS: Final = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}
    | {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}
)

_NOT_MATCHED: Final = "NO_MATCHED_MESSAGE"
"""The remark of an answer that looked at records, none of which has the tags."""

_NONE: Final = Records(b"")

_CLEANUP: Final = "cleanup.policy"
_COMPACTION: Final = "COMPACTION"


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """How to pull.

    Attributes:
        group: in whose name.
        tags: a subscription, by which the broker selects.
        pull_count: the most records that one pull asks for; the broker may give fewer.
        window: the most pulls on their way at once.
        fail_on_data_loss: whether lost offsets are an error, or a line in the log.

    """

    group: str
    tags: str = SELECT_ALL
    pull_count: int = 1_024
    window: int = WINDOW
    fail_on_data_loss: bool = True


def pull(
    cluster: Cluster, piece: Slice, demand: Demand, *, pause_for: Callable[[int], None] = pause
) -> Iterator[Records]:
    """Yield what answers hold: the records of a slice, all of them, in order, each once.

    Of inner batches, parts may lie outside the slice or come twice; and if tags are demanded, there
    may be records of other tags with the same hash. A caller may stop at any time and close the
    iterator: what is on its way is dropped then. At most ``window`` answers are held, and with
    tags as many again.

    Args:
        cluster: connections; used by nobody else while this runs.
        piece: what to pull; an empty slice asks nobody.
        demand: how.
        pause_for: waits between tries, so many milliseconds.

    Raises:
        DataLost: offsets of the slice are gone.
        NetworkError, NoRoute: for about half a minute, nobody who has the queue could be reached.
        BrokerError: the broker refuses.

    """
    puller = _Puller(cluster, piece, demand, pause_for)
    try:
        yield from puller.records()
    finally:
        puller.give_up()


def pull_header(
    cluster: Cluster, queue: MessageQueue, demand: Demand, *, offset: int = 0, count: int = 0
) -> PullMessage:
    """Return the header of a pull."""
    return PullMessage(
        consumer_group=cluster.wire_name(demand.group),
        topic=cluster.wire_name(queue.topic),
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=demand.tags,
        sub_version=0,
        expression_type="TAG",
    )


class _Request(NamedTuple):
    """A pull that is on its way."""

    link: BlockingConnection
    number: int
    is_replica: bool


class _Stretch:
    """Offsets that one pull is for, and the request on its way for them, if one is."""

    __slots__ = ("asked", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.asked: _Request | None = None

    def give_up(self) -> None:
        """Drop the request that is on its way."""
        if self.asked is not None:
            self.asked.link.abandon(self.asked.number)
            self.asked = None


class _Held:
    """Filtered answers of one broker: whether it had all that they passed over is not known yet."""

    __slots__ = ("answers", "is_replica", "link", "records", "start")

    def __init__(self, start: int, request: _Request) -> None:
        self.start = start
        self.link = request.link
        self.is_replica = request.is_replica
        self.answers = 0
        self.records: list[Records] = []

    def add(self, records: Records) -> None:
        """Take what one more answer holds, if it holds any."""
        self.answers += 1
        if records.data:
            self.records.append(records)


class _Puller:
    """The state of one pull of a slice."""

    def __init__(
        self, cluster: Cluster, piece: Slice, demand: Demand, pause_for: Callable[[int], None]
    ) -> None:
        self._cluster = cluster
        self._queue = piece.queue
        self._next = piece.start  # from here on no stretch is laid out
        self._end = piece.end
        self._demand = demand
        self._pause_for = pause_for
        self._is_filtered = demand.tags != SELECT_ALL
        span = _FILTER_SPAN if self._is_filtered else 0
        self._stride = Stride(max(demand.pull_count, span))
        self._window = 1  # until the first answer has told how far one goes
        self._stretches: deque[_Stretch] = deque()
        self._held: deque[_Held] = deque()
        self._shows_all = False  # whether all that is held is to be shown before anything else
        self._reached: Reached | None = None
        self._broker_id = PRIMARY_ID
        self._stays_with_primary = False
        self._needs_primary = False  # a replica lacks what comes next
        self._has_gaps: bool | None = None  # by design; None until that is asked for
        self._lost_until: int | None = None
        self._failures = 0  # since the last success
        self._headers = PullTemplate(pull_header(cluster, piece.queue, demand))

    def records(self) -> Iterator[Records]:
        while self._stretches or self._next < self._end or self._held:
            try:
                found = self._shown() if self._is_showing_due() else self._pulled()
            except _PASSING as error:
                self._try_again(error)
            else:
                yield from found

    def _pulled(self) -> Iterable[Records]:
        """Return what comes next."""
        request = self._first_request()
        records = self._taken(request, request.link.result(request.number))
        return (records,) if records.data else ()

    def give_up(self) -> None:
        """Drop all requests that are on their way."""
        for stretch in self._stretches:
            stretch.give_up()

    # Asking

    def _first_request(self) -> _Request:
        """Take the request for the first stretch, and see to it that enough others are under way.

        Requests leave when half the window is empty: several in one write.
        """
        stretches = self._stretches
        if not stretches or stretches[0].asked is None or len(stretches) <= self._window // 2:
            self._lay_out()
            window = islice(stretches, self._window)
            self._ask([stretch for stretch in window if stretch.asked is None])
        asked, stretches[0].asked = stretches[0].asked, None
        assert asked is not None
        return asked

    def _lay_out(self) -> None:
        while len(self._stretches) < self._window and self._next < self._end:
            end = min(self._next + self._stride.length, self._end)
            self._stretches.append(_Stretch(self._next, end))
            self._next = end

    def _ask(self, stretches: list[_Stretch]) -> None:
        if not stretches:
            return
        if self._reached is None:
            self._reached = self._cluster.connection(
                self._queue, self._broker_id, alone=self._needs_primary
            )
        link, broker_id = self._reached
        most = self._demand.pull_count
        numbers = link.start_all(
            self._headers.fill(one.start, min(most, one.end - one.start)) for one in stretches
        )
        for stretch, number in zip(stretches, numbers, strict=True):
            stretch.asked = _Request(link, number, broker_id != PRIMARY_ID)

    def _try_again(self, error: OrbitError) -> None:
        """Go another way after a failure; raise it if that was tried often enough."""
        if self._failures >= len(_PAUSES_MS):
            raise error
        log.warning(
            "a pull of topic %s, queue %s failed, and is tried again: %s",
            *(self._queue.topic, queue_name(self._queue), error),
        )
        self._take_back()
        self.give_up()
        self._cluster.forget(self._queue)
        self._reached, self._broker_id = None, PRIMARY_ID
        self._pause_for(_PAUSES_MS[self._failures])
        self._failures += 1

    # Answers

    def _taken(self, request: _Request, answer: Frame) -> Records:
        """Return the records that an answer has of the first stretch; the rest stays to be asked.

        Filtered ones are held.

        Raises:
            DataLost: its offsets are gone.
            BrokerError: the broker refuses.

        """
        if answer.code not in _ANSWERS:
            self._refused(request, answer)
            return _NONE
        header = answer.read(PullMessageAnswer)
        if not self._goes_on(answer):
            self._lacks(request.is_replica, answer.code, header)
            return _NONE
        covered = self._covered(request, answer, header)
        if covered is None:
            return _NONE
        (records, reached), first = covered, self._stretches[0]
        self._stride.learn(asked=first.end - first.start, covered=reached - first.start)
        self._window = self._demand.window
        if self._is_filtered:
            self._hold(first.start, request, records)
            records = _NONE
        else:
            self._succeeded(request.is_replica)
        self._done_before(reached)
        self._follow(header.suggest_which_broker_id)
        return records

    def _goes_on(self, answer: Frame) -> bool:
        """Return whether an answer covers what it says, with or without records."""
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return self._is_filtered and answer.remark == _NOT_MATCHED
        return answer.code == ResponseCode.SUCCESS

    def _covered(
        self, request: _Request, answer: Frame, header: PullMessageAnswer
    ) -> tuple[Records, int] | None:
        """Return what an answer has of the first stretch, and how far it goes: up to its first gap.

        None means that it begins with one, and that the first stretch is to be asked for again, or
        is another by now.
        """
        records = Records(answer.body)
        first, reached = self._stretches[0], header.next_begin_offset
        if not self._is_filtered and not self._has_gaps:
            run = run_from(answer.body, first.start, first.end)
            if run.first is None or run.first <= first.start:
                records = Records(memoryview(answer.body)[: run.size], run.starts)
                reached = min(reached, run.reached)
            elif not self._may_have_gaps(request.link):
                behind = msgspec.structs.replace(header, min_offset=run.first)
                self._lacks(request.is_replica, answer.code, behind)
                return None
        if reached > first.end:
            records, reached = Records(records_before(records.data, first.end)), first.end
        if reached <= first.start:
            raise RemoteProtocolError(
                f"{request.link.peer} answered a pull at offset {first.start} of topic "
                f"{self._queue.topic}, and has the next begin at {reached}"
            )
        return records, reached

    def _succeeded(self, is_replica: bool) -> None:
        self._failures = 0
        if not is_replica:
            self._needs_primary = False

    def _done_before(self, offset: int) -> None:
        """Forget all stretches before an offset; nothing is asked for them any more."""
        stretches = self._stretches
        while stretches and stretches[0].end <= offset:
            stretches.popleft().give_up()
        if stretches and stretches[0].start < offset:
            stretches[0].give_up()
            stretches[0].start = offset
        if len(stretches) == 1 and stretches[0].asked is None:
            self._next = stretches.popleft().start  # to be laid out anew, in better lengths
        self._next = max(self._next, offset)

    def _follow(self, suggested: int) -> None:
        """Send what comes next to the replica that the broker suggests, as Java's clients do."""
        if suggested != self._broker_id and not self._stays_with_primary:
            self._reached, self._broker_id = None, suggested

    # Filtered answers, until their broker has shown where they begin

    def _hold(self, start: int, request: _Request, records: Records) -> None:
        if not self._held or self._held[-1].link is not request.link:
            self._held.append(_Held(start, request))
        self._held[-1].add(records)

    def _is_showing_due(self) -> bool:
        """Return whether held answers are enough, or all there are from their broker."""
        if not self._held:
            return False
        is_last = self._shows_all or not (self._stretches or self._next < self._end)
        return is_last or len(self._held) > 1 or self._held[0].answers >= self._demand.window

    def _shown(self) -> Iterable[Records]:
        """Have a broker show the record where held answers begin; return them if it is there.

        Raises:
            DataLost: it is gone.
            BrokerError: the broker refuses.

        """
        held = self._held[0]
        # If it is not there, more records are asked for: how far the gap goes.
        lacking = self._lacking(held, 1) and self._lacking(held, self._demand.pull_count)
        if lacking is None:
            self._succeeded(held.is_replica)
            self._held.popleft()
            self._shows_all = self._shows_all and bool(self._held)
            return held.records
        self._take_back()
        self._lacks(held.is_replica, *lacking)
        return ()

    def _lacking(self, held: _Held, count: int) -> tuple[int, PullMessageAnswer] | None:
        """Return what a broker answers that lacks the record where held answers begin, or None."""
        every = msgspec.structs.replace(self._demand, tags=SELECT_ALL)
        header = pull_header(self._cluster, self._queue, every, offset=held.start, count=count)
        (number,) = held.link.start_all([header])
        answer = held.link.result(number)
        if answer.code not in _ANSWERS:
            raise BrokerError.of(answer.code, answer.remark, address=held.link.peer)
        found = answer.read(PullMessageAnswer)
        if answer.code == ResponseCode.SUCCESS:
            run = run_from(answer.body, held.start, held.start + 1)
            if run.first is None or run.first <= held.start or self._may_have_gaps(held.link):
                return None
            found = msgspec.structs.replace(found, min_offset=run.first)
        return answer.code, found

    def _take_back(self) -> None:
        """Drop what is held; it has to be asked for again."""
        if self._held:
            end = self._stretches[0].start if self._stretches else min(self._next, self._end)
            self._stretches.appendleft(_Stretch(self._held[0].start, end))
            self._held.clear()
            self._shows_all = False

    # What a broker doesn't have

    def _may_have_gaps(self, link: BlockingConnection) -> bool:
        """Return whether a topic has gaps by design: of each key the last message alone is kept.

        Such topics are Java's, from 5.1 on; who doesn't know the question has none.
        """
        if self._has_gaps is None:
            topic = self._cluster.wire_name(self._queue.topic)
            (number,) = link.start_all([GetTopicConfig(topic=topic)])
            answer = link.result(number)
            if answer.code != ResponseCode.SUCCESS:
                return False
            config = TopicConfigAndQueueMapping.from_json(answer.body)
            self._has_gaps = config.attributes.get(_CLEANUP) == _COMPACTION
        return self._has_gaps

    def _refused(self, request: _Request, answer: Frame) -> None:
        """Turn to the primary if a replica refuses: that hears of new topics and groups later.

        Raises:
            BrokerError: the primary refuses, or the replica for a reason that may be over soon.

        """
        error = BrokerError.of(answer.code, answer.remark, address=request.link.peer)
        if not request.is_replica or isinstance(error, _PASSING):
            raise error
        self._turn_to_primary()

    def _turn_to_primary(self) -> None:
        self._reached, self._broker_id = None, PRIMARY_ID
        self._stays_with_primary = self._needs_primary = True

    def _lacks(self, is_replica: bool, code: int, header: PullMessageAnswer) -> None:
        """Turn to the primary for what a replica lacks: that is behind, or keeps less.

        Raises:
            DataLost: the primary lacks it, and it is gone.

        """
        if is_replica:
            self._turn_to_primary()
        elif self._held:  # in which the loss may have begun; this one is asked for again
            self._shows_all = True
        else:
            self._missed(code, header)

    def _missed(self, code: int, header: PullMessageAnswer) -> None:
        """Find out why the primary doesn't have an offset, and what to do.

        Raises:
            DataLost: it is gone.

        """
        first = self._stretches[0]
        least, most = header.min_offset, header.max_offset
        error = data_lost(Lost(self._queue, first.start, Range(least, most)))
        is_there = least <= first.start < most
        was_moved = is_there and code == ResponseCode.PULL_OFFSET_MOVED
        if (was_moved or first.start >= most) and self._failures < len(_PAUSES_MS):
            # An operator's move is told once. A broker that starts may still look for its end.
            self._try_again(error)
        elif self._demand.fail_on_data_loss:
            raise error
        else:
            if first.start != self._lost_until:  # or it is the same loss, which takes several pulls
                log.warning("%s", error)
            self._lost_until = self._after_loss(header)
            self._done_before(self._lost_until)

    def _after_loss(self, header: PullMessageAnswer) -> int:
        """Return where to go on: at the least offset there is, behind a hole, or nowhere."""
        start = self._stretches[0].start
        if start < header.min_offset:
            return header.min_offset
        if start < header.next_begin_offset <= header.max_offset:
            return header.next_begin_offset
        return self._end
