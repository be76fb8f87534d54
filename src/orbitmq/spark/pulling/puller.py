"""Pulls a slice of a queue: several requests in flight, answers in the order of the queue.

::

    slice   ├── pull range ──┼── pull range ──┼── pull range ──┼─ not requested yet ──▶
                answered         in flight        in flight

Pull ranges don't overlap. What an answer leaves of its range is requested again when its turn
comes. Several requests leave in one write. The first request goes alone: its answer shows how many
offsets one answer covers (``pull_span``).

What an answer can be::

    SUCCESS                       records, and the offset of the next pull
    PULL_RETRY_IMMEDIATELY        depends on the remark: no record in the range has the tags, so
                                  continue behind it; or the log file is being deleted; or it comes
                                  from a replica in a Java broker container, which sends this code
                                  instead of the following ones
    PULL_NOT_FOUND, OFFSET_MOVED  the queue doesn't have the offset: a replica lags behind, an
                                  operator moved the group's offset, or the data is gone
    other codes                   errors

Brokers skip entries whose log file is gone, and the queue may still claim to begin there. So an
answer counts up to the first gap in its records, and if it begins with a gap, data is gone. A
filtered answer doesn't show gaps. Therefore filtered answers are held until their broker has
returned the record at which the first of them begins: files are deleted oldest first, so the broker
had all later records too.

The records of many answers may be checked together, which is faster (``answer_batch``). Until a
batch is full, its answers stay in the memory into which they were received. If some record isn't
plain, or one is missing, they are checked one after the other; from the first gap on, records are
pulled again, and each answer is checked when it arrives. An answer of another kind, or an error,
ends a batch early: it is left alone, and pulled again to be handled without a batch.

The primary may have what a replica lacks. So only the primary can say that data is gone. If a
replica answers while the primary is down, the pull waits for the primary.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

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
from orbitmq.spark.cluster.brokers import QueueConnection
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.cluster.read_route import PRIMARY_ID
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Lost, Range, Slice, data_lost
from orbitmq.spark.pulling.pull_span import PullSpan
from orbitmq.spark.pulling.record_run import Records, records_before, run_from
from orbitmq.wire.bodies.static_topic import TopicConfigAndQueueMapping
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import GetTopicConfig
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage, PullMessageAnswer
from orbitmq.wire.pull_template import PullTemplate

if TYPE_CHECKING:  # processes that plan a read do without numpy
    from orbitmq.spark.pulling.answer_batch import AnswerBatch

__all__ = ["WINDOW", "PullOptions", "pull", "pull_header"]

log = logging.getLogger("orbitmq.spark")

WINDOW: Final = 16
"""Pulls in flight at once: at 256 KiB each, 4 MiB, which keeps a fast network busy."""

_FILTER_SPAN: Final = 800
"""Entries that a broker scans for one filtered pull (maxFilterMessageSize, 16,000 bytes)."""

_PAUSES_MS: Final = (0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400)
"""Pauses between retries; together they outlast the restart of a broker."""

_PASSING: Final = (NetworkError, NoRoute, BrokerFailed, BrokerBusy, ServiceNotAvailable)
"""Errors worth a retry: a restarting broker leaves the routes, and is not ready at first."""

_ANSWERS: Final = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}
    | {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}
)

_NOT_MATCHED: Final = "NO_MATCHED_MESSAGE"
"""The remark of a broker that scanned records and found none with the tags."""

_NONE: Final = Records(b"")

_CLEANUP: Final = "cleanup.policy"
_COMPACTION: Final = "COMPACTION"


class PullOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to pull, and whether lost offsets raise an error or are logged.

    The broker may return fewer records than ``pull_count`` per pull, and selects by ``tags``, a
    subscription. ``window`` is the most pulls in flight.
    """

    group: str
    tags: str = SELECT_ALL
    pull_count: int = 1_024
    window: int = WINDOW
    fail_on_data_loss: bool = True


