"""Topics by broker: permissions, flags, bounds."""

import pytest

from orbitmq.nameserver import topic_table
from orbitmq.nameserver.topic_table import UNIT, UNIT_SUBSCRIBED, TopicTable
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.route import QueueData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo


def queue(broker: str, *, perm: int = 6, flag: int = 0) -> QueueData:
    return QueueData(broker_name=broker, perm=perm, topic_sys_flag=flag)


def test_the_permission_to_write_is_taken_and_given() -> None:
    table = TopicTable()
    table.put("orders", queue("broker-a", perm=7))
    table.put("orders", queue("broker-b"))
    table.put("bills", queue("broker-a", perm=2))
    assert table.set_writable("broker-a", writable=False) == 2
    assert [table.queues(topic)["broker-a"].perm for topic in ("orders", "bills")] == [5, 0]
    assert table.queues("orders")["broker-b"].perm == 6
    assert table.set_writable("broker-a", writable=True) == 2
    assert [table.queues(topic)["broker-a"].perm for topic in ("orders", "bills")] == [6, 6]
    assert table.set_writable("absent", writable=True) == 0


def test_a_topic_goes_with_its_last_broker() -> None:
    table = TopicTable()
    table.put("orders", queue("broker-a"))
    table.put("orders", queue("broker-b"))
    table.put_mapping("orders", TopicQueueMappingInfo(bname="broker-a"))
    table.remove("orders", "broker-a")
    assert table.names().topic_list == ("orders",)
    assert table.mappings("orders") is None
    table.remove("orders", "broker-b")
    table.remove("orders", "broker-b")
    assert table.names().topic_list == ()
    assert dict(table.queues("orders")) == {}


def test_topics_by_their_flags() -> None:
    table = TopicTable()
    for topic, flag in (("plain", 0), ("unit", 1), ("subscribed", 2), ("both", 3)):
        table.put(topic, queue("broker-a", flag=flag))
    assert table.with_flags(UNIT).topic_list == ("both", "unit")
    assert table.with_flags(UNIT_SUBSCRIBED).topic_list == ("both", "subscribed")
    assert table.with_flags(UNIT_SUBSCRIBED, without=UNIT).topic_list == ("subscribed",)


def test_topics_that_are_here_already_need_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_table, "TOPICS_MAX", 2)
    table = TopicTable()
    table.put("orders", queue("broker-a"))
    table.check_room(["orders", "bills"])
    with pytest.raises(Refusal, match="2 new topics in addition to 1 exceed the limit of 2"):
        table.check_room(["orders", "bills", "more"])
