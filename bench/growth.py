"""How the cost of a send grows with the broker: ``python -m bench --only growth``.

The same number of messages is sent to a small broker and to large ones; the row is the cost at the
largest size divided by that at the smallest. Bodies have 100 bytes, so that ten million messages
take 4 GB.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from bench.flood import Place, flood, frames_of
from bench.load import KILOBYTE, Passed, Target, create_topics
from bench.measure import Child
from bench.parties import Ours
from bench.rounds import Plan, Result, Round, summed_up

__all__ = ["AXES", "Shape", "measured"]

TOPIC: Final = "bench"
BODY: Final = KILOBYTE[:100]
IN_FLIGHT: Final = 64
CHUNK: Final = 50_000
QUEUES_OF_A_TOPIC: Final = 100


class Shape(NamedTuple):
    """What a broker has when it is measured."""

    topics: int = 1
    queues: int = 4
    """Of each topic."""
    connections: int = 1
    stored: int = 0

    def place(self, topic: str) -> Place:
        """Return where messages go: to each queue of each topic in turn."""

        def place(number: int) -> tuple[str, int]:
            at = number % (self.topics * self.queues)
            return f"{topic}-{at // self.queues}", at % self.queues

        return place


AXES: Final[Mapping[str, Callable[[int], Shape]]] = {
    "messages": lambda size: Shape(stored=size),
    "queues": lambda size: Shape(-(-size // QUEUES_OF_A_TOPIC), min(size, QUEUES_OF_A_TOPIC)),
    "connections": lambda size: Shape(connections=size),
    "topics": lambda size: Shape(topics=size, queues=1),
}
"""How a broker grows → its shape by size."""


def measured(directory: Path, plan: Plan) -> Iterator[Result]:
    """Measure each axis; the brokers of all its sizes run at once, and are measured in turn."""
    for name, shape_of in AXES.items():
        shapes = {size: shape_of(size) for size in plan.growth[name]}
        found: dict[int, list[Round]] = {size: [] for size in shapes}
        with Child() as child, ExitStack() as stack:
            targets = {
                size: stack.enter_context(Ours(directory / f"{name}-{size}")).target(TOPIC)
                for size in shapes
            }
            for size, shape in shapes.items():
                child.run(_prepare, targets[size], shape, plan.messages)
            for _ in range(plan.rounds):
                for size, shape in shapes.items():
                    found[size].append(child.run(_round, targets[size], shape, plan.messages))
        yield grown(name, found)


def grown(name: str, found: Mapping[int, list[Round]]) -> Result:
    """Return the largest size compared with the smallest, and the cost at each size.

    >>> grown("topics", {1: [Round(2.0)], 9: [Round(3.0)]}).ratio.median
    1.5
    """
    result = summed_up(f"growth.{name}", found[max(found)], found[min(found)])
    points = tuple((size, median(one.cost for one in found[size])) for size in sorted(found))
    return msgspec.structs.replace(result, points=points)


def _prepare(target: Target, shape: Shape, messages: int) -> None:
    names = [f"{target.topic}-{number}" for number in range(shape.topics)]
    create_topics(target, names, shape.queues)
    for begin in range(0, shape.stored, CHUNK):
        _send(target, Shape(), min(CHUNK, shape.stored - begin))
    _send(target, shape, messages)  # so that each queue and connection has been used


def _round(target: Target, shape: Shape, messages: int) -> Round:
    passed = _send(target, shape, messages)
    return Round(passed.cpu_us, passed.per_second)


def _send(target: Target, shape: Shape, messages: int) -> Passed:
    frames = frames_of("keyed", shape.place(target.topic), messages, BODY)
    return flood(target, frames, connections=shape.connections, in_flight=IN_FLIGHT)
