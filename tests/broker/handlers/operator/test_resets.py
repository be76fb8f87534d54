from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from orbitmq.broker.handlers.operator.resets import ResetHandlers
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.offsets import OffsetReset
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import ResetOffset
from tests.broker.world import World, ask
from tests.store.logs import NOW

RESET = ResetOffset(group="billing", topic="orders", timestamp=NOW + 1)


class Scene(World):
    """A topic of two queues: three messages in each, and two more a second later."""

    def __init__(self, *, online: bool = True, **settings: object) -> None:
        super().__init__(**settings)
        self.online = online
        self.moved: list[tuple[str, str, int, dict[int, int]]] = []
        self.woken: list[tuple[str, int]] = []
        self.topics.update(
            [TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)]
        )
        self.groups.get("billing")
        for queue_id in (0, 1):
            self.put("orders", queue_id, 3)
        self.clock.now += 1_000
        for queue_id in (0, 1):
            self.put("orders", queue_id, 2)

    def reset(self, header: ResetOffset = RESET) -> Frame:
        return ask(self.table(), header, code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)

    def table(self) -> Mapping[int, Handler]:
        return ResetHandlers(
            offsets=self.offsets,
            topics=self.topics,
            groups=self.groups,
            settings=self.settings,
            store=self.store,
            notify_consumers=self._tell,
            on_reset=lambda topic, queue_id: self.woken.append((topic, queue_id)),
        ).table()

    def _tell(
        self, group: str, topic: str, timestamp_ms: int, offsets: Mapping[MessageQueue, int]
    ) -> None:
        if not self.online:
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, "Consumer not online")
        by_queue = {queue.queue_id: offset for queue, offset in offsets.items()}
        self.moved.append((group, topic, timestamp_ms, by_queue))


def offsets_of(answer: Frame) -> dict[int, int]:
    assert answer.code == ResponseCode.SUCCESS
    table = OffsetReset.from_json(answer.body).offset_table
    assert all((queue.topic, queue.broker_name) == ("orders", "broker-a") for queue in table)
    return {queue.queue_id: offset for queue, offset in table.items()}


# Kept here


def test_all_queues_are_moved_to_a_moment() -> None:
    scene = Scene()
    assert offsets_of(scene.reset()) == {0: 3, 1: 3}
    assert [scene.offsets.query_then_erase_reset("billing", "orders", one) for one in (0, 1)] == [
        3,
        3,
    ]
    assert scene.moved == []
    assert scene.woken == [("orders", 0), ("orders", 1)]


@pytest.mark.parametrize(
    ("fields", "offsets"),
    [
        ({"timestamp": NOW}, {0: 0, 1: 0}),
        ({"timestamp": -1}, {0: 5, 1: 5}),
        ({"queue_id": 1}, {1: 3}),
        ({"queue_id": 1, "offset": -1}, {1: 3}),
        ({"queue_id": 1, "offset": 4}, {1: 4}),
        ({"queue_id": 0, "offset": 6}, {0: 6}),
        ({"offset": 1}, {0: 3, 1: 3}),
    ],
)
def test_a_moment_or_an_offset_says_where(fields: dict[str, int], offsets: dict[int, int]) -> None:
    scene = Scene()
    assert offsets_of(scene.reset(replace(RESET, **fields))) == offsets
    for queue_id in (0, 1):
        assert scene.offsets.query("billing", "orders", queue_id) == offsets.get(queue_id, -1)


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST, "Topic nothing does not exist"),
        (
            {"group": "nobody"},
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "Group nobody does not exist",
        ),
        ({"queue_id": 2}, ResponseCode.SYSTEM_ERROR, "No queues to reset."),
        (
            {"queue_id": 0, "offset": 7},
            ResponseCode.SYSTEM_ERROR,
            "Target offset 7 not in consume queue range [0-5]",
        ),
    ],
)
def test_an_impossible_reset_is_refused(fields: dict[str, object], code: int, remark: str) -> None:
    scene = Scene()
    answer = scene.reset(replace(RESET, **fields))
    assert (answer.code, answer.remark) == (code, remark)
    assert scene.offsets.changes == 0


def test_a_topic_of_many_queues_is_moved_whole() -> None:
    scene = Scene()
    scene.topics.update([TopicConfig(topic_name="orders", read_queue_nums=200)])
    assert offsets_of(scene.reset()) == {0: 3, 1: 3, **dict.fromkeys(range(2, 200), 0)}


# Told to consumers


def old_way(**fields: object) -> Scene:
    scene = Scene(use_server_side_reset_offset=False, **fields)  # type: ignore[arg-type]
    scene.offsets.commit("billing", "orders", 0, 4)
    scene.offsets.commit("billing", "orders", 1, 2)
    return scene


@pytest.mark.parametrize(("force", "offsets"), [(True, {0: 3, 1: 3}), (False, {0: 3, 1: 2})])
def test_consumers_move_forward_only_by_force(force: bool, offsets: dict[int, int]) -> None:
    scene = old_way()
    assert offsets_of(scene.reset(replace(RESET, is_force=force))) == offsets
    assert scene.moved == [("billing", "orders", NOW + 1, offsets)]
    assert scene.offsets.query("billing", "orders", 0) == 4  # theirs to commit


def test_without_a_consumer_or_an_offset_the_reset_is_refused() -> None:
    assert old_way(online=False).reset().code == ResponseCode.CONSUMER_NOT_ONLINE
    scene = old_way()
    answer = scene.reset(replace(RESET, group="audit"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("THe consumer group <audit> not exist")
    answer = scene.reset(replace(RESET, topic="nothing"))
    assert (answer.code, answer.remark) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "[reset-offset] reset offset failed, no topic in this broker. topic=nothing",
    )
    assert scene.moved == []
