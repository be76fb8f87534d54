"""Groups are moved from a shell."""

import pytest

from orbitmq.cli.operating.offset_reset import Move, move_lines
from orbitmq.message.model import MessageQueue
from tests.cli.operating.conftest import QUEUES, Shop

DRY = """\
QUEUE       COMMITTED  NEW  CHANGE
broker-a/0          4    0      -4
broker-a/1          1    0      -1

billing would consume 5 messages again; without --dry-run it is done
"""


def committed(shop: Shop) -> list[int]:
    found = shop.json("offset show orders --group billing")
    return [one["committed"] for one in found]


def test_a_dry_run_changes_nothing(shop: Shop) -> None:
    assert shop.printed("offset reset billing orders --to earliest --dry-run") == DRY
    assert committed(shop) == [4, 1]


@pytest.mark.parametrize(
    ("place", "after"),
    [
        ("earliest", [0, 0]),
        ("latest", [4, 4]),
        ("1h", [0, 0]),
        ("2999-01-01", [4, 4]),
        ("2", [2, 2]),
        ("2 --queue broker-a/1", [4, 2]),
        ("latest --queue broker-a/1", [4, 4]),
        ("1h --queue broker-a/0", [0, 1]),
    ],
)
@pytest.mark.parametrize("family", ["offset", "group"])
def test_a_group_goes_there(family: str, place: str, after: list[int], shop: Shop) -> None:
    shop.printed(f"{family} reset billing orders --to {place}")
    assert committed(shop) == after


def test_what_a_dry_run_shows_is_what_is_done(shop: Shop) -> None:
    line = "offset reset billing orders --to 3"
    planned = shop.json(f"{line} --dry-run")
    done = shop.json(line)
    assert (planned.pop("dry_run"), done.pop("dry_run")) == (True, False)
    assert planned == done
    assert [one["after"] for one in done["queues"]] == [3, 3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("offset reset billing orders", "--to"),
        ("offset reset billing orders --to nowhen", "--to 'nowhen' is not earliest, latest"),
        ("offset reset billing orders --to 9", "has offsets 0 to 4, not 9"),
        (
            "offset reset billing orders --to 1 --queue broker-a/7",
            "has no queue broker-a/7; it has",
        ),
        ("offset reset billing orders --to 1 --queue 7", "'7' is not a queue"),
        ("offset reset nobody orders --to 1", "no broker has group nobody"),
        ("offset reset billing nowhere --to 1", "topic nowhere is missing"),
    ],
)
def test_errors_take_one_line_and_change_nothing(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
    assert committed(shop) == [4, 1]


@pytest.mark.parametrize(
    ("before", "after", "is_dry", "last"),
    [
        ((4, 1), (4, 4), False, "billing will skip 3 messages"),
        ((4, 1), (0, 2), False, "billing will consume 4 messages again and skip 1 message"),
        ((4, 1), (4, 1), False, "billing stays where it is"),
        ((4, 1), (4, 1), True, "billing would stay where it is; without --dry-run it is done"),
        ((None, None), (4, 1), False, "billing begins there"),
    ],
)
def test_the_last_line_says_what_it_means(
    before: tuple[int | None, ...], after: tuple[int, ...], is_dry: bool, last: str
) -> None:
    moves = [
        Move(queue=queue, before=old, after=new)
        for queue, old, new in zip(QUEUES, before, after, strict=True)
    ]
    assert move_lines("billing", moves, is_dry=is_dry)[-1] == last


def test_large_offsets_fit_a_terminal() -> None:
    queue = MessageQueue("orders", "the-billing-broker-of-the-north-of-paris", 11)
    move = Move(queue=queue, before=123_456_789_012_345, after=223_456_789_012_345)
    assert max(map(len, move_lines("billing", [move], is_dry=False)[:2])) <= 80
