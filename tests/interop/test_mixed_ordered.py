"""Ordered members of Java and ours in one group: each queue stays in order, whoever has it.

``ORBITMQ_SOAK=1`` also kills members: their locks keep the queues for a minute.
"""

import contextlib
import itertools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.errors import OrbitError
from tests.client.consumer.member_processes import Member, member
from tests.interop.clients import Consumer
from tests.interop.java import Java
from tests.interop.our_servers import a_small_cluster
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
QUEUES = 8
PACE_S = 0.005


class Taken(NamedTuple):
    """A delivery of a message."""

    at_ns: int
    member: str
    offset: int


class Place(NamedTuple):
    """A team on a cluster, and how to restart that; Java's is not ours to test."""

    team: Team
    restart: Callable[[], None] | None


@pytest.fixture(params=["ours", "java's"])
def place(request: pytest.FixtureRequest, java_540: Java, tmp_path: Path) -> Iterator[Place]:
    """Java clients on a cluster of ours in a process of its own, and on Java's."""
    if request.param == "java's":
        yield Place(Team.on_java(java_540, request.getfixturevalue("java_cluster_540")), None)
        return
    cluster, nameserver = a_small_cluster(tmp_path)
    with cluster:

        def restart() -> None:
            cluster.stop()
            cluster.start()

        yield Place(Team(java_540, str(nameserver), [str(cluster.address)]), restart)


class Load:
    """Sends to each queue in turn, on a thread of its own; notes what was acknowledged."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.acknowledged: dict[int, set[int]] = defaultdict(set)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _send(self) -> None:
        queues = itertools.cycle(self._producer.queues(self._topic))
        while not self._is_over.wait(PACE_S):
            with contextlib.suppress(OrbitError):  # the broker restarts: not acknowledged
                receipt = self._producer.send(Message(self._topic, b"."), queue=next(queues))
                self.acknowledged[receipt.queue.queue_id].add(receipt.queue_offset)


class Group:
    """The members of a group, and what they took of each queue."""

    def __init__(self, team: Team, topic: str) -> None:
        self._team = team
        self._topic = topic
        self._taken: dict[str, Callable[[], list[tuple[int, int, int]]]] = {}
        self._alive: set[str] = set()

    @contextlib.contextmanager
    def java(self, name: str) -> Iterator[Consumer]:
        with self._team.consumer(self._topic, kind="orderly") as consumer:
            self._taken[name] = lambda: [
                (one.taken_ns, one.queue_id, one.queue_offset) for one in consumer.received()
            ]
            with self._joined(name):
                yield consumer

    @contextlib.contextmanager
    def python(self, name: str) -> Iterator[Member]:
        group = group_of(self._topic)
        # Java's member may take all after the restart; ours comes back after this interval.
        options = ("--ordered", "--lock-interval-ms", "3000")
        with member(self._team.nameserver, group, self._topic, *options) as one:
            self._taken[name] = lambda: [
                (each.began_ns, int(each.queue.rpartition(":")[2]), each.offset)
                for each in list(one.consumed)
            ]
            with self._joined(name):
                yield one

    @contextlib.contextmanager
    def _joined(self, name: str) -> Iterator[None]:
        self._alive.add(name)
        try:
            yield
        finally:
            self._alive.discard(name)

    def settled(self) -> None:
        """Return when each member has taken messages since now."""
        now_ns = time.monotonic_ns()

        def is_settled() -> bool:
            newest = [max(self._taken[name](), default=(0, 0, 0)) for name in self._alive]
            return all(at_ns > now_ns for at_ns, _, _ in newest)

        until(is_settled, what=f"{self._alive} all take messages", seconds=90)

    def by_queue(self) -> dict[int, list[Taken]]:
        """Return the deliveries of each queue, the first one first."""
        found: dict[int, list[Taken]] = defaultdict(list)
        for name, taken in self._taken.items():
            for at_ns, queue, offset in taken():
                found[queue].append(Taken(at_ns, name, offset))
        return {queue: sorted(taken) for queue, taken in found.items()}

    def consumed(self, sent: dict[int, set[int]]) -> None:
        """Return when all that was sent is consumed."""

        def missing() -> dict[int, set[int]]:
            taken = self.by_queue()
            return {
                queue: left
                for queue, offsets in sent.items()
                if (left := offsets - {one.offset for one in taken.get(queue, ())})
            }

        try:
            until(lambda: not missing(), what="all is consumed", seconds=90)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {missing()}") from None

    def check(self, *, handovers_max: int) -> None:
        """Check that no queue has a gap, and that members did not take turns."""
        for queue, taken in self.by_queue().items():
            reached, handovers, before = -1, 0, taken[0]
            for one in taken:
                assert one.offset <= reached + 1, f"queue {queue} has a gap at {one}: {taken}"
                handovers += before.member != one.member
                reached, before = max(reached, one.offset), one
            assert handovers <= handovers_max, f"queue {queue} went to and fro: {taken}"


def test_each_queue_stays_in_order(place: Place) -> None:
    topic = place.team.topic("mixed-ordered", queues=QUEUES)
    group = Group(place.team, topic)
    with contextlib.ExitStack() as all_:
        producer = all_.enter_context(Producer("senders", nameserver=place.team.nameserver))
        load = all_.enter_context(Load(producer, topic))
        java, python = contextlib.ExitStack(), contextlib.ExitStack()
        all_.enter_context(java).enter_context(group.java("java-0"))
        all_.enter_context(group.java("java-1"))
        first = all_.enter_context(python).enter_context(group.python("python-0"))
        group.settled()
        second = all_.enter_context(contextlib.ExitStack())
        killed = second.enter_context(group.python("python-1"))
        group.settled()
        java.close()
        group.settled()
        first.stop()
        python.close()
        group.settled()
        if place.restart is not None:
            place.restart()
            group.settled()
        if SOAK:
            killed.kill()
            second.close()
            group.settled()
        load.end()
        group.consumed(load.acknowledged)
    group.check(handovers_max=16)  # seven changes; in a restart members come back one by one