def pull(
    cluster: Cluster,
    piece: Slice,
    options: PullOptions,
    *,
    pause_for: Callable[[int], None] = pause,
    batch: "AnswerBatch | None" = None,
) -> Iterator[Records]:
    """Yield all records of a slice, in order, each once; an empty slice sends no request.

    Two exceptions: parts of an inner batch may be outside the slice or come twice, and with tags
    there may be records of other tags with the same hash. The caller may close the iterator at any
    time, which drops the requests in flight. At most ``window`` answers are held in memory, twice
    as many with tags. Nothing else may use the connections of the cluster meanwhile.

    ``pause_for`` waits between retries, in milliseconds. With ``batch`` answers are received there,
    and the records of many are yielded together; they are valid until the next ones are asked for.

    Raise DataLost if offsets of the slice are
    gone, NetworkError or NoRoute if no broker with the queue could be reached for about half a
    minute, and BrokerError if the broker refused.
    """
    puller = _Puller(cluster, piece, options, pause_for, batch)
    try:
        yield from puller.records()
    finally:
        puller.give_up()


def pull_header(
    cluster: Cluster, queue: MessageQueue, options: PullOptions, *, offset: int = 0, count: int = 0
) -> PullMessage:
    """Return the header of a pull."""
    return PullMessage(
        consumer_group=cluster.wire_name(options.group),
        topic=cluster.wire_name(queue.topic),
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=options.tags,
        sub_version=0,
        expression_type="TAG",
    )


class _Request(NamedTuple):
    """A pull in flight."""

    connection: BlockingConnection
    number: int
    is_replica: bool


@dataclass(slots=True)
class _PullRange:
    """The offsets of one pull, and its request while that is in flight."""

    start: int
    end: int
    request: _Request | None = None

    def give_up(self) -> None:
        """Drop the request in flight."""
        if self.request is not None:
            self.request.connection.abandon(self.request.number)
            self.request = None


@dataclass(slots=True)
class _HeldAnswers:
    """Filtered answers of one broker that may hide a gap."""

    start: int
    connection: BlockingConnection
    is_replica: bool
    answers: int = 0
    records: list[Records] = field(default_factory=list)

    def add(self, records: Records) -> None:
        """Add the records of one more answer; it may have none."""
        self.answers += 1
        if records.data:
            self.records.append(records)


