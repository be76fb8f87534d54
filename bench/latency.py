"""The latency of a send at a steady rate: ``python -m bench --only latency collector``.

Open loop: messages go out on a schedule, whatever the broker does. One in ten has a delay level.
Segments and index files are small, so that they roll often. Full segments are made to look old, so
that retention deletes them each time it looks. The latency of a send is the time from its write to
its response.
"""

import asyncio
import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import ceil
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

from bench.flood import Frames, Link, Load, frames_of, spread_over
from bench.load import Target, is_stored
from bench.measure import Child
from bench.parties import JAVA, OURS, Ours, Settings, both
from bench.rounds import Plan, Result, Round, alternate, summed_up
from orbitmq.net.event_loop import new_event_loop
from orbitmq.wire.frame import Frame

__all__ = ["Latency", "collected", "measured", "paced", "percentiles"]

PER_SECOND: Final = 2_000
WARM_S: Final = 2.0
TOPIC: Final = "bench"
TICK_S: Final = 0.001
BUSY: Final[Settings] = {
    "mappedFileSizeCommitLog": 16 * 1024**2,  # a new segment each six seconds
    "maxHashSlotNum": 100_000,
    "maxIndexNum": 100_001,  # a new index file each 25 seconds
    "fileReservedTime": 1,  # hours, the least
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}
"""Settings with which files roll and retention deletes all the time."""
OLD_S: Final = 2 * 3600
AGE_EACH_S: Final = 1.0
IN_USE: Final = 2
"""The newest segments: the one being filled, and the next one, which is prepared early."""
COLLECTORS: Final = ("on", "frozen", "tuned")
_COLLECTOR: Final = Path(__file__).with_name("collector.py")


class Latency(NamedTuple):
    """The latencies of one round, in ms."""

    p50: float
    p99: float
    p999: float


def percentiles(seconds: Sequence[float]) -> Latency:
    """Return the percentiles of latencies.

    >>> percentiles([number / 1_000 for number in range(1, 1_001)])
    Latency(p50=500.0, p99=990.0, p999=999.0)
    """
    ordered = sorted(seconds)
    ranks = (ceil(len(ordered) * share / 1000) - 1 for share in (500, 990, 999))
    return Latency(*(ordered[rank] * 1000 for rank in ranks))


class Pace(Load):
    """Sends on a schedule, and notes the latency of each response."""

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self._frames = frames.by_number
        self._written: dict[int, float] = {}
        self.seconds: list[float] = []

    async def run(self, link: Link, per_second: float) -> None:
        """Return when all are stored; raise the first error."""
        order = list(self._frames)
        began, sent = time.perf_counter(), 0
        while sent < len(order) and not self._done.done():
            now = time.perf_counter()
            due = min(len(order), int((now - began) * per_second) + 1)
            for number in order[sent:due]:
                self._written[number] = now
                link.write(self._frames[number])
            sent = due
            await asyncio.sleep(TICK_S)
        await self._done

    def take(self, link: Link, answers: list[Frame]) -> None:
        """Note the latencies; what a busy broker refused is sent again, and its clock runs on."""
        now = time.perf_counter()
        for answer in answers:
            try:
                if is_stored(answer):
                    self.seconds.append(now - self._written[answer.opaque])
                else:
                    link.write(self._frames[answer.opaque])
            except RuntimeError as error:
                self.end(error)
        if len(self.seconds) == len(self._frames):
            self.end()


def paced(
    target: Target, seconds: float, per_second: float = PER_SECOND, kind: str = "some delayed"
) -> Latency:
    """Send at a rate for some seconds; return the latencies."""
    frames = frames_of(kind, spread_over(target.topic), int(seconds * per_second))

    async def measured() -> Latency:
        work = Pace(frames)
        link = await Link.open(target.address, work)
        gc.disable()  # a pause of this process is no latency of the broker
        try:
            await work.run(link, per_second)
        finally:
            gc.enable()
            link.close()
        return percentiles(work.seconds)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())


def age(store: Path) -> None:
    """Make the full segments of a store look older than retention keeps them."""
    segments = sorted((store / "commitlog").iterdir())
    old = time.time() - OLD_S
    for segment in segments[:-IN_USE]:
        with suppress(FileNotFoundError):  # retention has just deleted it
            os.utime(segment, (old, old))


@contextmanager
def aging(stores: Sequence[Path]) -> Iterator[None]:
    """Make full segments look old for as long as the block runs."""
    ended = Event()

    def keep_aging() -> None:
        while not ended.wait(AGE_EACH_S):
            for store in stores:
                age(store)

    thread = Thread(target=keep_aging, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measured(directory: Path, plan: Plan) -> Iterator[Result]:
    """Measure both brokers in turn, on files that they go on filling."""
    with (
        both(directory, BUSY) as parties,
        aging([party.store for party in parties.values()]),
        Child() as child,
    ):
        targets = {name: party.target(TOPIC) for name, party in parties.items()}
        for target in targets.values():
            child.run(paced, target, min(WARM_S, plan.latency_s))
        sides = (
            partial(child.run, paced, targets[OURS], plan.latency_s),
            partial(child.run, paced, targets[JAVA], plan.latency_s),
        )
        ((ours, theirs),) = alternate({"paced": sides}, plan.latency_rounds).values()
    for index, name in enumerate(("p50", "p99", "p99.9")):
        yield summed_up(
            f"latency.{name}",
            [Round(one[index]) for one in ours],
            [Round(one[index]) for one in theirs],
        )


def collected(directory: Path, plan: Plan) -> Iterator[Result]:
    """Measure orbitmq's broker with each setting of the garbage collector, in turn."""
    found: dict[str, list[Round]] = {how: [] for how in COLLECTORS}
    with ExitStack() as stack:
        child = stack.enter_context(Child())
        brokers = {
            how: stack.enter_context(Ours(directory / how, BUSY, (str(_COLLECTOR), how)))
            for how in COLLECTORS
        }
        stack.enter_context(aging([broker.store for broker in brokers.values()]))
        targets = {how: broker.target(TOPIC) for how, broker in brokers.items()}
        for target in targets.values():
            child.run(paced, target, min(WARM_S, plan.collector_s))
        for _ in range(plan.collector_rounds):
            for how, target in targets.items():
                found[how].append(Round(child.run(paced, target, plan.collector_s).p999))
    for how in COLLECTORS[1:]:
        yield summed_up(f"collector.{how}", found[how], found[COLLECTORS[0]])
