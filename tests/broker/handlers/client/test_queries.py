from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.client.queries import QueryHandlers
from orbitmq.broker.pulling.filter_data import ConsumerFilterData
from orbitmq.message import properties
from orbitmq.message.scan import decode_all
from orbitmq.message.tags import tags_code
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.bodies.query import ConsumeQueueEntries
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.query import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessage,
)
from tests.broker.fake_clients import Client, consumer, tags
from tests.broker.world import World, ask
from tests.store.golden import opened, unpack
from tests.store.logs import NOW, incoming


class Scene(World):
    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.members = Members()

    def table(self) -> Mapping[int, Handler]:
        return QueryHandlers(
            store=self.store, members=self.members, filters=self.filters, settings=self.settings
        ).table()

    def send(self, body: bytes, **given: str) -> None:
        text = properties.encode({"TAGS": "paid", **given})
        self.store.append([incoming(body, properties=text)])

    def found(self, key: str, **fields: Any) -> list[bytes]:
        answer = ask(self.table(), by_key(key, **fields))
        assert answer.code == 0
        return bodies(answer)


def by_key(key: str, **fields: Any) -> QueryMessage:
    given = {"topic": "orders", "max_num": 32, "begin_timestamp": 0, "end_timestamp": INT64_MAX}
    return QueryMessage(key=key, **{**given, **fields})


def bodies(answer: Frame) -> list[bytes]:
    return [message.body for message in decode_all(answer.body)]


def test_messages_are_found_by_each_of_their_keys_in_the_order_of_the_log() -> None:
    scene = Scene()
    for number in range(3):
        scene.send(b"%d" % number, KEYS=f"o-{number} all")
    assert scene.found("o-1") == [b"1"]
    assert scene.found("all") == [b"0", b"1", b"2"]


def test_the_newest_are_found_if_there_are_too_many() -> None:
    scene = Scene()
    for number in range(70):
        scene.send(b"%d" % number, KEYS="all")
    assert scene.found("all", max_num=2) == [b"68", b"69"]
    assert len(scene.found("all", max_num=1_000)) == 64


def test_a_query_by_unique_key_has_a_number_of_its_own() -> None:
    scene = Scene(default_query_max_num=1)
    scene.send(b"old", UNIQ_KEY="U1")
    scene.send(b"new", UNIQ_KEY="U1")
    assert scene.found("U1", unique_key=True, index_type="U") == [b"new"]
    assert scene.found("U1", unique_key=False) == [b"old", b"new"]


def test_tags_are_looked_up_when_the_query_says_so() -> None:
    scene = Scene()
    scene.send(b"1", TAGS="late", KEYS="paid")
    scene.send(b"2", TAGS="paid")
    assert scene.found("paid", index_type="T") == [b"2"]
    assert scene.found("paid", index_type="K") == [b"1"]


def test_only_what_was_stored_in_time_is_found() -> None:
    scene = Scene()
    for body in (b"1", b"2", b"3"):
        scene.send(body, KEYS="all")
        scene.clock.now += 10_000
    assert scene.found("all", begin_timestamp=NOW + 5_000, end_timestamp=NOW + 15_000) == [b"2"]


def test_the_answer_tells_how_far_the_index_has_come() -> None:
    scene = Scene()
    scene.send(b"1", KEYS="all")
    scene.clock.now += 5_000
    scene.send(b"2", KEYS="other")
    answer = ask(scene.table(), by_key("all")).read(QueryMessageAnswer)
    assert answer.index_last_update_timestamp == NOW + 5_000
    assert answer.index_last_update_phyoffset == scene.store.index.end_offset > 0


@pytest.mark.parametrize("fields", [{"topic": "bills"}, {"max_num": 0}, {"max_num": -1}])
def test_nothing_found_is_java_s_answer(fields: dict[str, Any]) -> None:
    scene = Scene()
    scene.send(b"1", KEYS="all")
    answer = ask(scene.table(), by_key("all", **fields))
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "can not find message, maybe time range not correct"
    assert answer.read(QueryMessageAnswer).index_last_update_timestamp == 0


def test_a_message_is_read_by_where_it_lies() -> None:
    scene = Scene()
    scene.send(b"first")
    second = scene.store.log.end
    scene.send(b"second")
    assert bodies(ask(scene.table(), ViewMessage(offset=0))) == [b"first"]
    assert bodies(ask(scene.table(), ViewMessage(offset=second))) == [b"second"]


