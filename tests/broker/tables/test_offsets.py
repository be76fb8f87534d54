import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.errors import InvalidBody
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, LmqOffsetTable
from orbitmq.wire.bodies.topic import DataVersion
from tests.broker.tables.test_topics import config_file
from tests.broker.world import World


def offsets(**settings: object) -> ConsumerOffsets:
    return World(**settings).offsets


def begins_at_0(_topic: str, _queue_id: int) -> int:
    return 0


def begins_at_5(_topic: str, _queue_id: int) -> int:
    return 5


def test_a_commit_is_found_in_its_own_queue_alone() -> None:
    table = offsets()
    table.commit("billing", "orders", 0, 7)
    assert table.query("billing", "orders", 0) == 7
    assert table.query("billing", "orders", 1) == -1
    assert table.query("billing", "other", 0) == -1
    assert table.query("audit", "orders", 0) == -1
    assert table.of("billing", "orders") == {0: 7}
    assert table.of("audit", "orders") == {}


def test_topics_are_found_by_group_and_groups_by_topic() -> None:
    table = offsets()
    for group, topic in (("billing", "orders"), ("billing", "bills"), ("audit", "orders")):
        table.commit(group, topic, 0, 7)
    assert table.topics_of("billing") == {"orders", "bills"}
    assert table.groups_of("orders") == {"billing", "audit"}
    assert table.topics_by_group() == {"billing": {"orders", "bills"}, "audit": {"orders"}}


def test_a_step_back_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    table = offsets()
    table.commit("billing", "orders", 0, 7, "10.0.0.7:4711")
    table.commit("billing", "orders", 0, 7)
    assert not caplog.records
    table.commit("billing", "orders", 0, 3, "10.0.0.7:4711")
    assert table.query("billing", "orders", 0) == 3
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "from offset 7 to 3 in queue 0 of topic orders by 10.0.0.7:4711" in record.getMessage()


def test_groups_by_topic_and_topics_by_group() -> None:
    table = offsets()
    for group, topic in (("billing", "orders"), ("billing", "refunds"), ("audit", "orders")):
        table.commit(group, topic, 0, 1)
    assert table.topics_of("billing") == {"orders", "refunds"}
    assert table.groups_of("orders") == {"billing", "audit"}
    assert table.topics_of("nobody") == table.groups_of("nothing") == set()


def test_every_change_is_counted_and_once_in_a_while_a_version() -> None:
    table = offsets(consumer_offset_update_version_step=3)
    for number in range(7):
        table.commit("billing", "orders", 0, number)
    assert table.changes == 7
    assert table.data_version.counter == 2


def test_the_least_offset_leaves_out_groups_and_what_is_gone() -> None:
    table = offsets()
    for group, offset in (("a", 9), ("b", 7), ("slow", 3)):
        table.commit(group, "orders", 0, offset)
    table.commit("a", "other", 0, 1)
    assert table.least("orders", (), begins_at_0) == {0: 3}
    assert table.least("orders", ("slow",), begins_at_0) == {0: 7}
    assert table.least("orders", (), begins_at_5) == {0: 7}
    assert table.query("slow", "orders", 0) == 3  # Java would have deleted it


def test_a_clone_has_offsets_of_its_own() -> None:
    table = offsets()
    table.commit("a", "orders", 0, 9)
    table.clone("a", "b", "orders")
    table.clone("nobody", "c", "orders")
    table.commit("a", "orders", 0, 10)
    assert table.query("b", "orders", 0) == 9
    assert table.query("c", "orders", 0) == -1


def test_the_pulled_offset_precedes_the_committed_one() -> None:
    table = offsets()
    assert table.query_pull("a", "orders", 0) == -1
    table.commit("a", "orders", 0, 9)
    assert table.query_pull("a", "orders", 0) == 9
    table.commit_pull("a", "orders", 0, 30)
    assert table.query_pull("a", "orders", 0) == 30
    assert table.query("a", "orders", 0) == 9


# Resets


def test_a_reset_holds_for_one_pull_of_its_queue() -> None:
    table = offsets()
    table.commit("a", "orders", 0, 9)
    table.commit_pull("a", "orders", 0, 30)
    table.assign_reset("a", "orders", 0, 4)
    table.assign_reset("a", "orders", 1, 5)
    assert table.has_reset("a", "orders", 0)
    assert table.query("a", "orders", 0) == 4
    assert table.query_pull("a", "orders", 0) == 4
    assert table.query_then_erase_reset("a", "orders", 0) == 4
    assert not table.has_reset("a", "orders", 0)
    assert table.query_then_erase_reset("a", "orders", 0) is None
    assert table.query_then_erase_reset("a", "orders", 1) == 5
    assert table.query_then_erase_reset("b", "orders", 0) is None
    assert table.query("a", "orders", 0) == 4  # committed too


def test_resets_of_the_old_way_are_not_asked_for() -> None:
    table = offsets(use_server_side_reset_offset=False)
    table.assign_reset("a", "orders", 0, 4)
    table.commit("a", "orders", 0, 9)
    assert table.query("a", "orders", 0) == 9


