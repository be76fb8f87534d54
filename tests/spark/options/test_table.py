import re

import pytest

from orbitmq.errors import InvalidOption, UnknownOption
from orbitmq.spark.options.table import OPTIONS, STORE_OPTIONS, Operation, known_options
from tests.architecture.sources import ROOT


def test_options_are_known_in_any_case_and_by_their_old_names() -> None:
    given = {"NAMESERVER": "ns:9876", "topic": "orders", "pullbatchsize": " 32 ", "group": "g"}
    assert known_options(given, Operation.STREAM) == {
        "nameserver": "ns:9876",
        "subscribe": "orders",
        "pullCount": "32",
        "groupId": "g",
    }
    assert known_options({"topic": "orders"}, Operation.WRITE) == {"topic": "orders"}


def test_options_that_spark_adds_are_ignored() -> None:
    assert known_options({"path": "x", "checkpointLocation": "y"}, Operation.STREAM) == {}


def test_options_of_a_table_are_refused() -> None:
    of_table = {"owner": "alice", "subscribe": "orders", "option.subscribe": "orders"}
    with pytest.raises(InvalidOption, match="Write CREATE TEMPORARY VIEW"):
        known_options(of_table, Operation.BATCH)


@pytest.mark.parametrize(
    ("name", "operation", "nearest"),
    [
        ("subscrbe", Operation.BATCH, "subscribe"),
        ("startingoffset", Operation.BATCH, "startingOffsets"),
        ("kafka.bootstrap.servers", Operation.BATCH, None),
        ("onRejected", Operation.WRITE, "onReject"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(
    name: str, operation: Operation, nearest: str | None
) -> None:
    with pytest.raises(UnknownOption, match=f"there is no option '{name}'") as caught:
        known_options({name: "x"}, operation)
    assert caught.value.nearest == nearest
    assert (f"did you mean {nearest}?" in str(caught.value)) is (nearest is not None)


@pytest.mark.parametrize(
    ("name", "operation", "what"),
    [
        (
            "maxOffsetsPerTrigger",
            Operation.BATCH,
            "an option of streaming reads, .* on batch reads",
        ),
        ("endingoffsets", Operation.STREAM, "endingOffsets is an option of batch reads"),
        ("subscribe", Operation.WRITE, "an option of reads, and has no effect on writes"),
        ("onReject", Operation.BATCH, "an option of writes"),
    ],
)
def test_an_option_of_something_else_is_refused(name: str, operation: Operation, what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        known_options({name: "x"}, operation)


def test_an_option_is_given_once_and_with_a_value() -> None:
    with pytest.raises(InvalidOption, match="topic and subscribe are the same option"):
        known_options({"topic": "a", "subscribe": "a"}, Operation.BATCH)
    with pytest.raises(InvalidOption, match="tags is empty"):
        known_options({"tags": " "}, Operation.BATCH)


def test_no_name_means_two_options_in_one_place() -> None:
    for operation in (Operation.BATCH, Operation.STREAM, Operation.WRITE):
        names = [
            name.lower()
            for option in OPTIONS
            if option.operation & operation
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
            WORDS[option.operation],
            f"`{option.default}`" if option.default else "",
            ", ".join(f"`{alias}`" for alias in option.aliases),
        )
        for option in OPTIONS
    ]


def test_the_page_lists_the_options_of_a_store() -> None:
    page = (ROOT / "docs/spark.md").read_text()
    section = page.partition("\n## Store directories\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| [^|]+ \|$", section)
    assert [tuple(cell.strip() for cell in row) for row in rows] == [
        (
            option.name,
            f"`{option.default}`" if option.default else "",
            ", ".join(f"`{alias}`" for alias in option.aliases),
        )
        for option in STORE_OPTIONS
    ]


def test_options_of_a_store_are_its_own() -> None:
    assert known_options({"oncorrupt": "skip"}, Operation.BATCH, STORE_OPTIONS) == {
        "onCorrupt": "skip"
    }
    with pytest.raises(UnknownOption, match="there is no option 'onCorrupt'"):
        known_options({"onCorrupt": "skip"}, Operation.BATCH)
    with pytest.raises(UnknownOption, match="there is no option 'nameserver'"):
        known_options({"nameserver": "ns:9876"}, Operation.BATCH, STORE_OPTIONS)


WORDS = {
    Operation.ANY: "all",
    Operation.READ: "reads",
    Operation.BATCH: "batch",
    Operation.STREAM: "stream",
    Operation.WRITE: "writes",
}
