"""Compares the four fault tolerance modes while one broker of three fails: ``make bench``.

A simulation of sends in virtual time, with the producer's own code for health, queue choice and
retries. For each mode and failure: the share of attempts that goes to the failing broker, what that
costs the sends, and how long after its recovery the broker gets half of its share again.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import quantiles
from typing import Final

import msgspec

from bench.measure import Cell, table, write
from orbitmq.client.producer.health.choice import health_of
from orbitmq.client.producer.health.health import Health, outcome_of
from orbitmq.client.producer.sending.queue_choice import Cursor, choose
from orbitmq.client.producer.sending.retry_plan import Again, GiveUp, RetryPlan
from orbitmq.client.settings import FaultTolerance, ProducerSettings
from orbitmq.errors import ConnectFailed, OrbitError, RequestTimeout
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from orbitmq.randomness import SeededRandomness

BROKERS: Final = ("broker-a", "broker-b", "broker-c")
ILL: Final = BROKERS[0]
QUEUES: Final = tuple(MessageQueue("orders", broker, at) for broker in BROKERS for at in range(4))
SENDERS: Final = 8

Answer = tuple[int, OrbitError | None]
"""The duration of an attempt in ms, and its error; None if the message is stored."""

Illness = Callable[[int, int], Answer | None]
"""Returns the result of an attempt at a time, with a timeout; None while the broker is healthy."""


def _slow(_now_ms: int, timeout_ms: int) -> Answer:
    return (
        (800, None)
        if timeout_ms > 800
        else (timeout_ms, RequestTimeout("too slow", timeout_ms=timeout_ms))
    )


def _dead(_now_ms: int, _timeout_ms: int) -> Answer:
    return 1, ConnectFailed("connection refused")


def _silent(_now_ms: int, timeout_ms: int) -> Answer:
    return timeout_ms, RequestTimeout("no answer", timeout_ms=timeout_ms)


def _flapping(now_ms: int, timeout_ms: int) -> Answer | None:
    return _dead(now_ms, timeout_ms) if now_ms // 1_000 % 2 else None


ILLNESSES: Final[Mapping[str, Illness]] = {
    "slow": _slow,
    "dead": _dead,
    "silent": _silent,
    "flapping": _flapping,
}


class Course(msgspec.Struct, frozen=True):
    """The times of one run, in milliseconds: pace of sends, begin and end of the failure."""

    every_ms: int = 20
    ill_ms: int = 10_000
    cured_ms: int = 34_000
    end_ms: int = 700_000
    seed: int = 1


class Report(msgspec.Struct, frozen=True):
    """The result of a mode for a failure.

    Attributes:
        share: the share of attempts during the failure that went to the broker; a third is fair.
        mean_ms, p99_ms: the duration of sends begun during the failure, retries included.
        failed: sends that failed.
        recovery_ms: from the recovery until the broker had half of its fair share for a second;
            None if that did not happen.
    """

    share: float
    mean_ms: float
    p99_ms: float
    failed: int
    recovery_ms: int | None


class _Send(msgspec.Struct):
    """A send in flight."""

    plan: RetryPlan
    turn: Cursor
    began_ms: int
    queue: MessageQueue = QUEUES[0]
    try_ms: int = 0
    error: OrbitError | None = None
    again: Again | None = None


class _Try(msgspec.Struct, frozen=True):
    at_ms: int
    broker: str


class Simulation:
    """Simulates sends to three brokers of which one fails."""

    def __init__(self, way: FaultTolerance, illness: Illness, course: Course) -> None:
        self._settings = ProducerSettings("billing", fault_tolerance=way)
        self._health: Health = health_of(self._settings)
        self._illness = illness
        self._course = course
        self._chance = SeededRandomness(course.seed)
        self._turns = [Cursor(self._chance.below(len(QUEUES))) for _ in range(SENDERS)]
        # (time, number, callback): attempts that begin, and attempts that end
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = 0
        self._tries: list[_Try] = []
        self._took: list[tuple[int, int]] = []  # when a send began, and its duration
        self._failed = 0

    def run(self) -> Report:
        """Run the simulation and return its result."""
        for number, now_ms in enumerate(range(0, self._course.end_ms, self._course.every_ms)):
            plan = RetryPlan(self._settings, self._chance, began_ms=now_ms)
            send = _Send(plan, self._turns[number % SENDERS], now_ms)
            self._at(now_ms, partial(self._begin, send))
        while self._events:
            now_ms, _, happen = heapq.heappop(self._events)
            happen(now_ms)
        return self._report()

    def _at(self, when_ms: int, happen: Callable[[int], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when_ms, self._number, happen))

    def _begin(self, send: _Send, now_ms: int) -> None:
        avoid = send.again.avoid if send.again else None
        send.queue = choose(QUEUES, send.turn, self._health, now_ms, avoid)
        broker = send.queue.broker_name
        wait_ms = send.plan.wait_ms(broker, now_ms) if send.again else 0
        self._at(now_ms + wait_ms, partial(self._leave, send))

    def _leave(self, send: _Send, now_ms: int) -> None:
        broker = send.queue.broker_name
        probe = self._health.sent(broker, now_ms)
        self._tries.append(_Try(now_ms, broker))
        send.try_ms = now_ms
        took_ms, send.error = self._answer(
            broker, now_ms, send.plan.try_timeout_ms(now_ms, probe=probe)
        )
        self._at(now_ms + took_ms, partial(self._end, send))

    def _answer(self, broker: str, now_ms: int, timeout_ms: int) -> Answer:
        if broker == ILL and self._course.ill_ms <= now_ms < self._course.cured_ms:
            answer = self._illness(now_ms, timeout_ms)
            if answer is not None:
                return answer
        return 1 + self._chance.below(5), None

    def _end(self, send: _Send, now_ms: int) -> None:
        outcome = outcome_of(send.error)
        self._health.learn(send.queue.broker_name, outcome, now_ms - send.try_ms, now_ms)
        if send.error is None:
            step = send.plan.stored(_receipt(send.queue), send.try_ms, now_ms)
        else:
            step = send.plan.failed(send.error, send.queue, send.try_ms, now_ms)
        if isinstance(step, Again):
            send.again = step
            self._begin(send, now_ms)
            return
        self._took.append((send.began_ms, now_ms - send.began_ms))
        self._failed += isinstance(step, GiveUp)

    def _report(self) -> Report:
        course = self._course
        ill = [one for one in self._tries if course.ill_ms <= one.at_ms < course.cured_ms]
        took = [ms for began, ms in self._took if course.ill_ms <= began < course.cured_ms]
        return Report(
            share=round(sum(one.broker == ILL for one in ill) / len(ill), 4),
            mean_ms=round(sum(took) / len(took), 1),
            p99_ms=round(quantiles(took, n=100)[-1], 1),
            failed=self._failed,
            recovery_ms=next(self._recovered(), None),
        )

    def _recovered(self) -> Iterator[int]:
        """Yield the ends of seconds after the recovery in which the broker had half its share."""
        fair = 1_000 / self._course.every_ms / len(BROKERS)
        seconds: dict[int, int] = {}
        for one in self._tries:
            if one.broker == ILL and one.at_ms >= self._course.cured_ms:
                second = (one.at_ms - self._course.cured_ms) // 1_000
                seconds[second] = seconds.get(second, 0) + 1
        yield from ((at + 1) * 1_000 for at in sorted(seconds) if seconds[at] >= fair / 2)


def _receipt(queue: MessageQueue) -> SendReceipt:
    return SendReceipt(
        status=SendStatus.SEND_OK, message_id="", offset_message_id="", queue=queue, queue_offset=0
    )


def compare(course: Course) -> dict[str, dict[str, Report]]:
    """Return the results by failure and mode."""
    return {
        name: {way.value: Simulation(way, illness, course).run() for way in FaultTolerance}
        for name, illness in ILLNESSES.items()
    }


def main() -> None:
    """Print the table, and write it to ``bench/results/health.json``."""
    course = Course()
    results = compare(course)
    rows: list[list[Cell]] = []
    for illness, reports in results.items():
        for way, report in reports.items():
            recovery_s = None if report.recovery_ms is None else report.recovery_ms / 1_000
            what, share = f"{illness}, {way}", f"{report.share:.2%}"
            rows.append([what, share, report.mean_ms, report.p99_ms, report.failed, recovery_s])
    head = ["one broker of three is", "its share", "mean ms", "p99 ms", "failed", "back after s"]
    print(table(head, rows))
    write("health", {"course": msgspec.to_builtins(course), "ways": msgspec.to_builtins(results)})


if __name__ == "__main__":
    main()
