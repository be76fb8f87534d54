"""Queues divided among consumers."""

from collections.abc import Iterable

import pytest

from orbitmq.broker.clients.assignment import STRATEGIES
from orbitmq.message.model import MessageQueue


def shares(strategy: str, queues: int, consumers: int) -> list[list[int]]:
    all_queues = [MessageQueue("orders", "broker-a", number) for number in range(queues)]
    dealt = (STRATEGIES[strategy](all_queues, place, consumers) for place in range(consumers))
    return [[queue.queue_id for queue in share] for share in dealt]


@pytest.mark.parametrize(
    ("strategy", "queues", "expected"),
    [
        ("AVG", 7, [[0, 1, 2], [3, 4], [5, 6]]),
        ("AVG", 3, [[0], [1], [2]]),
        ("AVG", 2, [[0], [1], []]),
        ("AVG_BY_CIRCLE", 7, [[0, 3, 6], [1, 4], [2, 5]]),
        ("AVG_BY_CIRCLE", 2, [[0], [1], []]),
    ],
)
def test_queues_are_dealt_as_in_java(
    strategy: str, queues: int, expected: Iterable[list[int]]
) -> None:
    assert shares(strategy, queues, 3) == expected
