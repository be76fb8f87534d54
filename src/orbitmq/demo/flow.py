"""The flow of the demo: orders out at a steady pace, while the stream takes them in."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from orbitmq.blocking import Producer
from orbitmq.clock import Clock
from orbitmq.demo.figures import Batch, Sample, sample
from orbitmq.demo.pipeline import batches_of
from orbitmq.demo.shop import Event
from orbitmq.errors import OrbitError
from orbitmq.message.model import SendReceipt
from orbitmq.threads import Future

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Flow"]

_TICK_MS: Final = 100
_EVENTS_A_TICK: Final = 64
_TOLD_EACH_MS: Final = 1_000
_PATIENCE_MS: Final = 120_000
"""For rows on their way: seconds on an idle machine, and a minute where others are at work."""


class Flow:
    """Sends events, watches the query that writes them, and takes samples on the way.

    Time counts from the moment that events flow, which is when ``warm_up`` is over.

    Args:
        producer: started.
        query: running.
        clock: paces and measures.
        tell: says how far it has come.

    """

    def __init__(
        self, producer: Producer, query: "StreamingQuery", clock: Clock, tell: Callable[[str], None]
    ) -> None:
        self._producer = producer
        self._query = query
        self._clock = clock
        self._tell = tell
        self.batches: tuple[Batch, ...] = ()
        self.samples: list[Sample] = []
        self._begin()

    def warm_up(self, event: Event) -> int:
        """Send one event, wait until it is written, and return how many milliseconds that took.

        The first batch has Spark start its workers and compile its plan, which takes longer than
        any batch of the shop.

        Raises:
            OrbitError: it was not written for two minutes.

        """
        self._producer.send(event.message())
        self._await(1)
        took_ms = self._now_ms()
        if not self.written:
            raise OrbitError(f"the stream has written nothing for {took_ms // 1000} s")
        self._begin()
        return took_ms

    def produce(self, happened: Sequence[Event]) -> None:
        """Send the events, so many in each tick, and wait until all are stored.

        Raises:
            SendFailed: one was not.
            StreamingQueryException: the query has failed.

        """
        under_way: list[Future[SendReceipt]] = []
        for tick, at in enumerate(range(0, len(happened), _EVENTS_A_TICK), start=1):
            batch = happened[at : at + _EVENTS_A_TICK]
            under_way += [self._producer.send_later(event.message()) for event in batch]
            self._watch_until(tick * _TICK_MS)
            self._say_now_and_then()
        for send in under_way:
            send.result()
        self._look()

    def finish(self, rows: int) -> None:
        """Wait until so many rows are written, or for two minutes in vain, and stop the query."""
        self._await(rows, self._say_now_and_then)
        self._query.stop()
        self._say()

    @property
    def written(self) -> int:
        """Rows that the query has written by now."""
        return sum(batch.rows for batch in self.batches)

    def _begin(self) -> None:
        self._began_ms = self._clock.monotonic_ms()
        self._began_at_ms = self._clock.now_ms()  # batches tell the time of day
        self._told_ms = 0
        self.samples = [sample(self._producer.statistics, 0)]

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms() - self._began_ms

    def _await(self, rows: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        patience_ms = self._now_ms() + _PATIENCE_MS
        while self.written < rows and self._now_ms() < patience_ms:
            self._watch_until(self._now_ms() + _TICK_MS)
            meanwhile()

    def _watch_until(self, moment_ms: int) -> None:
        """Wait for a moment of the flow, or for the query to fail, which raises its error."""
        left_s = max(1, moment_ms - self._now_ms()) / 1000
        # PySpark takes fractions of a second, and its types say that it doesn't.
        self._query.awaitTermination(timeout=left_s)  # type: ignore[arg-type]
        self._look()

    def _look(self) -> None:
        if self._producer.statistics.sent > self.samples[-1].sent:
            self.samples.append(sample(self._producer.statistics, self._now_ms()))
        self.batches = batches_of(self._query, self._began_at_ms)

    def _say_now_and_then(self) -> None:
        if self._now_ms() - self._told_ms >= _TOLD_EACH_MS:
            self._say()

    def _say(self) -> None:
        self._told_ms = self._now_ms()
        sent = self.samples[-1].sent
        self._tell(f"{self._told_ms / 1000:6.1f} s {sent:>10,} sent {self.written:>10,} in Parquet")
