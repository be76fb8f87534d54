"""All lines fit a terminal."""

import pytest

from orbitmq.demo.terminal import dump, say, title


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
    title("1. Bytes")
    assert capsys.readouterr().out == "\n1. Bytes\n────────\n"


def test_bytes_are_printed_sixteen_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    dump(bytes(range(60, 78)))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "  0000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert second == f"  0010  4c 4d{' ' * 42}  LM"
