"""Queues that the broker assigns, and how groups read topics."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.client.assignments import AssignmentHandlers
from orbitmq.broker.tables.request_modes import REQUEST_MODES_FILE, RequestModes
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.heartbeat import MessageModel
from orbitmq.wire.bodies.pop import (
    AssignmentQuery,
    Assignments,
    MessageRequestMode,
    RequestModeSetting,
)
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from tests.broker.fake_clients import Client, joined
from tests.broker.world import World, ask

QUEUES = tuple(MessageQueue("orders", "broker-a", number) for number in range(4))
BILLING = RequestModeSetting(topic="orders", consumer_group="billing")
QUERY = AssignmentQuery(
    client_id="two",
    consumer_group="billing",
    message_model=MessageModel.CLUSTERING,
    strategy_name="AVG",
    topic="orders",
)


class Scene(World):
    """A world whose queues are assigned, with two members of a group."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.topics.update([TopicConfig(topic_name="orders")])
        self.modes = RequestModes()
        self.persistence.register(
            REQUEST_MODES_FILE,
            to_json=self.modes.to_json,
            load_json=self.modes.load_json,
            version=lambda: self.modes.changes,
        )
        self.members = Members()
        for client_id in ("two", "one"):
            joined(self.members, "billing", "orders", client=Client(client_id))

    def table(self) -> Mapping[int, Handler]:
        return AssignmentHandlers(
            modes=self.modes,
            topics=self.topics,
            groups=self.groups,
            members=self.members,
            settings=self.settings,
            persistence=self.persistence,
            queues_of=self.queues_of,
        ).table()

    async def queues_of(self, topic: str) -> Sequence[MessageQueue] | None:
        return {"orders": QUEUES, "empty": ()}.get(topic)

    def assigned(self, query: AssignmentQuery) -> list[int] | None:
        answer = ask(self.table(), NoFields(), query.to_json(), code=RequestCode.QUERY_ASSIGNMENT)
        assert answer.code == ResponseCode.SUCCESS
        found = Assignments.from_json(answer.body).message_queue_assignments
        if found is None:
            return None
        assert all(one.mode is MessageRequestMode.PULL for one in found)
        return [one.message_queue.queue_id for one in found if one.message_queue is not None]

    def set_mode(self, setting: RequestModeSetting) -> Frame:
        code = RequestCode.SET_MESSAGE_REQUEST_MODE
        return ask(self.table(), NoFields(), setting.to_json(), code=code)


@pytest.mark.parametrize(
    ("change", "queues"),
    [
        ({}, [2, 3]),
        ({"client_id": "one"}, [0, 1]),
        ({"strategy_name": "AVG_BY_CIRCLE"}, [1, 3]),
        ({"message_model": MessageModel.BROADCASTING}, [0, 1, 2, 3]),
        ({"client_id": "three"}, []),  # no heartbeat yet
        # Nothing is known, so the consumer keeps what it has.
        ({"strategy_name": "MACHINE_ROOM"}, None),
        ({"consumer_group": "shipping"}, None),
        ({"client_id": ""}, None),
        ({"topic": "bills"}, None),
        ({"topic": "empty"}, None),
    ],
)
def test_a_consumer_gets_its_share(change: dict[str, object], queues: list[int] | None) -> None:
    assert Scene().assigned(replace(QUERY, **change)) == queues


def test_without_the_balancer_every_consumer_gets_all() -> None:
    scene = Scene(server_load_balancer_enable=False)
    assert scene.assigned(replace(QUERY, client_id="three")) == [0, 1, 2, 3]


def test_a_mode_is_set_written_and_listed() -> None:
    scene = Scene()
    assert scene.set_mode(BILLING).code == ResponseCode.SUCCESS
    code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    listed = ask(scene.table(), NoFields(), code=code).body
    assert bytes(listed).decode() == scene.file(REQUEST_MODES_FILE)
    assert b'"billing"' in bytes(listed)


@pytest.mark.parametrize(
    ("change", "code", "remark"),
    [
        (
            {"topic": "%RETRY%billing"},
            ResponseCode.NO_PERMISSION,
            "retry topic is not allowed to set mode",
        ),
        ({"topic": "bills"}, ResponseCode.TOPIC_NOT_EXIST, "topic[bills] not exist"),
        (
            {"consumer_group": "no one"},
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "subscription group does not exist",
        ),
        (
            {"mode": MessageRequestMode.POP},
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "pop consumption is not supported yet; the mode can only be PULL",
        ),
    ],
)
def test_a_mode_that_can_not_be_set_is_refused(
    change: dict[str, object], code: int, remark: str
) -> None:
    scene = Scene()
    answer = scene.set_mode(replace(BILLING, **change))
    assert (answer.code, answer.remark) == (code, remark)
    assert scene.file(REQUEST_MODES_FILE) is None
