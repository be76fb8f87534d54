"""Offsets from a shell."""

import pytest

from orbitmq.cli.operating.offset import QueuePlaces, show_lines
from orbitmq.message.model import MessageQueue
from tests.cli.operating.conftest import Shop
from tests.cli.terminal import utc

SHOWN = """\
QUEUE       BEGIN  END  MESSAGES  AT TIME  COMMITTED     LAST STORED
broker-a/0      3   45        42       10         12  11-15 10:42:09
broker-a/1      0    0         0        0          -               -

42 messages in 2 queues
"""


def test_a_table_of_offsets() -> None:
    first, second = (MessageQueue("orders", "broker-a", number) for number in range(2))
    places = [
        QueuePlaces(
            queue=first, begin=3, end=45, last_stored_ms=1_794_739_329_000, at_time=10, committed=12
        ),
        QueuePlaces(queue=second, begin=0, end=0, last_stored_ms=0, at_time=0),
    ]
    with utc():
        lines = list(show_lines(places, with_time=True, with_group=True))
    assert "".join(f"{line}\n" for line in lines) == SHOWN


def test_the_offsets_of_a_topic(shop: Shop) -> None:
    head, first, *_ = shop.printed("offset show orders").splitlines()
    assert head.split() == ["QUEUE", "BEGIN", "END", "MESSAGES", "LAST", "STORED"]
    assert first.split()[:4] == ["broker-a/0", "0", "4", "4"]
    found = shop.json("offset show orders --group billing --time 1h")
    assert [(one["begin"], one["end"], one["at_time"], one["committed"]) for one in found] == [
        (0, 4, 0, 4),
        (0, 4, 0, 1),
    ]
    assert {one["at_time"] for one in shop.json("offset show orders --time 2999-01-01")} == {4}


def test_offsets_are_cloned(shop: Shop) -> None:
    shop.printed("group create copies")
    done = shop.printed("offset clone billing copies --topic orders")
    assert done == "copies has the offsets of billing in orders\n"
    found = shop.json("offset show orders --group copies")
    assert [one["committed"] for one in found] == [4, 1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("offset show nowhere", "topic nowhere is missing"),
        ("offset show orders --group nobody", "no broker has group nobody"),
        ("offset show orders --time soon", "'soon' is not a time"),
        ("offset clone billing nobody", "no broker has group nobody"),
        ("offset clone nobody billing", "no broker has group nobody"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
