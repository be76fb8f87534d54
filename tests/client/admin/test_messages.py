import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import (
    ConnectFailed,
    InvalidInput,
    NoRoute,
    NotFound,
)
from orbitmq.message.ids import offset_id
from orbitmq.message.model import Host
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.query import ViewMessage
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import BROKER_A, Scene, play, route


def test_a_query_lives_with_the_brokers_that_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.routes["orders"] = route("a", "b")
        await scene.nameserver()
        await scene.broker(BROKER_A)
        scene.answer = lambda _request: Response(ResponseCode.QUERY_NOT_FOUND)
        async with Admin(client=scene.settings(), machine=scene.machine) as admin:
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


def test_an_id_of_a_place_is_asked_of_its_broker() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(1, remark="can not find message")
        with pytest.raises(NotFound, match="can not find message") as caught:
            await admin.view_message("orders", offset_id(Host.parse(str(BROKER_A)), 8888))
        assert caught.value.code == ResponseCode.NO_MESSAGE

    scene = with_admin(story)
    assert [request.read(ViewMessage).offset for _, _, request in scene.heard] == [8888]
    assert scene.codes(BROKER_A) == [RequestCode.VIEW_MESSAGE_BY_ID]
