import pytest

from orbitmq.broker.tables.timer_counts import TimerCounts
from orbitmq.errors import InvalidBody
from orbitmq.message.tags import java_hash

JAVA = (
    '{"dataVersion":{"counter":20,"stateVersion":0,"timestamp":1794739349091},"timingCount":'
    '{"GoldenTimer":{"count":4,"timeStamp":1794739349091}}}'
)


def test_java_s_file_is_read_and_written() -> None:
    counts = TimerCounts()
    counts.load_json(JAVA)
    assert counts.total == 4
    again = TimerCounts()
    again.load_json(counts.to_json())
    assert again.metrics() == counts.metrics()
    with pytest.raises(InvalidBody):
        counts.load_json("[]")


def test_numbers_change_by_topic() -> None:
    counts = TimerCounts()
    before = counts.data_version
    counts.add("orders", 1, 5)
    counts.add("orders", 1, 6)
    counts.add("others", -1, 7)
    assert counts.total == 1
    assert counts.metrics().timing_count["orders"].count == 2
    assert counts.metrics().timing_count["orders"].time_stamp == 6
    assert counts.data_version != before
    counts.forget("orders")
    counts.forget("unknown")
    assert counts.total == -1


def test_a_recount_finds_topics_by_java_s_hash() -> None:
    counts = TimerCounts()
    counts.add("known", 7, 5)
    by_hash = {java_hash("known"): 1, java_hash("orders"): 2, java_hash("gone"): 3, 0: 0}
    counts.recount(by_hash, ["orders"], 9)
    found = {name: one.count for name, one in counts.metrics().timing_count.items()}
    assert found == {"known": 1, "orders": 2}
