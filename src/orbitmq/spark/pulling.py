"""A slice of a queue, pulled: several requests on their way, answers in the order of the queue.

::

    slice   ├── stretch ──┼── stretch ──┼── stretch ──┼─ not asked for yet ──▶
               answered      on its way    on its way

Each pull is for a stretch that no other one covers; what an answer leaves of its stretch is asked
for again when its turn comes. Requests leave several at a time, in one write. The first goes alone:
its answer tells how far one goes (``stride``).

What an answer can be::

    SUCCESS                       records, and where the next pull should begin
    PULL_RETRY_IMMEDIATELY        none of the records looked at has the tags: go on behind them;
                                  or their file is being deleted
    PULL_NOT_FOUND, OFFSET_MOVED  the queue doesn't have the offset: a replica is behind, an
                                  operator moved the group, or the data is gone
    other codes                   errors
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol

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
from orbitmq.message.buffer import Buffer
from orbitmq.message.model import MessageQueue
from orbitmq.message.record import LEAST_SIZE
from orbitmq.message.tags import SELECT_ALL
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Lost, Range, Slice, data_lost
from orbitmq.spark.stride import Stride
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage, PullMessageAnswer
from orbitmq.wire.pull_template import PullTemplate

__all__ = ["WINDOW", "Brokers", "Demand", "pull"]

log = logging.getLogger("orbitmq.spark")

WINDOW: Final = 16
"""Pulls on their way at once: at 256 KiB each, 4 MiB, which keeps a fast network busy."""

_PRIMARY: Final = 0
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

_SIZE_AND_OFFSET: Final = Struct(
    ">i"  # size
    "16x"
    "q"  # 20: queue offset
)

_REMOVING: Final = "MESSAGE_WAS_REMOVING"
"""The remark of an answer whose records lie in a file that is being deleted."""


class Link(Protocol):
    """What a pull needs of a connection; a ``BlockingConnection`` is one."""

    peer: str

    def start_all(self, headers: Iterable[Header]) -> list[int]:
        """Send requests in one write; return their numbers."""
        ...

    def result(self, number: int) -> Frame:
        """Return the answer to a request that was started."""
        ...

    def abandon(self, number: int) -> None:
        """Give up on a request that was started."""
        ...


class Brokers(Protocol):
    """Who is asked; a ``Cluster`` is one."""

    def connection(self, queue: MessageQueue, broker_id: int = 0) -> Link:
        """Return a connection to who serves a queue; another replica if that one is not there."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Have the route of a queue asked for again, and its broker dialled anew."""
        ...

    def wire_name(self, name: str) -> str:
        """Return a topic or group as brokers know it."""
        ...


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
    brokers: Brokers, piece: Slice, demand: Demand, *, pause_for: Callable[[int], None] = pause
) -> Iterator[Buffer]:
    """Yield the bodies of answers: the records of a slice, all of them, in order, each once.

    Of inner batches, parts may lie outside the slice or come twice; and if tags are demanded, there
    may be records of other tags with the same hash. A caller may stop at any time and close the
    iterator: what is on its way is dropped then. At most ``window`` answers are held.

    Args:
        brokers: connections; used by nobody else while this runs.
        piece: what to pull; an empty slice asks nobody.
        demand: how.
        pause_for: waits between tries, so many milliseconds.

    Raises:
        DataLost: offsets of the slice are gone.
        NetworkError, NoRoute: for about half a minute, nobody who has the queue could be reached.
        BrokerError: the broker refuses.

    """
    puller = _Puller(brokers, piece, demand, pause_for)
    try:
        yield from puller.bodies()
    finally:
        puller.give_up()


class _Request(NamedTuple):
    """A pull that is on its way."""

    link: Link
    number: int
    broker_id: int


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


