import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orbitmq.client.admin.admin import Admin, connect
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import (
    BrokerFailed,
    ConnectFailed,
    InvalidInput,
    InvalidParameter,
    InvalidTopic,
    NoRoute,
    NotFound,
)
from orbitmq.message.ids import offset_id
from orbitmq.message.model import Host, Message, MessageQueue
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.headers.query import ViewMessage
from orbitmq.wire.session import Response
from tests.client import admin_story
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route

QUEUE = MessageQueue("orders", "broker-a", 0)


def with_admin(story: Callable[[Scene, Admin], Awaitable[None]], **settings: object) -> Scene:
    """Run a story with a nameserver, two brokers and who asks them."""

    async def whole(scene: Scene) -> Scene:
        scene.routes |= {"orders": route("a", "b"), "TBW102": route("a", "b")}
        await scene.nameserver()
        await scene.broker(BROKER_A)
        await scene.broker(BROKER_B)
        async with connect(scene.settings(**settings), scene.machine) as admin:
            await story(scene, admin)
        return scene

    return play(whole)


def test_a_topic_from_its_making_to_its_last_message() -> None:
    async def main() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            await admin_story.tell(cluster.nameserver, "orders", brokers=2)

    asyncio.run(main())


def test_names_are_wrapped_and_unwrapped() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            settings = ClientSettings(nameserver=cluster.nameserver, namespace="ns", linger_ms=0)
            async with connect(settings) as admin:
                await admin.create_topic("orders")
                queues = await admin_story.soon(lambda: _queues(admin), "the topic's route")
                assert {queue.topic for queue in queues} == {"orders"}
                assert await admin.max_offset(queues[0]) == 0
                assert "orders" in await admin.topics()
                assert await admin.topics(include_system=False) == ["orders"]
                core = await ClientCore.acquire(settings)
                wire_queue = MessageQueue("ns%orders", queues[0].broker_name, 0)
                await admin_story.send(core, wire_queue, Message("orders", b"x", keys=["k"]))
                await core.release()
                found = await admin_story.soon(
                    lambda: admin.query_message("orders", "k"), "the key in the index"
                )
                assert [one.topic for one in found] == ["orders"]

    asyncio.run(main())


async def _queues(admin: Admin) -> tuple[MessageQueue, ...]:
    try:
        return await admin.queues("orders")
    except NoRoute:
        return ()


# What is asked, and how often


def test_a_topic_is_made_on_every_master_and_again_where_that_may_help() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        failures = iter([Response(2, remark="busy"), Response(1, remark="not yet")])

        def answer(_request: Frame) -> Response:
            return next(failures, Response())

        scene.answer = answer
        made = await admin.create_topic(
            "bills", queues=2, attributes={"message.type": "FIFO", "a": "b"}
        )
        assert made == ("broker-a", "broker-b")

    scene = with_admin(story)
    assert len(scene.codes(BROKER_A)) + len(scene.codes(BROKER_B)) == 4
    header = scene.heard[0][2].read(CreateTopic)
    assert (header.topic, header.read_queue_nums, header.default_topic) == ("bills", 2, "TBW102")
    assert header.attributes == "+message.type=FIFO,+a=b"


def test_a_broker_that_refuses_a_topic_is_named_beside_those_that_took_it() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        count = 0

        def refuse_the_first(_request: Frame) -> Response:
            nonlocal count
            count += 1
            return Response(29, remark="no") if count == 1 else Response()

        scene.answer = refuse_the_first
        with pytest.raises(InvalidParameter) as caught:
            await admin.create_topic("bills")
        assert caught.value.__notes__ == [
            "broker-a: 10.0.0.1:10911 answered 29: no",
            "broker-b: done",
        ]
        scene.answer = lambda _request: Response(1, remark="broken")
        with pytest.raises(BrokerFailed):
            await admin.create_topic("bills")

    scene = with_admin(story)
    assert len(scene.heard) == 2 + 2 * 5


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("nowhere", "no cluster, broker or topic is named nowhere"),
        ("TBW102", "no broker of this cluster creates topics automatically"),
    ],
)
def test_an_unknown_cluster_broker_or_topic_is_named_in_the_error(after: str, words: str) -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        del scene.routes["TBW102"]
        with pytest.raises(NoRoute, match=words) as caught:
            await admin.create_topic("bills", after=after)
        assert (caught.value.topic, caught.value.is_missing) == (after, True)

    assert with_admin(story).heard == []


