import asyncio

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import BrokerFailed, NoRoute, RequestNotSupported
from orbitmq.message.model import MessageQueue
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import BROKER_A, Scene, route

QUEUE = MessageQueue("orders", "broker-a", 0)


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


def test_a_broker_given_as_a_nameserver_is_recognised() -> None:
    async def story() -> None:
        async with EmbeddedCluster() as cluster:
            (broker,) = cluster.brokers
            async with Admin(nameserver=broker) as admin:
                with pytest.raises(RequestNotSupported, match=f"^{broker} looks like a broker, "):
                    await admin.topics()

    asyncio.run(story())
