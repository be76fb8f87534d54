import pickle
from pathlib import Path

import pytest

from orbitmq.errors import InvalidOffsets, InvalidOption, UnknownOption
from orbitmq.spark.offsets import Bound
from orbitmq.spark.store_source.options import (
    ALL_TIME_MS,
    Include,
    OnCorrupt,
    offsets_by_queue,
    store_options,
)
from orbitmq.spark.store_source.schema import STORE_COLUMNS
from tests.spark.store_source.reads import options_of

STORE = {"path": "/data/store"}


def test_without_options_all_users_messages_are_read_but_for_their_properties() -> None:
    options = store_options(STORE)
    assert options.directory == "/data/store"
    assert options.columns == tuple(name for name in STORE_COLUMNS if name != "properties")
    assert (options.topics, options.pattern, options.include) == ((), None, frozenset())
    assert options.times_ms == (0, ALL_TIME_MS)
    assert options.on_corrupt is OnCorrupt.FAIL


def test_all_options_in_any_case_as_spark_passes_them() -> None:
    given = {
        "PATH": "file:///data/store",
        "subscribe": "orders, refunds,orders",
        "INCLUDE": "halves,System",
        "includeproperties": "true",
        "broker": "broker-a",
        "storepathcommitlog": "/log",
        "startingtimestamp": "5",
        "endingtimestamp": "2026-01-31T12:00:00Z",
        "minpartitions": "8",
        "oncorrupt": "Report",
    }
    options = store_options(given)
    assert options.directory == "/data/store"
    assert options.commit_log == "/log"
    assert options.topics == ("orders", "refunds")
    assert options.include == {Include.HALVES, Include.SYSTEM}
    assert options.columns == (*STORE_COLUMNS, "corrupt")
    assert options.times_ms == (5, 1_769_860_800_000)
    assert (options.broker, options.min_partitions) == ("broker-a", 8)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"onCorrupt": "skp"}, "onCorrupt: there is no 'skp'; did you mean skip?"),
        ({"include": "halves,topics"}, "include: there is no 'topics'; there are halves, delayed"),
        ({"columns": "valu"}, "there is no column 'valu'; did you mean value?"),
        ({"columns": "value,corrupt"}, "columns has corrupt, .* with onCorrupt=report only"),
        ({"columns": "value", "includeProperties": "true"}, "columns says otherwise"),
        ({"subscribe": "a", "subscribePattern": "b"}, "both given"),
        ({"subscribe": "a b"}, "subscribe: topic 'a b' holds ' '"),
        ({"subscribePattern": "("}, "is not a regular expression"),
        ({"startingOffsets": "latest"}, "the read would be empty"),
        ({"endingOffsets": "earliest"}, "the read would be empty"),
        ({"startingTimestamp": "7", "endingTimestamp": "7"}, "the read would be empty"),
        ({"startingTimestamp": "7", "startingOffsets": "earliest"}, "both given"),
        ({"minPartitions": "0"}, "minPartitions is '0'"),
    ],
)
def test_what_contradicts_or_cannot_be_read_is_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        store_options({**STORE, **given})


def test_an_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(UnknownOption, match="did you mean onCorrupt"):
        store_options({**STORE, "onCorupt": "skip"})
    with pytest.raises(UnknownOption, match="there is no option 'nameserver'"):
        store_options({**STORE, "nameserver": "127.0.0.1:9876"})


def test_a_directory_must_be_given() -> None:
    with pytest.raises(InvalidOption, match="no store directory is given; write load"):
        store_options({"subscribe": "orders"})


def test_corrupt_may_stand_anywhere_in_the_columns(tmp_path: Path) -> None:
    assert options_of(tmp_path, onCorrupt="report", columns="corrupt,value").columns == (
        "corrupt",
        "value",
    )


def test_offsets_are_by_topic_and_queue_whatever_the_broker() -> None:
    given = '{"orders": {"0": 12, "broker-a:1": -2}, "refunds": {"broker-a": {"3": 4}}}'
    bound = store_options({**STORE, "startingOffsets": given}).start
    assert offsets_by_queue(bound, "startingOffsets") == {
        ("orders", 0): 12,
        ("orders", 1): -2,
        ("refunds", 3): 4,
    }
    assert offsets_by_queue(Bound("earliest"), "startingOffsets") == {}


def test_one_queue_has_one_offset() -> None:
    bound = store_options({**STORE, "endingOffsets": '{"orders": {"0": 1, "broker-a:0": 2}}'}).end
    with pytest.raises(InvalidOffsets, match="endingOffsets has queue 0 of orders twice"):
        offsets_by_queue(bound, "endingOffsets")