# Forgetting


def everything() -> ConsumerOffsets:
    table = offsets()
    for group, topic in (("a", "orders"), ("b", "orders"), ("a", "orders2")):
        table.commit(group, topic, 0, 9)
        table.assign_reset(group, topic, 0, 9)
        table.commit_pull(group, topic, 0, 12)
    return table


def test_a_topic_is_forgotten_whole_and_alone() -> None:
    table = everything()
    table.remove_topic("orders")
    assert table.groups_of("orders") == set()
    assert table.query_pull("a", "orders", 0) == -1
    assert not table.has_reset("a", "orders", 0)
    assert table.query("a", "orders2", 0) == 9


def test_a_group_is_forgotten_whole_and_alone() -> None:
    table = everything()
    table.remove_group("a")
    assert table.topics_of("a") == set()
    assert table.query_pull("a", "orders2", 0) == -1
    assert not table.has_reset("a", "orders", 0)
    assert table.query("b", "orders", 0) == 9


def test_offsets_without_subscription_and_messages_are_removed() -> None:
    table = offsets()
    table.commit("reads", "orders", 0, 1)
    table.commit("left", "orders", 0, 5)
    table.commit("behind", "orders", 0, 5)
    table.commit("behind", "orders", 1, 6)
    forgotten = table.scan_unsubscribed(lambda group, _topic: group == "reads", begins_at_5)
    assert forgotten == ["orders@left"]
    assert table.groups_of("orders") == {"reads", "behind"}


# consumerOffset.json


@pytest.mark.parametrize("store", ["normal", "retry", "trans", "delay"])
def test_a_table_that_java_wrote_is_written_back_the_same(store: str) -> None:
    text = config_file(store, "consumerOffset.json")
    table = offsets()
    table.load_json(text)
    java = ConsumerOffsetTable.from_json(text.encode())
    written = ConsumerOffsetTable.from_json(table.to_json().encode())
    assert (written.offset_table, written.data_version) == (java.offset_table, java.data_version)


NAMES = st.text("%|_-aZ0", min_size=1, max_size=8)


@given(st.dictionaries(st.tuples(NAMES, NAMES, st.integers(0, 9)), st.integers(0, 2**63 - 1)))
def test_any_commits_are_read_back(commits: dict[tuple[str, str, int], int]) -> None:
    table = offsets()
    for (group, topic, queue_id), offset in commits.items():
        table.commit(group, topic, queue_id, offset)
    again = offsets()
    again.load_json(table.to_json())
    for (group, topic, queue_id), offset in commits.items():
        assert again.query(group, topic, queue_id) == offset


def test_java_reads_the_keys_of_queues_as_texts() -> None:
    table = offsets()
    table.commit("billing", "orders", 0, 7)
    assert json.loads(table.to_json())["offsetTable"] == {"orders@billing": {"0": 7}}


def test_a_text_that_is_no_table_changes_nothing() -> None:
    table = offsets()
    table.commit("billing", "orders", 0, 7)
    with pytest.raises(InvalidBody):
        table.load_json('{"offsetTable":{"orders@billing":{"0":"many"}}}')
    assert table.query("billing", "orders", 0) == 7


# lmqConsumerOffset.json

LIGHT = "%LMQ%GID@@alice"


def test_a_light_group_has_one_offset_per_topic_in_the_file() -> None:
    table = offsets()
    table.commit(LIGHT, "%LMQ%a", 0, 7)
    table.commit(LIGHT, "orders", 3, 4)
    table.commit("billing", "orders", 0, 5)
    written = json.loads(table.to_lmq_json())
    assert written["lmqOffsetTable"] == {f"%LMQ%a@{LIGHT}": 7}
    assert written["offsetTable"] == {f"orders@{LIGHT}": {"3": 4}, "orders@billing": {"0": 5}}
    again = offsets()
    again.load_lmq_json(table.to_lmq_json())
    assert again.to_lmq_json() == table.to_lmq_json()


@pytest.mark.parametrize(("newer", "billing"), [(True, 9), (False, 5)])
def test_other_groups_are_taken_from_the_newer_file(newer: bool, billing: int) -> None:
    table = offsets()
    table.commit("billing", "orders", 0, 5)
    table.commit(LIGHT, "%LMQ%a", 0, 1)
    java = LmqOffsetTable(
        data_version=DataVersion(timestamp=table.data_version.timestamp + newer),
        lmq_offset_table={f"%LMQ%a@{LIGHT}": 7},
        offset_table={"orders@billing": {0: 9}},
    )
    table.load_lmq_json(java.to_json().decode())
    assert table.query("billing", "orders", 0) == billing
    assert table.query(LIGHT, "%LMQ%a", 0) == 7


def test_a_text_that_is_no_table_of_light_groups_changes_nothing() -> None:
    table = offsets()
    table.commit(LIGHT, "%LMQ%a", 0, 7)
    with pytest.raises(InvalidBody):
        table.load_lmq_json('{"lmqOffsetTable":{"%LMQ%a@%LMQ%b":"many"}}')
    assert table.query(LIGHT, "%LMQ%a", 0) == 7
