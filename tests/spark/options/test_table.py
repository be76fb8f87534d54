import re

import pytest

from orbitmq.errors import InvalidOption, UnknownOption
from orbitmq.spark.options.table import OPTIONS, Use, named
from tests.architecture.sources import ROOT


def test_options_are_known_in_any_case_and_by_their_old_names() -> None:
    given = {"NAMESERVER": "ns:9876", "topic": "orders", "pullbatchsize": " 32 ", "group": "g"}
    assert named(given, Use.STREAM) == {
        "nameserver": "ns:9876",
        "subscribe": "orders",
        "pullCount": "32",
        "groupId": "g",
    }
    assert named({"topic": "orders"}, Use.WRITE) == {"topic": "orders"}


def test_what_spark_adds_is_passed_over() -> None:
    assert named({"path": "x", "checkpointLocation": "y"}, Use.STREAM) == {}


def test_what_spark_would_not_hand_to_a_reader_again_is_refused() -> None:
    of_table = {"owner": "alice", "subscribe": "orders", "option.subscribe": "orders"}
    with pytest.raises(InvalidOption, match="Write CREATE TEMPORARY VIEW"):
        named(of_table, Use.BATCH)


@pytest.mark.parametrize(
    ("name", "use", "nearest"),
    [
        ("subscrbe", Use.BATCH, "subscribe"),
        ("startingoffset", Use.BATCH, "startingOffsets"),
        ("kafka.bootstrap.servers", Use.BATCH, None),
        ("onRejected", Use.WRITE, "onReject"),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest(
    name: str, use: Use, nearest: str | None
) -> None:
    with pytest.raises(UnknownOption, match=f"there is no option '{name}'") as caught:
        named({name: "x"}, use)
    assert caught.value.nearest == nearest
    assert (f"did you mean {nearest}?" in str(caught.value)) is (nearest is not None)


@pytest.mark.parametrize(
    ("name", "use", "what"),
    [
        ("maxOffsetsPerTrigger", Use.BATCH, "an option of streaming reads, .* to batch reads"),
        ("endingoffsets", Use.STREAM, "endingOffsets is an option of batch reads"),
        ("subscribe", Use.WRITE, "an option of reads, and means nothing to writes"),
        ("onReject", Use.BATCH, "an option of writes"),
    ],
)
def test_an_option_of_something_else_is_refused(name: str, use: Use, what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        named({name: "x"}, use)


def test_an_option_is_given_once_and_with_a_value() -> None:
    with pytest.raises(InvalidOption, match="topic and subscribe are one option"):
        named({"topic": "a", "subscribe": "a"}, Use.BATCH)
    with pytest.raises(InvalidOption, match="tags is empty"):
        named({"tags": " "}, Use.BATCH)


def test_no_name_means_two_options_in_one_place() -> None:
    for use in (Use.BATCH, Use.STREAM, Use.WRITE):
        names = [
            name.lower()
            for option in OPTIONS
            if option.use & use
            for name in (option.name, *option.aliases)
        ]
        assert len(names) == len(set(names))


def test_the_page_lists_the_options_of_the_code() -> None:
    page = (ROOT / "docs/spark.md").read_text()
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \| .+ \|$", page)
    shown = [tuple(cell.strip() for cell in row) for row in rows]
    assert shown == [
        (
            option.name,
            WORDS[option.use],
            f"`{option.default}`" if option.default else "",
            ", ".join(f"`{alias}`" for alias in option.aliases),
        )
        for option in OPTIONS
    ]


WORDS = {
    Use.ANY: "all",
    Use.READ: "reads",
    Use.BATCH: "batch",
    Use.STREAM: "stream",
    Use.WRITE: "writes",
}