class _Puller:
    """Pulls one slice."""

    def __init__(
        self,
        cluster: Cluster,
        piece: Slice,
        options: PullOptions,
        pause_for: Callable[[int], None],
        batch: "AnswerBatch | None",
    ) -> None:
        self._cluster = cluster
        self._queue = piece.queue
        self._next = piece.start  # no pull range covers offsets from here on
        self._end = piece.end
        self._options = options
        self._pause_for = pause_for
        self._is_filtered = options.tags != SELECT_ALL
        span = _FILTER_SPAN if self._is_filtered else 0
        self._span = PullSpan(max(options.pull_count, span))
        self._window = 1  # until the first answer shows how many offsets it covers
        self._pull_ranges: deque[_PullRange] = deque()
        self._held: deque[_HeldAnswers] = deque()
        self._batch = None if self._is_filtered else batch  # a filter leaves gaps
        self._receiving: BlockingConnection | None = None  # into the memory of the batch
        self._confirms_all = False  # whether to confirm all held answers before the next pull
        self._connection: QueueConnection | None = None
        self._broker_id = PRIMARY_ID
        self._stays_with_primary = False
        self._needs_primary = False  # a replica lacks what comes next
        self._has_gaps: bool | None = None  # by design; None: not known yet
        self._lost_until: int | None = None
        self._failures = 0  # since the last success
        self._headers = PullTemplate(pull_header(cluster, piece.queue, options))

    def records(self) -> Iterator[Records]:
        while self._is_more() or self._held or self._is_batched():
            try:
                found = self._confirmed() if self._is_confirmation_due() else self._pulled()
            except OrbitError as error:
                if self._is_batched():  # these come first; if it is no accident, it comes again
                    found = self._batched()
                elif isinstance(error, _PASSING):
                    self._try_again(error)
                    continue
                else:
                    raise
            yield from found

    def _is_more(self) -> bool:
        """Return whether there are offsets left to pull."""
        return bool(self._pull_ranges) or self._next < self._end

    def _pulled(self) -> Iterable[Records]:
        """Return the records of the next answer, or of a batch that it fills or ends."""
        if not self._is_more():
            return self._batched()
        request = self._first_request()
        if self._batch is None:
            records = self._records_of(request, request.connection.result(request.number))
            return (records,) if records.data else ()
        if self._receiving is not request.connection and not self._batch.answers:
            self._receive_apart()
            self._receiving = request.connection
            self._receiving.receive_into(self._batch.memory)
        answer = request.connection.result(request.number)
        if self._is_added(request, answer):
            return self._batched() if self._batch.is_full else ()
        if self._is_batched():  # the answer is requested again, to be handled by itself
            return self._batched()
        records = self._records_of(request, answer)
        return (records,) if records.data else ()

    def give_up(self) -> None:
        """Drop all requests in flight."""
        for pull_range in self._pull_ranges:
            pull_range.give_up()
        self._receive_apart()

    # Requests

    def _first_request(self) -> _Request:
        """Return the request of the first pull range, after filling the window.

        Requests are sent when half the window is empty: several in one write.
        """
        pull_ranges = self._pull_ranges
        if (
            not pull_ranges
            or pull_ranges[0].request is None
            or len(pull_ranges) <= self._window // 2
        ):
            self._lay_out()
            window = islice(pull_ranges, self._window)
            self._send([pull_range for pull_range in window if pull_range.request is None])
        request, pull_ranges[0].request = pull_ranges[0].request, None
        assert request is not None
        return request

    def _lay_out(self) -> None:
        while len(self._pull_ranges) < self._window and self._next < self._end:
            end = min(self._next + self._span.length, self._end)
            self._pull_ranges.append(_PullRange(self._next, end))
            self._next = end

    def _send(self, pull_ranges: list[_PullRange]) -> None:
        if not pull_ranges:
            return
        if self._connection is None:
            self._connection = self._cluster.connection(
                self._queue, self._broker_id, exact=self._needs_primary
            )
        connection, broker_id = self._connection
        most = self._options.pull_count
        numbers = connection.start_all(
            self._headers.fill(one.start, min(most, one.end - one.start)) for one in pull_ranges
        )
        for pull_range, number in zip(pull_ranges, numbers, strict=True):
            pull_range.request = _Request(connection, number, broker_id != PRIMARY_ID)

    def _try_again(self, error: OrbitError) -> None:
        """Prepare a retry by a new connection; raise the error after the last one."""
        if self._failures >= len(_PAUSES_MS):
            raise error
        log.warning(
            "a pull of topic %s, queue %s failed and is retried: %s",
            *(self._queue.topic, queue_name(self._queue), error),
        )
        self._take_back()
        self.give_up()
        self._cluster.forget(self._queue)
        self._connection, self._broker_id = None, PRIMARY_ID
        self._pause_for(_PAUSES_MS[self._failures])
        self._failures += 1

    # Answers

    def _records_of(self, request: _Request, answer: Frame) -> Records:
        """Return the records of an answer to the first pull range; what it leaves is pulled again.

        Filtered records are held, and none is returned.
        """
        if answer.code not in _ANSWERS:
            self._refused(request, answer)
            return _NONE
        header = answer.read(PullMessageAnswer)
        if not self._continues(answer):
            self._handle_missing(request.is_replica, answer.code, header)
            return _NONE
        covered = self._covered(request, answer, header)
        if covered is None:
            return _NONE
        (records, reached), first = covered, self._pull_ranges[0]
        self._span.learn(asked=first.end - first.start, covered=reached - first.start)
        self._window = self._options.window
        if self._is_filtered:
            self._hold(first.start, request, records)
            records = _NONE
        else:
            self._succeeded(request.is_replica)
        self._done_before(reached)
        self._follow(header.suggest_which_broker_id)
        return records

    def _continues(self, answer: Frame) -> bool:
        """Return whether the pull continues after an answer, which may have no records."""
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return self._is_filtered and answer.remark == _NOT_MATCHED
        return answer.code == ResponseCode.SUCCESS

    def _covered(
        self, request: _Request, answer: Frame, header: PullMessageAnswer
    ) -> tuple[Records, int] | None:
        """Return the records of an answer up to its first gap, and the offset after them.

        None if the answer begins with a gap; the pull then continues with the first pull range as
        it is now.
        """
        records = Records(answer.body)
        first, reached = self._pull_ranges[0], header.next_begin_offset
        if not self._is_filtered and not self._has_gaps:
            run = run_from(answer.body, first.start, first.end)
            if run.first is None or run.first <= first.start:
                records = Records(memoryview(answer.body)[: run.size], run.starts)
                reached = min(reached, run.reached)
            elif not self._may_have_gaps(request.connection):
                behind = msgspec.structs.replace(header, min_offset=run.first)
                self._handle_missing(request.is_replica, answer.code, behind)
                return None
        if reached > first.end:
            records, reached = Records(records_before(records.data, first.end)), first.end
        if reached <= first.start:
            raise RemoteProtocolError(
                f"{request.connection.peer} answered a pull at offset {first.start} of topic "
                f"{self._queue.topic} with {reached} as the next offset"
            )
        return records, reached

    def _succeeded(self, is_replica: bool) -> None:
        self._failures = 0
        if not is_replica:
            self._needs_primary = False

    def _done_before(self, offset: int) -> None:
        """Drop all pull ranges before an offset, and their requests."""
        pull_ranges = self._pull_ranges
        while pull_ranges and pull_ranges[0].end <= offset:
            pull_ranges.popleft().give_up()
        if pull_ranges and pull_ranges[0].start < offset:
            pull_ranges[0].give_up()
            pull_ranges[0].start = offset
        if len(pull_ranges) == 1 and pull_ranges[0].request is None:
            self._next = pull_ranges.popleft().start  # so that it is divided again, by the new span
        self._next = max(self._next, offset)

    def _follow(self, suggested: int) -> None:
        """Send the next pulls to the replica that the broker suggests, as Java clients do."""
        if suggested != self._broker_id and not self._stays_with_primary:
            self._connection, self._broker_id = None, suggested

    # Answers whose records are checked together

    def _is_batched(self) -> bool:
        return self._batch is not None and bool(self._batch.answers)

    def _is_added(self, request: _Request, answer: Frame) -> bool:
        """Add an answer to the batch; return False if it needs a look of its own."""
        assert self._batch is not None
        if answer.code != ResponseCode.SUCCESS:
            return False
        header, first = answer.read(PullMessageAnswer), self._pull_ranges[0]
        start, reached = first.start, header.next_begin_offset
        if not start < reached <= first.end or not self._batch.add(answer.body, start, reached):
            return False
        self._span.learn(asked=first.end - start, covered=reached - start)
        self._window = self._options.window
        self._succeeded(request.is_replica)
        self._done_before(reached)
        self._follow(header.suggest_which_broker_id)
        return True

    def _batched(self) -> Iterator[Records]:
        """Yield the records of the batch; from a gap on, they are pulled again."""
        batch = self._batch
        assert batch is not None
        self._receive_apart()
        records, answers = batch.records(), batch.answers
        batch.clear()
        if records is not None:
            yield records
            return
        for answer in answers:
            run = run_from(answer.body, answer.start, answer.reached)
            if run.reached < answer.reached or run.size < len(answer.body):
                self._pull_again(answer.start)
                return
            yield Records(answer.body, run.starts)

    def _pull_again(self, start: int) -> None:
        """Pull from an offset on again, and check each answer when it arrives."""
        self._batch = None
        end = self._pull_ranges[0].start if self._pull_ranges else min(self._next, self._end)
        self._pull_ranges.appendleft(_PullRange(start, end))

    def _receive_apart(self) -> None:
        """Let the memory of the batch be."""
        if self._receiving is not None:
            self._receiving.receive_into(None)
            self._receiving = None

    # Filtered answers, held until their broker returns the record where they begin

    def _hold(self, start: int, request: _Request, records: Records) -> None:
        if not self._held or self._held[-1].connection is not request.connection:
            self._held.append(_HeldAnswers(start, request.connection, request.is_replica))
        self._held[-1].add(records)

    def _is_confirmation_due(self) -> bool:
        """Return whether held answers fill the window, or are all there are from their broker."""
        if not self._held:
            return False
        is_last = self._confirms_all or not (self._pull_ranges or self._next < self._end)
        return is_last or len(self._held) > 1 or self._held[0].answers >= self._options.window

    def _confirmed(self) -> Iterable[Records]:
        """Pull the record where held answers begin, and return the held records if it is there."""
        held = self._held[0]
        # If it is missing, a larger pull shows where the gap ends.
        lacking = self._answer_without(held, 1) and self._answer_without(
            held, self._options.pull_count
        )
        if lacking is None:
            self._succeeded(held.is_replica)
            self._held.popleft()
            self._confirms_all = self._confirms_all and bool(self._held)
            return held.records
        self._take_back()
        self._handle_missing(held.is_replica, *lacking)
        return ()

    def _answer_without(
        self, held: _HeldAnswers, count: int
    ) -> tuple[int, PullMessageAnswer] | None:
        """Return a broker's answer if it lacks the record where held answers begin, else None."""
        every = msgspec.structs.replace(self._options, tags=SELECT_ALL)
        header = pull_header(self._cluster, self._queue, every, offset=held.start, count=count)
        (number,) = held.connection.start_all([header])
        answer = held.connection.result(number)
        if answer.code not in _ANSWERS:
            raise BrokerError.of(answer.code, answer.remark, address=held.connection.peer)
        found = answer.read(PullMessageAnswer)
        if answer.code == ResponseCode.SUCCESS:
            run = run_from(answer.body, held.start, held.start + 1)
            if run.first is None or run.first <= held.start or self._may_have_gaps(held.connection):
                return None
            found = msgspec.structs.replace(found, min_offset=run.first)
        return answer.code, found

    def _take_back(self) -> None:
        """Drop held answers, to pull them again."""
        if self._held:
            end = self._pull_ranges[0].start if self._pull_ranges else min(self._next, self._end)
            self._pull_ranges.appendleft(_PullRange(self._held[0].start, end))
            self._held.clear()
            self._confirms_all = False

    # Missing records

    def _may_have_gaps(self, connection: BlockingConnection) -> bool:
        """Return whether a topic has gaps by design, since it keeps the last message per key only.

        Java has such topics from 5.1 on. A broker that doesn't know the request has none.
        """
        if self._has_gaps is None:
            topic = self._cluster.wire_name(self._queue.topic)
            (number,) = connection.start_all([GetTopicConfig(topic=topic)])
            answer = connection.result(number)
            if answer.code != ResponseCode.SUCCESS:
                return False
            config = TopicConfigAndQueueMapping.from_json(answer.body)
            self._has_gaps = config.attributes.get(_CLEANUP) == _COMPACTION
        return self._has_gaps

    def _refused(self, request: _Request, answer: Frame) -> None:
        """Switch to the primary if a replica refused: it learns of topics and groups later."""
        error = BrokerError.of(answer.code, answer.remark, address=request.connection.peer)
        if not request.is_replica or isinstance(error, _PASSING):
            raise error
        self._switch_to_primary()

    def _switch_to_primary(self) -> None:
        self._connection, self._broker_id = None, PRIMARY_ID
        self._stays_with_primary = self._needs_primary = True

    def _handle_missing(self, is_replica: bool, code: int, header: PullMessageAnswer) -> None:
        """Switch to the primary for what a replica lacks: it may lag behind, or keep less."""
        if is_replica:
            self._switch_to_primary()
        elif self._held:  # the loss may begin there, so they come first
            self._confirms_all = True
        else:
            self._handle_loss(code, header)

    def _handle_loss(self, code: int, header: PullMessageAnswer) -> None:
        """Retry an offset that the primary may have soon; otherwise fail, or skip the loss."""
        first = self._pull_ranges[0]
        least, most = header.min_offset, header.max_offset
        error = data_lost(Lost(self._queue, first.start, Range(least, most)))
        is_there = least <= first.start < most
        was_moved = is_there and code == ResponseCode.PULL_OFFSET_MOVED
        if (was_moved or first.start >= most) and self._failures < len(_PAUSES_MS):
            # A broker reports an operator's move once. A starting broker may not know its end yet.
            self._try_again(error)
        elif self._options.fail_on_data_loss:
            raise error
        else:
            if first.start != self._lost_until:  # a loss may take several pulls
                log.warning("%s", error)
            self._lost_until = self._after_loss(header)
            self._done_before(self._lost_until)

    def _after_loss(self, header: PullMessageAnswer) -> int:
        """Return the offset to continue at: the first existing one, after a gap, or the end."""
        start = self._pull_ranges[0].start
        if start < header.min_offset:
            return header.min_offset
        if start < header.next_begin_offset <= header.max_offset:
            return header.next_begin_offset
        return self._end
