"""Finds the offset of the first message stored at or after a time, in many queues at once.

Brokers search by time, but not all alike. From 5.1.1 on they return the first message stored at or
after the time. Older ones return the nearest message, earlier or later, and any one of several with
the same time; and they search one file only, chosen by the time it was last written. So an answer
is a hint. It is usually right, which the two messages around it confirm; if not, the search
continues from there in steps that double.

All queues are searched side by side, in rounds. In each round the pulls of all queues of a broker
are in flight together, so a round costs one round trip however many queues there are.

Store times are assumed to rise along a queue, as brokers assume too.
"""

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import Offsets, Range, Slice
from orbitmq.spark.pulling.puller import PullOptions, pull, pull_header
from orbitmq.spark.pulling.record_run import run_from
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame

__all__ = ["first_since", "offsets_since"]

log = logging.getLogger("orbitmq.spark")

_PER_PULL: Final = 2
"""Messages per pull: the one before a hint, and the one at it."""
_IN_FLIGHT: Final = 32
"""Pulls in flight per broker. Answers are held in memory, and a message may have megabytes."""

Search = Generator[int, int | None, int]
"""Yields offsets, is sent their store times (None: the message is gone), returns the result."""


def offsets_since(
    cluster: Cluster,
    timestamp_ms: int,
    ranges: Mapping[MessageQueue, Range],
    hints: Mapping[MessageQueue, int],
    *,
    group: str,
) -> Offsets:
    """Return the offset of the first message of each range stored at or after a time.

    If a range has none, its end is returned. A message that is gone counts as older.
    """
    searches = [
        _QueueSearch(queue, within.max, first_since(timestamp_ms, within, hints[queue]))
        for queue, within in ranges.items()
    ]
    pull_options = PullOptions(group=group, fail_on_data_loss=False)
    pending = searches
    while pending := [search for search in pending if not search.advance()]:
        _pull_round(cluster, pending, pull_options)
    return {search.queue: search.result for search in searches}


def first_since(timestamp_ms: int, within: Range, hint: int) -> Search:
    """Search the first offset of a range that was stored at or after a time; its end if none was.

    >>> search = first_since(1_000, Range(0, 100), 20)
    >>> next(search), search.send(950)
    (19, 20)
    """

    def is_older(stored_ms: int | None) -> bool:
        return stored_ms is None or stored_ms < timestamp_ms

    low, high, step = within.min, within.max, 1  # the result is between low and high
    look = min(max(hint, low), high)
    if low < look and not is_older((yield look - 1)):
        high = look - 1
        while low < high:
            look = max(low, high - step)
            if is_older((yield look)):
                low = look + 1
                break
            high, step = look, 2 * step
    else:
        low = look
        while low < high:
            look = min(low + step, high) - 1
            if not is_older((yield look)):
                high = look
                break
            low, step = look + 1, 2 * step
    while low < high:
        look = (low + high) // 2
        low, high = (look + 1, high) if is_older((yield look)) else (low, look)
    return low


@dataclass(slots=True)
class _QueueSearch:
    """The search in one queue; it pauses at an offset whose store time is not known yet."""

    queue: MessageQueue
    end: int
    steps: Search
    offset: int | None = None
    result: int = 0
    known_ms: dict[int, int | None] = field(default_factory=dict)

    def advance(self) -> bool:
        """Search on as far as store times are known; return whether the search has finished."""
        try:
            while self.offset is None or self.offset in self.known_ms:
                known = None if self.offset is None else self.known_ms[self.offset]
                self.offset = self.steps.send(known)
        except StopIteration as stop:
            self.result = stop.value
            return True
        return False

    @property
    def wanted(self) -> Slice:
        """The offset that the search pauses at, and the one after it."""
        assert self.offset is not None
        return Slice(self.queue, self.offset, min(self.offset + _PER_PULL, self.end))

    def learn(self, until: int, records: Sequence[RecordView]) -> None:
        """Note the store times of the wanted offsets before another: None if no record has one."""
        for offset in range(self.wanted.start, until):
            # A record may be an inner batch, of several offsets.
            before = [view for view in records if view.queue_offset <= offset]
            self.known_ms[offset] = before[-1].store_timestamp_ms if before else None


class _Pull(NamedTuple):
    """A pull that is in flight."""

    search: _QueueSearch
    connection: BlockingConnection
    number: int


def _pull_round(
    cluster: Cluster, searches: Sequence[_QueueSearch], pull_options: PullOptions
) -> None:
    """Pull what each search pauses at; all brokers work at the same time."""
    by_broker: dict[str, list[_QueueSearch]] = {}
    for search in searches:
        by_broker.setdefault(search.queue.broker_name, []).append(search)
    for first in range(0, max(map(len, by_broker.values())), _IN_FLIGHT):
        some = [one[first : first + _IN_FLIGHT] for one in by_broker.values()]
        _pull_at_once(cluster, some, pull_options)
    for search in searches:
        if search.offset not in search.known_ms:
            piece = search.wanted
            pulled = pull(cluster, piece, pull_options)
            search.learn(piece.end, [view for records in pulled for view in Scan(records.data)])


def _pull_at_once(
    cluster: Cluster, by_broker: Sequence[Sequence[_QueueSearch]], pull_options: PullOptions
) -> None:
    """Pull once for each search, and skip what isn't answered with the wanted message.

    The caller pulls that again with ``pull``, which retries, and knows why a message may be gone.
    """
    pulls: list[_Pull] = []
    try:
        for searches in by_broker:
            try:
                pulls += _started(cluster, searches, pull_options)
            except OrbitError as error:
                log.debug("a search by time pulls one queue at a time: %s", error)
        for search, connection, number in pulls:
            try:
                _learn_from(connection.result(number), search)
            except OrbitError as error:
                log.debug("a search by time pulls %s again: %s", search.queue, error)
    finally:
        for _search, connection, number in pulls:
            connection.abandon(number)


def _started(
    cluster: Cluster, searches: Sequence[_QueueSearch], pull_options: PullOptions
) -> Iterator[_Pull]:
    """Send the pulls of some queues of one broker in one write."""
    if not searches:
        return
    connection, _broker_id = cluster.connection(searches[0].queue)
    wanted = [search.wanted for search in searches]
    numbers = connection.start_all(
        pull_header(
            cluster, piece.queue, pull_options, offset=piece.start, count=piece.end - piece.start
        )
        for piece in wanted
    )
    for search, number in zip(searches, numbers, strict=True):
        yield _Pull(search, connection, number)


def _learn_from(answer: Frame, search: _QueueSearch) -> None:
    if answer.code != ResponseCode.SUCCESS:
        return
    piece = search.wanted
    run = run_from(answer.body, piece.start, piece.end)
    records = list(Scan(answer.body))
    if records and run.first is not None and run.first <= piece.start:
        search.learn(min(run.reached, piece.end), records)
