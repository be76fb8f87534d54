"""What commands of operators share."""

import argparse

import pytest

from orbitmq.cli.asking import add_command, counted, described, family, fitted, queue_of
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue

HELP = """\
usage: orbitmq crew list [-h] [--nameserver HOST:PORT] [-c FILE]
                         [--set KEY=VALUE] [--json]

List the crew.

options:
"""


def help_of(*, examples: list[str]) -> str:
    reader = argparse.ArgumentParser(prog="orbitmq crew")
    listing = add_command(
        family(reader), "list", lambda _: 0, "list the crew", examples=examples, status="0 listed"
    )
    return listing.format_help()


def test_help_has_its_examples_on_lines_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = help_of(examples=["crew list", "crew list --json"])
    assert shown.startswith(HELP)
    end = "\nexamples:\n  orbitmq crew list\n  orbitmq crew list --json\n\nExit status: 0 listed.\n"
    assert shown.endswith(end)


def test_help_without_examples_ends_with_the_exit_status() -> None:
    assert "examples" not in help_of(examples=[])
    reader = argparse.ArgumentParser()
    described(reader, "Some " * 30, examples=[], status="0 done")
    assert max(map(len, reader.format_help().splitlines())) <= 80


def test_a_table_is_made_narrower_until_it_fits() -> None:
    rows = [("a-" * 30, "b-" * 20, "12"), ("short", "name", "3")]
    head, *cells = fitted(("ONE", "TWO", "COUNT"), rows, left=2, names=(0, 1))
    assert {len(line) for line in (head, *cells)} == {80}
    assert cells[0].split()[0].startswith("a-a-")
    assert "…" in cells[0].split()[0]
    assert cells[1].split() == ["short", "name", "3"]


def test_a_table_that_fits_is_left_alone() -> None:
    assert fitted(("A", "B"), [("x" * 70, "1")]) == ["A".ljust(70) + "  B", "x" * 70 + "  1"]
    assert fitted(("A", "B"), []) == ["A  B"]


def test_names_are_not_shortened_beyond_recognition() -> None:
    (_, row) = fitted(("A", "B"), [("name-of-something", "x" * 90)])
    assert row.split()[0] == "name…hing"


@pytest.mark.parametrize("text", ["broker-a", "/3", "broker-a/", "broker-a/x", "broker-a/-1"])
def test_a_queue_has_a_broker_and_a_number(text: str) -> None:
    with pytest.raises(InvalidInput, match="write it as BROKER/ID"):
        queue_of(text, "orders")


def test_a_broker_may_have_a_slash_in_its_name() -> None:
    assert queue_of("north/a/3", "orders") == MessageQueue("orders", "north/a", 3)


def test_counts_have_their_noun() -> None:
    assert counted(2, "retry", "retries") == "2 retries"