class _Puller:
    """The state of one pull of a slice."""

    def __init__(
        self, brokers: Brokers, piece: Slice, demand: Demand, pause_for: Callable[[int], None]
    ) -> None:
        self._brokers = brokers
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
        self._link: Link | None = None
        self._broker_id = _PRIMARY
        self._stays_with_primary = False
        self._failures = 0  # since the last success
        self._headers = PullTemplate(
            PullMessage(
                consumer_group=brokers.wire_name(demand.group),
                topic=brokers.wire_name(piece.queue.topic),
                queue_id=piece.queue.queue_id,
                queue_offset=0,
                max_msg_nums=0,
                sys_flag=SUBSCRIPTION,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription=demand.tags,
                sub_version=0,
                expression_type="TAG",
            )
        )

    def bodies(self) -> Iterator[Buffer]:
        while self._stretches or self._next < self._end:
            try:
                request = self._first_request()
                body = self._taken(request, request.link.result(request.number))
            except _PASSING as error:
                self._try_again(error)
            else:
                if body:
                    yield body

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
            self._ask([stretch for stretch in stretches if stretch.asked is None])
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
        link = self._link
        if link is None:
            link = self._link = self._brokers.connection(self._queue, self._broker_id)
        most = self._demand.pull_count
        numbers = link.start_all(
            self._headers.fill(one.start, min(most, one.end - one.start)) for one in stretches
        )
        for stretch, number in zip(stretches, numbers, strict=True):
            stretch.asked = _Request(link, number, self._broker_id)

    def _try_again(self, error: OrbitError) -> None:
        """Go another way after a failure; raise it if that was tried often enough."""
        if self._failures >= len(_PAUSES_MS):
            raise error
        log.warning(
            "a pull of topic %s, queue %s failed, and is tried again: %s",
            *(self._queue.topic, queue_name(self._queue), error),
        )
        self.give_up()
        self._brokers.forget(self._queue)
        self._link, self._broker_id = None, _PRIMARY
        self._pause_for(_PAUSES_MS[self._failures])
        self._failures += 1

    # Answers

    def _taken(self, request: _Request, answer: Frame) -> Buffer:
        """Return the records that an answer has of the first stretch; the rest stays to be asked.

        Raises:
            DataLost: its offsets are gone.
            BrokerError: the broker refuses.

        """
        if answer.code not in _ANSWERS:
            raise BrokerError.of(answer.code, answer.remark, address=request.link.peer)
        header = answer.read(PullMessageAnswer)
        if not self._goes_on(answer):
            if request.broker_id == _PRIMARY:
                self._missed(answer.code, header)
            else:  # a replica may be behind, or keep less
                self._link, self._broker_id, self._stays_with_primary = None, _PRIMARY, True
            return b""
        first, reached = self._stretches[0], header.next_begin_offset
        if reached <= first.start:
            raise RemoteProtocolError(
                f"{request.link.peer} answered a pull at offset {first.start} of topic "
                f"{self._queue.topic}, and has the next begin at {reached}"
            )
        body = answer.body if reached <= first.end else _before(answer.body, first.end)
        reached = min(reached, first.end)
        self._stride.learn(asked=first.end - first.start, covered=reached - first.start)
        self._window = self._demand.window
        self._failures = 0
        self._done_before(reached)
        self._follow(header.suggest_which_broker_id)
        return body

    def _goes_on(self, answer: Frame) -> bool:
        """Return whether an answer covers what it says, with or without records."""
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return self._is_filtered and answer.remark != _REMOVING
        return answer.code == ResponseCode.SUCCESS

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
            self._link, self._broker_id = None, suggested

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
            log.warning("%s", error)
            self._done_before(self._after_loss(header))

    def _after_loss(self, header: PullMessageAnswer) -> int:
        """Return where to go on: at the least offset there is, behind a hole, or nowhere."""
        start = self._stretches[0].start
        if start < header.min_offset:
            return header.min_offset
        if start < header.next_begin_offset <= header.max_offset:
            return header.next_begin_offset
        return self._end


def _before(body: Buffer, end: int) -> Buffer:
    """Return the records of an answer that lie before an offset of the queue."""
    view, position = memoryview(body), 0
    while position + LEAST_SIZE <= len(view):
        size, queue_offset = _SIZE_AND_OFFSET.unpack_from(view, position)
        if queue_offset >= end:
            return view[:position]
        position += max(size, LEAST_SIZE)  # what is no record, the reader of the answer finds
    return view