@pytest.mark.parametrize("offset", [-1, 7, 10_000])
def test_where_no_message_begins_there_is_none(offset: int) -> None:
    scene = Scene()
    scene.send(b"first")
    answer = ask(scene.table(), ViewMessage(offset=offset))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"can not find message by the offset, {offset}"


def entries(scene: Scene, **fields: Any) -> tuple[Frame, ConsumeQueueEntries]:
    given = {"topic": "orders", "queue_id": 0, "index": 0, "count": 10}
    answer = ask(scene.table(), QueryConsumeQueue(**{**given, **fields}))
    return answer, ConsumeQueueEntries.from_json(answer.body)


def test_entries_of_a_queue_are_returned_from_an_index() -> None:
    scene = Scene()
    for body in (b"1", b"2", b"3"):
        scene.send(body)
    _, found = entries(scene, index=1, count=1)
    (one,) = found.queue_data
    record = scene.store.lookup.message("orders", 0, 1)
    assert record is not None
    assert (one.physic_offset, one.physic_size) == (record.commit_log_offset, len(record.raw))
    assert one.tags_code == tags_code("paid")
    assert (found.min_queue_index, found.max_queue_index) == (0, 3)
    assert (found.filter_data, one.eval) == (None, False)


def test_entries_say_whether_the_group_wants_them() -> None:
    scene = Scene()
    scene.send(b"1", TAGS="paid")
    scene.send(b"2", TAGS="late")
    paid = tags("orders", "paid", tags_code("paid"))
    scene.members.join_consumers(consumer("billing", paid), Client().member())
    _, found = entries(scene, consumer_group="billing")
    assert [one.eval for one in found.queue_data] == [True, False]
    assert found.subscription_data == paid


def test_entries_say_which_of_them_a_filter_by_properties_wants() -> None:
    scene = Scene()
    for amount in ("5", "6"):
        scene.send(amount.encode(), amount=amount)
    data = SubscriptionData(topic="orders", sub_string="amount > 5", expression_type="SQL92")
    scene.members.join_consumers(consumer("billing", data), Client().member())
    _, found = entries(scene, consumer_group="billing")
    assert (found.filter_data, [one.eval for one in found.queue_data]) == ("null", [False, False])
    scene.filters.register("billing", [data])
    _, found = entries(scene, consumer_group="billing")
    assert [one.eval for one in found.queue_data] == [False, True]
    assert found.filter_data is not None
    assert ConsumerFilterData.from_json(found.filter_data.encode()).expression == "amount > 5"


@pytest.mark.parametrize("is_gone", [False, True])
def test_entries_with_an_extension_show_the_tags_code_that_is_in_it(
    is_gone: bool, tmp_path: Path
) -> None:
    golden = unpack("cqext", tmp_path)
    if is_gone:
        rmtree(golden.root / "consumequeue_ext")
    scene = Scene()
    store = scene.store = opened(golden)
    tagged = tags("GoldenExt", "TagA", tags_code("TagA"))
    scene.members.join_consumers(consumer("billing", tagged), Client().member())
    _, found = entries(scene, topic="GoldenExt", count=3, consumer_group="billing")
    first, second, _ = found.queue_data
    if is_gone:
        assert (first.tags_code, first.eval) == (-(1 << 63), True)
        assert first.msg == f"Cq extend not exist!addr: {-(1 << 63)}"
    else:
        assert (first.tags_code, first.eval, first.msg) == (tags_code("TagA"), True, None)
        assert (second.tags_code, second.eval, second.msg) == (0, False, None)
    store.close()


def test_a_group_that_is_not_connected_is_reported() -> None:
    scene = Scene()
    scene.send(b"1")
    _, found = entries(scene, consumer_group="billing")
    assert found.filter_data == "billing@orders is not online!"
    assert [one.eval for one in found.queue_data] == [False]


def test_an_index_outside_the_queue_is_reported() -> None:
    scene = Scene()
    scene.send(b"1")
    for index in (-1, 1):
        answer, found = entries(scene, index=index)
        assert (answer.code, answer.remark) == (0, f"Index {index} of 0@orders is not exist!")
        assert (found.max_queue_index, found.queue_data) == (1, ())


def test_a_queue_that_does_not_exist_is_refused() -> None:
    answer = ask(Scene().table(), QueryConsumeQueue(topic="orders", queue_id=3, count=1))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "3@orders is not exist!")
