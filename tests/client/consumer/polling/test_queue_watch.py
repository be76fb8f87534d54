"""Listeners of the queues of a topic."""

import asyncio
import logging

import pytest

from orbitmq.client.consumer.polling.assignments import Queues
from orbitmq.client.consumer.polling.queue_watch import QueueWatch
from orbitmq.client.user_code import UserCode
from orbitmq.errors import NameserversFailed, OrbitError
from orbitmq.testing.clocks import InlineWorkers
from tests.client.consumer.polling.parts import QUEUES

A, B, *_ = QUEUES


class Topic:
    """A topic whose queues change.

    Attributes:
        queues: its queues, or the error of looking them up.

    """

    def __init__(self) -> None:
        self.queues: Queues | OrbitError = frozenset({A})

    async def look_up(self, _topic: str) -> Queues:
        if isinstance(self.queues, OrbitError):
            raise self.queues
        return self.queues


def test_a_listener_is_called_when_the_queues_differ(caplog: pytest.LogCaptureFixture) -> None:
    topic, seen = Topic(), list[tuple[str, Queues]]()
    watch = QueueWatch(topic.look_up, UserCode(InlineWorkers()))

    async def main() -> None:
        await watch.add("orders", lambda name, queues: seen.append((name, queues)))
        await watch.check()
        assert seen == []
        topic.queues = frozenset({A, B})
        await watch.check()
        await watch.check()
        topic.queues = NameserversFailed("no nameserver answered", answers={})
        await watch.check()

    with caplog.at_level(logging.WARNING, "orbitmq.client"):
        asyncio.run(main())
    assert seen == [("orders", frozenset({A, B}))]
    assert "the queues of orders can't be checked for changes: no nameserver" in caplog.text


def test_an_error_of_a_listener_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    topic = Topic()
    watch = QueueWatch(topic.look_up, UserCode(InlineWorkers()))

    async def fail(_topic: str, _queues: Queues) -> None:
        raise ValueError("no")

    async def main() -> None:
        await watch.add("orders", fail)
        topic.queues = frozenset()
        await watch.check()

    with caplog.at_level(logging.ERROR, "orbitmq.client"):
        asyncio.run(main())
    assert "the listener of the queues of orders raised an error" in caplog.text
