import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer.assignment.strategies import (
    Average,
    AverageByCircle,
    Config,
    ConsistentHash,
    MachineRoom,
    Nearby,
    by_name,
    in_java_order,
)
from orbitmq.client.consumer.settings import STRATEGY_NAMES, Strategy
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from tests.architecture.sources import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/allocations.json").read_text())["cases"]


def room(name: str) -> str:
    return name.partition("@")[0]


def strategy_of(case: dict[str, Any]) -> Strategy:
    made: dict[str, Callable[[], Strategy]] = {
        "AVG": Average,
        "AVG_BY_CIRCLE": AverageByCircle,
        "CONSISTENT_HASH": lambda: ConsistentHash(case["virtual_nodes"]),
        "MACHINE_ROOM": lambda: MachineRoom(frozenset(case["consumer_idcs"])),
        "MACHINE_ROOM_NEARBY-AVG": lambda: Nearby(Average(), room, room),
    }
    return made[case["strategy"]]()


def queues_of(case: dict[str, Any]) -> list[MessageQueue]:
    texts = case.get("mq_all_sorted") or [
        f"broker-{chr(ord('a') + broker)}:{number}"
        for broker in range(case["brokers"])
        for number in range(case["queues_per_broker"])
    ]
    parts = (text.rpartition(":") for text in texts)
    return [MessageQueue(case.get("topic", "T"), name, int(number)) for name, _, number in parts]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['strategy']}")
def test_every_table_is_javas(case: dict[str, Any]) -> None:
    strategy, queues = strategy_of(case), queues_of(case)
    assert strategy.name == case["strategy"]
    given = {
        client: [
            f"{queue.broker_name}:{queue.queue_id}"
            for queue in strategy.assign("g", client, queues, case["cids"])
        ]
        for client in case["cids"]
    }
    assert given == case["result"]


names = st.text("abc@-19", min_size=1, max_size=8)
all_queues = st.lists(
    st.builds(MessageQueue, st.just("orders"), names, st.integers(0, 7)),
    unique=True,
    max_size=40,
).map(sorted)
all_clients = st.lists(names, unique=True, min_size=1, max_size=12).map(in_java_order)
sharing = st.sampled_from(
    [
        Average(),
        AverageByCircle(),
        ConsistentHash(3),
        Nearby(Average(), lambda name: name[0], lambda name: name[0]),
        Nearby(ConsistentHash(2), lambda name: name[0], lambda name: name[-1]),
    ]
)


@given(strategy=sharing, queues=all_queues, clients=all_clients)
def test_each_queue_has_exactly_one_member(
    strategy: Strategy, queues: list[MessageQueue], clients: list[str]
) -> None:
    shares = [strategy.assign("g", client, queues, clients) for client in clients]
    assert sorted(queue for share in shares for queue in share) == queues


@given(queues=all_queues, clients=all_clients)
def test_averages_differ_by_one_at_most(queues: list[MessageQueue], clients: list[str]) -> None:
    for strategy in (Average(), AverageByCircle()):
        sizes = [len(strategy.assign("g", client, queues, clients)) for client in clients]
        assert max(sizes) - min(sizes) <= 1


@given(queues=all_queues, clients=all_clients)
def test_a_member_that_leaves_a_ring_moves_only_its_own_queues(
    queues: list[MessageQueue], clients: list[str]
) -> None:
    ring = ConsistentHash()
    for client in clients[1:]:
        before = set(ring.assign("g", client, queues, clients))
        assert before <= set(ring.assign("g", client, queues, clients[1:]))


@pytest.mark.parametrize("broker", ["room2@b", "room1", "room1@", "room1@b@c", "@b"])
def test_brokers_of_other_rooms_and_without_a_room_have_no_member(broker: str) -> None:
    here = [MessageQueue("orders", "room1@a", number) for number in range(3)]
    strategy = MachineRoom(frozenset({"room1"}))
    queues = sorted([*here, MessageQueue("orders", broker, 0)])
    shares = [strategy.assign("g", client, queues, ["c1", "c2"]) for client in ("c1", "c2")]
    assert shares == [[here[0], here[2]], [here[1]]]


@pytest.mark.parametrize("strategy", [Average(), AverageByCircle(), Nearby(Average(), room, room)])
def test_a_client_that_brokers_do_not_list_gets_nothing(strategy: Strategy) -> None:
    queues = [MessageQueue("orders", "a", 0)]
    assert strategy.assign("g", "me", queues, ["another"]) == []
    assert MachineRoom(frozenset({"a"})).assign("g", "me", queues, ["another"]) == []


def test_a_config_gives_its_queues_of_the_topic() -> None:
    mine, other = MessageQueue("orders", "a", 1), MessageQueue("bills", "a", 1)
    queues = [MessageQueue("orders", "a", number) for number in range(3)]
    assert Config((other, mine)).assign("g", "me", queues, ["x"]) == [mine]


def test_a_room_without_a_name_is_an_error() -> None:
    nearby = Nearby(Average(), lambda _broker: "", lambda _client: "r")
    with pytest.raises(ValueError, match="the room of MessageQueue"):
        nearby.assign("g", "me", [MessageQueue("orders", "a", 0)], ["me"])


def test_names_of_settings_have_strategies() -> None:
    assert [by_name(name).name for name in STRATEGY_NAMES] == [
        "AVG",
        "AVG_BY_CIRCLE",
        "CONSISTENT_HASH",
    ]
    mine = ConsistentHash(20)
    assert by_name(mine) is mine


@pytest.mark.parametrize("virtual_nodes", [0, -1, 2.5, "3"])
def test_a_ring_needs_nodes(virtual_nodes: Any) -> None:
    with pytest.raises(InvalidInput, match="virtual_nodes"):
        ConsistentHash(virtual_nodes)


def test_texts_are_sorted_by_code_units_as_in_java() -> None:
    assert in_java_order(["\uff5e", "\U0001f600", "a"]) == ["a", "\U0001f600", "\uff5e"]
