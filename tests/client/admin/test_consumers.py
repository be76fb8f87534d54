import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import BrokerFailed, ConsumerNotOnline
from orbitmq.wire.bodies.members import Connection, ConsumerConnection
from orbitmq.wire.bodies.running import ConsumerRunningInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import Scene, route


def test_a_client_of_several_brokers_counts_once() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.routes["%RETRY%billing"] = route("a", "b")
        one = Connection(client_id="c@1", client_addr="10.0.0.9:5", language="GO", version=401)
        other = Connection(client_id="c@0", client_addr="10.0.0.9:6", version=493)
        answers = iter([(one,), (one, other)])
        scene.answer = lambda _request: Response(
            body=ConsumerConnection(connection_set=next(answers)).to_json()
        )
        found = await admin.consumer_connections("billing")
        assert [(one.client_id, one.language, one.version) for one in found.clients] == [
            ("c@0", "", "5.4.0"),
            ("c@1", "GO", "4.9.4"),
        ]

    with_admin(story)


def test_a_consumer_is_asked_through_the_broker_that_answers() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.routes["%RETRY%billing"] = route("a", "b")
        failed = Response(ResponseCode.SYSTEM_ERROR, remark="the broker is starting")
        offline = Response(ResponseCode.CONSUMER_NOT_ONLINE, remark="not online")
        connected = ConsumerConnection(connection_set=(Connection(client_id="c"),)).to_json()
        info = ConsumerRunningInfo(jstack="the stacks").to_json()
        answers = iter([failed, Response(body=connected), Response(body=info), failed])
        scene.answer = lambda _request: next(answers, offline)
        assert (await admin.consumer_running_info("billing", "c")).jstack == "the stacks"
        with pytest.raises(BrokerFailed, match="the broker is starting"):
            await admin.consumer_running_info("billing", "c")  # it may be connected there

    with_admin(story)


def test_a_group_is_online_if_one_broker_knows_it() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.routes["%RETRY%billing"] = route("a", "b")
        offline = Response(ResponseCode.CONSUMER_NOT_ONLINE, remark="not online")
        body = ConsumerConnection(connection_set=(Connection(client_id="c"),)).to_json()
        answers = iter([offline, Response(body=body)])
        scene.answer = lambda _request: next(answers, offline)
        assert len((await admin.consumer_connections("billing")).clients) == 1
        with pytest.raises(ConsumerNotOnline, match="no consumer of group billing"):
            await admin.consumer_connections("billing")
        with pytest.raises(ConsumerNotOnline, match="not online"):
            await admin.consumer_running_info("billing", "c")
        with pytest.raises(ConsumerNotOnline, match="no consumer of group unknown"):
            await admin.consumer_status("orders", "unknown")

    scene = with_admin(story)
    assert {request.code for _, _, request in scene.heard} == {
        RequestCode.GET_CONSUMER_CONNECTION_LIST
    }
