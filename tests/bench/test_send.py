import pytest

from bench.measure import WIDTH, Resident
from bench.parties import JAVA, OURS
from bench.send import AIMED_AT, LOADS, PAIRS, Pair, cpu_rows, memory_line, rate_rows, show
from bench.senders import Spent

SLOW, QUICK = Spent(30.0, 10_000.0, 0), Spent(9.0, 40_000.0, 0)


def found(ours: Spent, java: Spent) -> dict[str, dict[Pair, Spent]]:
    by_pair = {pair: ours if pair.client == OURS else java for pair in PAIRS}
    return dict.fromkeys(LOADS, by_pair)


def test_only_the_load_that_has_an_aim_can_miss_it() -> None:
    assert [row[-1] for row in cpu_rows(found(SLOW, QUICK)) if row[-1]] == ["over"]
    assert [row[-1] for row in rate_rows(found(SLOW, QUICK)) if row[-1]] == ["under"]
    assert not any(row[-1] for row in cpu_rows(found(QUICK, SLOW)))
    assert not any(row[-1] for row in rate_rows(found(QUICK, SLOW)))


def test_the_worse_of_the_two_brokers_decides() -> None:
    mixed = found(QUICK, SLOW)
    mixed[AIMED_AT] = {**mixed[AIMED_AT], Pair(OURS, JAVA): SLOW}
    assert [row[5] for row in cpu_rows(mixed) if row[0] == AIMED_AT] == [1.0]


def test_growing_memory_is_reported() -> None:
    flat, grown = Resident(40.0, 0.0, 40.0), Resident(50.0, 0.0, 50.0)
    assert "GROWS" in memory_line(1_000, [flat, grown])
    assert "GROWS" not in memory_line(1_000, [flat, flat])


def test_the_tables_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    large = Spent(1_234.5, 1_234_567.0, 0)
    show(found(large, large), 10_000_000, [Resident(123.4, 0.0, 123.4)] * 10)
    tables = [line for line in capsys.readouterr().out.splitlines() if "  " in line]
    assert len(tables) == 2 * (len(LOADS) + 1)
    assert all(len(line) <= WIDTH for line in tables)
