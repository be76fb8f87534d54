import json

import pytest

from orbitmq.broker.figures.transaction_counts import OpenTransactions
from orbitmq.errors import InvalidBody
from tests.broker.world import HandClock


def test_the_file_is_java_s() -> None:
    clock = HandClock()
    counts = OpenTransactions(clock)
    counts.add("orders", 1)
    counts.add("orders", 1)
    counts.add("orders", -1)
    assert json.loads(counts.to_json()) == {
        "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": clock.now},
        "transactionCount": {"orders": {"count": 1, "timeStamp": clock.now}},
    }
    again = OpenTransactions(clock)
    again.load_json(counts.to_json())
    assert again.count("orders") == 1
    assert again.version == counts.version


def test_each_change_has_a_version() -> None:
    counts = OpenTransactions(HandClock())
    versions = [counts.version]
    counts.add("orders", 1)
    versions.append(counts.version)
    counts.forget("orders")
    versions.append(counts.version)
    assert len(set(map(repr, versions))) == 3
    counts.forget("orders")
    assert counts.version == versions[-1]
    assert counts.count("orders") == 0


def test_an_end_after_its_topic_was_deleted_counts_nothing() -> None:
    counts = OpenTransactions(HandClock())
    counts.add("orders", 1)
    counts.forget("orders")
    counts.add("orders", -1)
    assert counts.count("orders") == 0


def test_another_text_is_refused() -> None:
    with pytest.raises(InvalidBody):
        OpenTransactions(HandClock()).load_json("[]")
