"""The flow, with a real broker and a fake query."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from orbitmq import embedded
from orbitmq.blocking import Producer
from orbitmq.clock import SystemClock
from orbitmq.demo.flow import Flow
from orbitmq.demo.shop import REMINDER, events
from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Progress:
    numInputRows: int  # noqa: N815 - Spark's name
    timestamp: str = "2026-01-01T00:00:00.000Z"
    durationMs: dict[str, int] = field(  # noqa: N815 - Spark's name
        default_factory=lambda: {"triggerExecution": 1}
    )


class Query:
    """Writes everything that was sent so far, on each wait; each second wait ends in a trigger."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.is_stopped = False
        self.recentProgress: list[Progress] = []

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": len(self.recentProgress) % 2 == 0}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        assert timeout > 0
        written = sum(one.numInputRows for one in self.recentProgress)
        self.recentProgress.append(Progress(self._producer.statistics.sent - written))
        return False

    def stop(self) -> None:
        self.is_stopped = True


@dataclass
class HandClock:
    now: int = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


@pytest.fixture
def producer() -> Iterator[Producer]:
    with embedded.start() as cluster, Producer("shop", nameserver=cluster.nameserver) as producer:
        yield producer


def test_all_events_are_sent_and_waited_for(producer: Producer) -> None:
    happened = [event for event in events(40) if event.state != REMINDER]
    query, reported = Query(producer), list[str]()
    flow = Flow(producer, cast("StreamingQuery", query), SystemClock(), reported.append)
    assert flow.warm_up(happened[0]) >= 0
    flow.produce(happened[1:])
    flow.finish(len(happened))
    assert query.is_stopped
    assert flow.written == producer.statistics.sent == len(happened)
    assert [flow.samples[0].sent, flow.samples[-1].sent] == [1, len(happened)]
    assert reported[-1].endswith(f"{len(happened)} sent {len(happened):>10,} in Parquet")


def test_a_query_is_not_stopped_within_a_trigger(producer: Producer) -> None:
    query = Query(producer)
    flow = Flow(producer, cast("StreamingQuery", query), SystemClock(), report=lambda _line: None)
    for waits in (1, 2):
        query.awaitTermination(1)
        flow.finish(0)
        assert len(query.recentProgress) % 2 == 1, f"stopped within a trigger, after {waits}"


def test_without_a_query_events_are_sent_all_the_same(producer: Producer) -> None:
    happened, reported = events(40), list[str]()
    flow = Flow(producer, None, SystemClock(), reported.append)
    assert flow.warm_up(happened[0]) == 0
    flow.produce(happened[1:])
    flow.finish(len(happened))
    assert producer.statistics.sent == len(happened)
    assert flow.batches == ()
    assert reported[-1].endswith(f"{len(happened)} sent")


def test_a_query_that_fails_ends_the_flow(producer: Producer) -> None:
    class Failing(Query):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
            raise RuntimeError("the query has failed")

    query = cast("StreamingQuery", Failing(producer))
    flow = Flow(producer, query, SystemClock(), report=lambda _line: None)
    with pytest.raises(RuntimeError, match="the query has failed"):
        flow.produce(events(3))


def test_waiting_for_a_stream_that_writes_nothing_ends(producer: Producer) -> None:
    class Idle(Query):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
            clock.now += 50_000
            return False

    clock = HandClock()
    query = cast("StreamingQuery", Idle(producer))
    flow = Flow(producer, query, clock, report=lambda _line: None)
    with pytest.raises(OrbitError, match="the stream wrote nothing within 150 s"):
        flow.warm_up(events(1)[0])
