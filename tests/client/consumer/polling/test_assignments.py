"""Changes of the assignment: what happens in which order."""

import asyncio
import logging

import pytest

from orbitmq.client.consumer.polling.assignments import AssignmentListener, Assignments, Queues
from orbitmq.client.user_code import UserCode
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from tests.client.consumer.polling.parts import QUEUES

A, B, C, _ = QUEUES


class Played:
    """An Assignments with queues that are released after a second.

    Attributes:
        log: what happened.

    """

    def __init__(self, listener: AssignmentListener | None = None) -> None:
        self.log: list[tuple[object, ...]] = []
        self.owned: Queues = frozenset()
        self.assignments = Assignments(UserCode(InlineWorkers()), listener or self.listen)
        self.task = asyncio.create_task(self.assignments.run(self.assign))

    async def listen(self, given: Queues, taken: Queues) -> None:
        self.log.append(("listener", sorted(given), sorted(taken)))

    def assign(self, _topic: str, queues: Queues) -> None:
        self.log.append(("assign", sorted(queues)))
        for queue in sorted(self.owned - queues):
            asyncio.get_running_loop().call_later(1, self.release, queue)
        self.owned = queues

    def release(self, queue: MessageQueue) -> None:
        self.log.append(("released", queue))
        self.assignments.released(queue)

    async def change(self, *queues: MessageQueue) -> None:
        self.assignments.change("orders", frozenset(queues))
        await self.assignments.settled()


def test_the_listener_is_called_before_new_queues_are_read_and_after_lost_ones_are_released() -> (
    None
):
    async def main(_clock: VirtualClock) -> None:
        played = Played()
        await played.change(A, B)
        assert played.log == [("listener", [A, B], []), ("assign", [A, B])]
        played.log.clear()
        await played.change(B, C)
        assert played.log == [
            ("assign", [B]),
            ("released", A),
            ("listener", [C], [A]),
            ("assign", [B, C]),
        ]
        assert played.assignments.queues == {B, C}
        played.log.clear()
        await played.change(B, C)
        assert played.log == []

    run_virtual(main)


def test_of_changes_that_wait_the_newest_counts() -> None:
    async def main(_clock: VirtualClock) -> None:
        played = Played()
        played.assignments.change("orders", frozenset({A}))
        await played.change(B)
        assert played.log == [("listener", [B], []), ("assign", [B])]

    run_virtual(main)


def test_topics_are_separate() -> None:
    other = MessageQueue("returns", "broker-a", 0)

    async def main(_clock: VirtualClock) -> None:
        played = Played()
        await played.change(A)
        played.assignments.change("returns", frozenset({other}))
        await played.assignments.settled()
        assert played.assignments.queues == {A, other}
        await played.change()
        assert played.assignments.queues == {other}

    run_virtual(main)


def test_the_listener_sees_the_new_assignment() -> None:
    async def main(_clock: VirtualClock) -> None:
        seen: list[Queues] = []

        def listen(_given: Queues, _taken: Queues) -> None:
            seen.append(played.assignments.queues)

        played = Played(listen)
        await played.change(A)
        await played.change(B)
        assert seen == [{A}, {B}]

    run_virtual(main)


def test_an_error_of_the_listener_is_logged_and_the_queues_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_given: Queues, _taken: Queues) -> None:
        raise ValueError("no")

    async def main(_clock: VirtualClock) -> None:
        played = Played(fail)
        await played.change(A)
        assert played.log == [("assign", [A])]

    with caplog.at_level(logging.ERROR, "orbitmq.client"):
        run_virtual(main)
    assert "the listener of assignments raised an error" in caplog.text
