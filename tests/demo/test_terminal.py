"""All lines fit a terminal."""

import pytest

from orbitmq.demo.terminal import figure, say, title


def test_a_long_line_is_wrapped_before_the_eightieth_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("word " * 40)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 79
    assert " ".join(" ".join(lines).split()) == ("word " * 40).strip()


def test_columns_are_left_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    say("placed        12    34.50")
    assert capsys.readouterr().out == "placed        12    34.50\n"


def test_a_title_is_underlined(capsys: pytest.CaptureFixture[str]) -> None:
    title("Summary")
    assert capsys.readouterr().out == "\nSummary\n───────\n"


def test_an_address_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    say("file:///" + "folder/" * 20, wrap=False)
    assert capsys.readouterr().out == "file:///" + "folder/" * 20 + "\n"


def test_a_long_figure_stays_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    figure("consumed", "word " * 30)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("consumed                word ")
    assert second.startswith(" " * 24 + "word")
    assert max(len(first), len(second)) <= 79
