"""What is done with one topic from a shell."""

import pytest

from orbitmq.cli.operating.topics import (
    TopicRates,
    rates_lines,
)
from tests.cli.operating.conftest import Shop


def test_a_topic_is_shown(shop: Shop) -> None:
    lines = shop.printed("topic show orders").splitlines()
    assert lines[:2] == ["Topic      orders", "On         broker-a: 2 to read, 2 to write, rw"]
    assert lines[2].startswith("Holds      8 messages in 2 queues; ")
    assert [line.split()[:4] for line in lines[5:]] == [
        ["broker-a/0", "0", "4", "4"],
        ["broker-a/1", "0", "4", "4"],
    ]
    found = shop.json("topic show orders")
    assert found["settings"]["broker-a"]["write_queue_nums"] == 2
    assert [one["max_offset"] for one in found["queues"]] == [4, 4]


def test_a_topic_is_changed_and_deleted(shop: Shop) -> None:
    shop.printed("topic create parcels --queues 2")
    line = "topic update parcels --write-queues 1 --perm r --ordered --attribute message.type=FIFO"
    assert shop.printed(line) == "parcels is changed on broker-a\n"
    shown = shop.printed("topic show parcels").splitlines()[1]
    assert shown == "On         broker-a: 2 to read, 1 to write, r, ordered, message.type=FIFO"
    shop.printed("topic update parcels --attribute message.type= --no-ordered")
    shown = shop.printed("topic show parcels").splitlines()[1]
    assert shown == "On         broker-a: 2 to read, 1 to write, r"
    assert shop.printed("topic delete parcels --cluster DefaultCluster") == (
        "parcels is deleted from DefaultCluster\n"
    )
    assert shop.ended("topic show parcels")[0] == 2


def test_rates_and_lag_of_topics(shop: Shop) -> None:
    (one,) = [one for one in shop.json("topic stats orders") if one["group"] == "billing"]
    assert (one["topic"], one["lag"]) == ("orders", 3)
    assert ["orders", "billing", "3"] in [
        row.split()[:3] for row in shop.printed("topic stats").splitlines()
    ]
    assert all(one["in_day"] or one["out_day"] for one in shop.json("topic stats --active"))


def test_rates_fit_a_terminal() -> None:
    rates = TopicRates(
        topic="a-rather-long-topic-of-orders",
        group="the-rather-long-group-of-billing",
        lag=12_345_678,
        in_tps=12_345.6,
        out_tps=12_345.6,
        in_day=987_654_321,
        out_day=987_654_321,
    )
    idle = TopicRates(topic="t", group=None, lag=None, in_tps=0, out_tps=0, in_day=0, out_day=0)
    lines = rates_lines([rates, idle])
    assert max(map(len, lines)) == 80
    assert lines[2].split() == ["t", "-", "-", "0.0", "0.0", "0", "0"]


def test_queues_are_shared_as_consumers_would(shop: Shop) -> None:
    found = shop.json("topic allocate orders b a c")
    assert found == {"a": ["broker-a/0"], "b": ["broker-a/1"], "c": []}
    lines = shop.printed("topic allocate orders a --strategy consistent_hash").splitlines()
    assert lines[1].split() == ["a", "2", "broker-a/0,", "broker-a/1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topic show nowhere", "topic nowhere is missing"),
        ("topic update orders", "no setting is given"),
        ("topic update nowhere --perm r", "topic nowhere is missing"),
        ("topic delete nowhere", "topic nowhere is missing"),
        ("topic stats nowhere", "topic nowhere is missing"),
        ("topic allocate orders", "CLIENT"),
        ("topic probe orders --count 0", "--count is 0"),
        ("topic probe nowhere", "topic nowhere is missing"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
