import errno
import io
import os

import pytest

from orbitmq.cli.render import (
    Line,
    ProgressBar,
    elided,
    human_size,
    local_time,
    shown,
    table,
    width,
)
from tests.cli.terminal import Terminal, utc


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (3 * 1024**3 // 2, "1.5 GiB"),
        (5000 * 1024**5, "5000.0 PiB"),
    ],
)
def test_sizes(size: int, shown: str) -> None:
    assert human_size(size) == shown


def test_times() -> None:
    with utc():
        assert local_time(1_794_739_329_999) == "2026-11-15 10:42:09"
    assert local_time(None) == "-"
    assert local_time(1 << 62) == "-"


def test_a_table_keeps_numbers_at_the_right() -> None:
    assert table(["NAME", "NUMBER"], [["a", "1"], ["bcdef", "1000000"]]) == [
        "NAME    NUMBER",
        "a            1",
        "bcdef  1000000",
    ]


@pytest.mark.parametrize("width", range(3, 12))
def test_long_names_lose_their_middle(width: int) -> None:
    shown = elided("abcdefghijkl", width)
    assert len(shown) == width
    assert shown[0] == "a"
    assert shown[-1] == "l"


def test_short_names_stay() -> None:
    assert elided("orders", 6) == "orders"


def test_a_bar_is_drawn_once_for_each_percent() -> None:
    terminal = Terminal()
    bar = ProgressBar("reading", terminal)
    for done in range(10_001):
        bar(done, 10_000)
    drawn = terminal.getvalue().split("\r")[1:]
    assert len(drawn) == 101
    assert drawn[50].startswith("reading  ███████████████░░░░░░░░░░░░░░░  50%")
    assert max(map(len, drawn)) < 80
    bar.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("label", ["recovering", "the store of a broker with a long name"])
def test_a_recovery_fits_80_columns_and_leaves_nothing_behind(label: str) -> None:
    terminal = Terminal()
    with ProgressBar(label, terminal) as bar:
        for done in range(0, 1024**5, 1024**5 // 50):
            bar(done, 1024**5)
    *drawn, erased = terminal.getvalue().split("\r")[1:]
    assert drawn[0].startswith(f"{label}  ░")
    assert {len(line) for line in drawn} <= set(range(80))
    assert erased == "\x1b[K"


def test_nothing_is_drawn_into_a_file() -> None:
    file = io.StringIO()
    bar = ProgressBar("reading", file)
    bar(1, 2)
    bar.clear()
    assert file.getvalue() == ""


class ClosedTerminal(Terminal):
    def flush(self) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_terminal_that_is_closed_does_not_stop_the_work() -> None:
    terminal = ClosedTerminal()
    with ProgressBar("recovering", terminal) as bar:
        bar(1, 4)
        bar(2, 4)
    assert "25%" in terminal.getvalue()
    assert "50%" not in terminal.getvalue()


def test_nothing_to_do_is_done() -> None:
    terminal = Terminal()
    ProgressBar("reading", terminal)(0, 0)
    assert "100%" in terminal.getvalue()


class TestColours:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")

    def test_a_terminal_gets_them(self) -> None:
        line = Line("PROBLEM  it is gone", style="wrong", styled=7)
        assert shown(line, Terminal()) == "\x1b[1;31mPROBLEM\x1b[0m  it is gone"
        assert shown("it is gone", Terminal()) == "it is gone"

    def test_the_head_of_a_table_stands_out(self) -> None:
        head, row = table(["NAME"], [["orders"]])
        assert shown(head, Terminal()) == "\x1b[1mNAME\x1b[0m"
        assert shown(row, Terminal()) == "orders"

    def test_a_file_gets_plain_lines(self) -> None:
        assert shown(Line("fine", style="fine"), io.StringIO()) == "fine"

    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_they_can_be_left_out(
        self, name: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(name, value)
        assert shown(Line("fine", style="fine"), Terminal()) == "fine"


@pytest.mark.parametrize(
    ("columns", "wide"), [("40", 80), ("132", 132), ("100000", 240), ("wide", 80), ("", 80)]
)
def test_tables_are_as_wide_as_the_terminal(
    columns: str, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width(Terminal()) == wide
    assert width(io.StringIO()) == 80
