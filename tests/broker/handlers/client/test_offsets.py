from collections.abc import Mapping
from unittest.mock import Mock

import pytest

from orbitmq.broker.clients.members import ConsumerGroup, Members
from orbitmq.broker.handlers.client.offsets import OffsetHandlers
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, CorrectionOffsets
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.offset import (
    CloneGroupOffset,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    QueryCorrectionOffset,
    UpdateConsumerOffset,
)
from tests.broker.world import MEMORY_BYTES, World, ask

NEVER = 2**63 - 1


class Scene(World):
    """A world with a topic and two groups, whose offsets can be asked for."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.members = Mock(Members)
        self.members.consumers.return_value = None
        self.topics.update([TopicConfig(topic_name="orders")])
        for group in ("billing", "audit"):
            self.groups.get(group)

    def table(self) -> Mapping[int, Handler]:
        return OffsetHandlers(
            offsets=self.offsets,
            topics=self.topics,
            groups=self.groups,
            members=self.members,
            settings=self.settings,
            store=self.store,
            delay_offsets=lambda: '{"offsetTable":{"3":7}}',
        ).table()


def query(queue_id: int = 0, *, zero: bool | None = None) -> QueryConsumerOffset:
    return QueryConsumerOffset(
        consumer_group="billing", topic="orders", queue_id=queue_id, set_zero_if_not_found=zero
    )


def update(**fields: object) -> UpdateConsumerOffset:
    given = {"consumer_group": "billing", "topic": "orders", "queue_id": 0, "commit_offset": 9}
    return UpdateConsumerOffset(**{**given, **fields})  # type: ignore[arg-type]


def test_a_committed_offset_is_returned() -> None:
    scene = Scene()
    assert ask(scene.table(), update()).code == 0
    answer = ask(scene.table(), query())
    assert answer.read(QueryConsumerOffsetAnswer).offset == 9


def test_a_new_group_begins_a_young_queue_at_its_start() -> None:
    scene = Scene()
    scene.put("orders")
    assert ask(scene.table(), query()).read(QueryConsumerOffsetAnswer).offset == 0
    answer = ask(scene.table(), query(zero=False))
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "Not found, do not set to zero, maybe this group boot first"


def test_a_new_group_has_no_offset_in_a_queue_without_its_first_message() -> None:
    scene = Scene()
    remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    empty = ask(scene.table(), query())
    assert (empty.code, empty.remark) == (ResponseCode.QUERY_NOT_FOUND, remark)
    scene.put("orders", count=2)
    queue = scene.store.queues.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 1
    assert ask(scene.table(), query()).code == ResponseCode.QUERY_NOT_FOUND


def test_a_new_group_has_no_offset_in_a_queue_that_left_memory() -> None:
    scene = Scene()
    scene.put("orders")
    scene.put("other", count=MEMORY_BYTES // 100)
    assert ask(scene.table(), query()).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (update(consumer_group="nobody"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (update(topic="nothing"), ResponseCode.TOPIC_NOT_EXIST),
        (update(queue_id=-1), ResponseCode.INVALID_PARAMETER),
        (update(queue_id=65_536), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_commit_for_what_does_not_exist_is_refused(
    header: UpdateConsumerOffset, code: int
) -> None:
    scene = Scene()
    assert ask(scene.table(), header).code == code
    assert scene.offsets.changes == 0


def test_a_commit_before_the_pull_that_a_reset_waits_for_is_ignored() -> None:
    scene = Scene()
    scene.offsets.assign_reset("billing", "orders", 0, 4)
    answer = ask(scene.table(), update())
    assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
    assert scene.offsets.query("billing", "orders", 0) == 4
    scene.offsets.query_then_erase_reset("billing", "orders", 0)
    assert ask(scene.table(), update()).remark is None
    assert scene.offsets.query("billing", "orders", 0) == 9


def test_replicas_get_the_whole_tables() -> None:
    scene = Scene()
    scene.offsets.commit("billing", "orders", 3, 9)
    answer = ask(scene.table(), NoFields(), code=RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert ConsumerOffsetTable.from_json(answer.body).offset_table == {"orders@billing": {3: 9}}
    answer = ask(scene.table(), NoFields(), code=RequestCode.GET_ALL_DELAY_OFFSET)
    assert bytes(answer.body) == b'{"offsetTable":{"3":7}}'


def test_a_correction_is_the_least_offset_or_never_where_a_group_is_behind() -> None:
    scene = Scene()
    for group, first, second in (("billing", 5, 9), ("audit", 7, 8), ("left-out", 1, 1)):
        scene.offsets.commit(group, "orders", 0, first)
        scene.offsets.commit(group, "orders", 1, second)
    scene.offsets.commit("billing", "orders", 2, 3)
    scene.offsets.commit("slow", "other", 0, 0)

    def correction(compare: str, without: str | None) -> dict[int, int]:
        header = QueryCorrectionOffset(compare_group=compare, topic="orders", filter_groups=without)
        answer = ask(scene.table(), header)
        return CorrectionOffsets.from_json(answer.body).correction_offsets

    assert correction("billing", "left-out") == {0: 5, 1: 8, 2: 3}
    assert correction("left-out", "left-out") == {0: NEVER, 1: NEVER, 2: 3}
    assert correction("billing", None) == {0: 1, 1: 1, 2: 3}


def clone(**fields: object) -> CloneGroupOffset:
    given = {"src_group": "billing", "dest_group": "copy"}
    return CloneGroupOffset(**{**given, **fields})  # type: ignore[arg-type]


def test_offsets_are_copied_in_one_topic_or_in_all() -> None:
    scene = Scene()
    scene.topics.update([TopicConfig(topic_name="other")])
    for topic in ("orders", "other", "deleted"):
        scene.offsets.commit("billing", topic, 0, 9)
    assert ask(scene.table(), clone(topic="orders")).code == 0
    assert scene.offsets.topics_of("copy") == {"orders"}
    assert ask(scene.table(), clone()).code == 0
    assert scene.offsets.topics_of("copy") == {"orders", "other"}


def test_of_a_group_that_is_connected_only_what_it_reads_is_copied_unless_forced() -> None:
    scene = Scene()
    scene.offsets.commit("billing", "orders", 0, 9)
    connected = ConsumerGroup("billing")
    connected.subscriptions = {"other": SubscriptionData(topic="other")}
    scene.members.consumers.return_value = connected
    assert ask(scene.table(), clone()).code == 0
    assert scene.offsets.topics_of("copy") == set()
    assert ask(scene.table(), clone(offline=True)).code == 0
    assert scene.offsets.topics_of("copy") == {"orders"}


def test_offsets_are_copied_only_to_a_group_that_may_exist() -> None:
    scene = Scene()
    scene.offsets.commit("billing", "orders", 0, 9)
    answer = ask(scene.table(), clone(dest_group="no.group"))
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert scene.offsets.topics_of("no.group") == set()
