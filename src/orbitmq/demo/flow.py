"""The demo's traffic: orders sent at a steady pace while the stream writes them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from orbitmq.blocking import Producer
from orbitmq.clock import Clock, pause
from orbitmq.demo.figures import Batch, Sample
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
_REPORT_MS: Final = 1_000
_WAIT_MS_MAX: Final = 120_000
"""For rows to be written: it takes seconds on an idle machine, and a minute on a busy one."""


class Flow:
    """Sends events, watches the query that writes them, if any, and takes samples meanwhile.

    Times count from the end of ``warm_up``. ``report`` prints the progress.
    """

    def __init__(
        self,
        producer: Producer,
        query: "StreamingQuery | None",
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._producer = producer
        self._query = query
        self._clock = clock
        self._report = report
        self.batches: tuple[Batch, ...] = ()
        self.samples: list[Sample] = []
        self._begin()

    def warm_up(self, event: Event) -> int:
        """Send one event, wait until it is written, and return the milliseconds that took.

        In the first batch Spark starts its workers and compiles its plan, which takes longer than
        any later batch.
        """
        self._producer.send(event.message())
        if self._query is None:
            self._begin()
            return 0
        self._await(lambda: self.written > 0)
        took_ms = self._now_ms()
        if not self.written:
            raise OrbitError(f"the stream wrote nothing within {took_ms // 1000} s")
        self._begin()
        return took_ms

    def produce(self, happened: Sequence[Event]) -> None:
        """Send the events, some per tick, and wait until all are stored."""
        in_flight: list[Future[SendReceipt]] = []
        for tick, at in enumerate(range(0, len(happened), _EVENTS_A_TICK), start=1):
            batch = happened[at : at + _EVENTS_A_TICK]
            in_flight += [self._producer.send_later(event.message()) for event in batch]
            self._watch_until(tick * _TICK_MS)
            self._report_sometimes()
        for send in in_flight:
            send.result()
        self._look()

    def finish(self, rows: int) -> None:
        """Wait until ``rows`` rows are written, at most two minutes, and stop the query."""
        if self._query is not None:
            self._await(lambda: self.written >= rows, self._report_sometimes)
            self._stop(self._query)
        self._report_now()

    @property
    def written(self) -> int:
        """Number of rows that the query has written so far."""
        return sum(batch.rows for batch in self.batches)

    def _begin(self) -> None:
        self._began_ms = self._clock.monotonic_ms()
        self._began_at_ms = self._clock.now_ms()  # batches have times of day
        self._reported_ms = 0
        self.samples = [Sample(0, self._producer.statistics.sent)]

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms() - self._began_ms

    def _stop(self, query: "StreamingQuery") -> None:
        """Stop a query between two triggers: within one, Spark and its Python print tracebacks."""
        self._await(lambda: not query.status["isTriggerActive"])
        query.stop()

    def _await(
        self, is_done: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        deadline_ms = self._now_ms() + _WAIT_MS_MAX
        while not is_done() and self._now_ms() < deadline_ms:
            self._watch_until(self._now_ms() + _TICK_MS)
            meanwhile()

    def _watch_until(self, until_ms: int) -> None:
        """Wait until a time of the flow; raise the query's error if it fails."""
        left_ms = max(1, until_ms - self._now_ms())
        if self._query is None:
            pause(left_ms)
        else:
            # PySpark accepts fractions of a second, although its types say int.
            self._query.awaitTermination(timeout=left_ms / 1000)  # type: ignore[arg-type]
        self._look()

    def _look(self) -> None:
        if self._producer.statistics.sent > self.samples[-1].sent:
            self.samples.append(Sample(self._now_ms(), self._producer.statistics.sent))
        if self._query is not None:
            self.batches = batches_of(self._query, self._began_at_ms)

    def _report_sometimes(self) -> None:
        if self._now_ms() - self._reported_ms >= _REPORT_MS:
            self._report_now()

    def _report_now(self) -> None:
        self._reported_ms = self._now_ms()
        sent = self.samples[-1].sent
        now_s = self._reported_ms / 1000
        written = "" if self._query is None else f" {self.written:>10,} in Parquet"
        self._report(f"{now_s:6.1f} s {sent:>10,} sent{written}")
