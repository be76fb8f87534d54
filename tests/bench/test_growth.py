import pytest

from bench import growth
from bench.growth import AXES, Shape, grown
from bench.rounds import Round
from orbitmq.embedded import RunningCluster
from tests.bench.conftest import target_of

SIZES = {"messages": 50, "queues": 120, "connections": 9, "topics": 3}


@pytest.mark.parametrize("axis", AXES)
def test_a_broker_is_grown_and_measured(cluster: RunningCluster, axis: str) -> None:
    target, shape = target_of(cluster, axis), AXES[axis](SIZES[axis])
    growth._prepare(target, shape, 30)
    assert growth._round(target, shape, 30).cost > 0
    first = cluster.messages(f"{axis}-0")
    stored = shape.stored + 60 if shape.topics == 1 else 0
    assert len(first) >= max(stored, 1)


def test_messages_go_to_each_queue_of_each_topic() -> None:
    place = Shape(topics=3, queues=2).place("t")
    assert {place(number) for number in range(6)} == {
        (f"t-{topic}", queue) for topic in range(3) for queue in range(2)
    }


def test_the_largest_is_compared_with_the_smallest() -> None:
    result = grown("topics", {1: [Round(2.0)], 10: [Round(2.5)], 100: [Round(5.0)]})
    assert result.name == "growth.topics"
    assert result.ratio.median == 2.5
    assert result.points == ((1, 2.0), (10, 2.5), (100, 5.0))