@pytest.mark.parametrize("topic", ["a.b", "", "TBW102", "rmq_sys_x"])
def test_an_invalid_topic_is_refused_without_a_request(topic: str) -> None:
    async def story(_scene: Scene, admin: Admin) -> None:
        with pytest.raises(InvalidTopic):
            await admin.create_topic(topic)

    assert with_admin(story).heard == []


def test_the_master_of_a_queue_is_looked_for_once_more() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(header=GetMaxOffsetAnswer(offset=7))
        scene.routes["orders"] = route("b")
        with pytest.raises(NoRoute, match="broker-a is not in the route of topic orders"):
            await admin.max_offset(QUEUE)
        scene.routes["orders"] = route("a", "b")
        assert await admin.max_offset(QUEUE) == 7
        asked = len(scene.asked)
        assert await admin.max_offset(QUEUE) == 7
        assert len(scene.asked) == asked

    assert with_admin(story).heard[0][2].read(GetMaxOffset).topic == "orders"


def test_an_error_answer_is_raised_with_the_address_of_the_server() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(1, remark="the queue is on fire")
        with pytest.raises(BrokerFailed, match="10.0.0.1:10911 answered 1: the queue"):
            await admin.max_offset(QUEUE)

    with_admin(story)


def test_admin_requests_have_the_first_port_whatever_sends_have() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(header=GetMaxOffsetAnswer(offset=7))
        await admin.max_offset(QUEUE)

    assert with_admin(story, vip_channel=True).codes(BROKER_A) == [RequestCode.GET_MAX_OFFSET]


# Queries


def test_a_query_lives_with_the_brokers_that_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.routes["orders"] = route("a", "b")
        await scene.nameserver()
        await scene.broker(BROKER_A)
        scene.answer = lambda _request: Response(ResponseCode.QUERY_NOT_FOUND)
        async with connect(scene.settings(), scene.machine) as admin:
            assert await admin.query_message("orders", "k") == []
            assert "is incomplete: no connection to 10.0.0.2:10911" in caplog.text
            scene.routes["orders"] = route("b")
            with pytest.raises(ConnectFailed):
                await admin.query_message("orders", "k")
            scene.routes["orders"] = route()
            with pytest.raises(NoRoute, match="no broker of topic orders"):
                await admin.query_message("orders", "k")

    play(story)


@pytest.mark.parametrize("max_count", [0, 65])
def test_a_query_is_bounded(max_count: int) -> None:
    async def story(_scene: Scene, admin: Admin) -> None:
        with pytest.raises(InvalidInput):
            await admin.query_message("orders", "k", max_count=max_count)

    with_admin(story)


def test_invalid_queues_names_and_keys_are_refused_without_a_request() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        given: Any = None
        for call, field in [
            (admin.max_offset("orders"), "queue"),  # type: ignore[arg-type]
            (admin.min_offset(given), "queue"),
            (admin.earliest_store_time(given), "queue"),
            (admin.search_offset(given, 0), "queue"),
            (admin.route(given), "topic"),
            (admin.queues("a\udc80"), "topic"),
            (admin.view_message("orders", given), "message_id"),
            (admin.message_by_unique_key("orders", given), "message_id"),
            (admin.query_message("orders", given), "key"),
        ]:
            with pytest.raises(InvalidInput, match=field) as caught:
                await call
            assert caught.value.field == field

    with_admin(story)


def test_an_id_of_a_place_is_asked_of_its_broker() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(1, remark="can not find message")
        with pytest.raises(NotFound, match="can not find message") as caught:
            await admin.view_message("orders", offset_id(Host.parse(str(BROKER_A)), 8888))
        assert caught.value.code == ResponseCode.NO_MESSAGE

    scene = with_admin(story)
    assert [request.read(ViewMessage).offset for _, _, request in scene.heard] == [8888]
    assert scene.codes(BROKER_A) == [RequestCode.VIEW_MESSAGE_BY_ID]
