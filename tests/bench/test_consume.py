import pytest

from bench.consume import rows, show
from bench.consumers import Consumed
from bench.measure import HOW, WIDTH
from bench.parties import JAVA, OURS
from bench.send import PAIRS, Pair

SLOW, QUICK = Consumed(30.0, 10_000.0, 2.0, 9.0), Consumed(9.0, 40_000.0, 1.0, 8.0)


def found(ours: Consumed, java: Consumed) -> dict[Pair, Consumed]:
    return {pair: ours if pair.client == OURS else java for pair in PAIRS}


def test_what_misses_its_aim_is_marked() -> None:
    slow, quick = found(SLOW, QUICK), found(QUICK, SLOW)
    assert [row[-1] for row in rows(slow, slow)] == ["over", "", "over", "over"]
    assert [row[-1] for row in rows(quick, quick)] == ["", "", "", ""]


def test_the_worse_of_the_two_brokers_decides() -> None:
    mixed = {**found(QUICK, SLOW), Pair(OURS, JAVA): SLOW}
    assert [row[5] for row in rows(mixed, mixed)] == [1.0, 1.0, 1.0, 1.0]


def test_the_table_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    large = found(*[Consumed(1_234.5, 1_234_567.0, 123.4, 1_234.5)] * 2)
    show(large, large)
    printed = capsys.readouterr().out.splitlines()
    assert all(len(line) <= WIDTH for line in printed if HOW not in line)
