import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.operator.relays import RelayHandlers
from orbitmq.message.ids import offset_id
from orbitmq.message.model import MessageQueue
from orbitmq.message.scan import decode_all
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.offsets import ConsumerStatus
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.heartbeat import ConsumeMessageDirectly, GetConsumerRunningInfo
from orbitmq.wire.headers.offset import GetConsumerStatus
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response
from tests.broker.fake_clients import Client, frame, joined
from tests.broker.world import World
from tests.store.logs import HERE

OPERATOR = Client("operator")


class Scene(World):
    """A group with one consumer, and an operator's request to it."""

    def __init__(self) -> None:
        super().__init__()
        members = Members()
        self.consumer = joined(members, "billing", "orders", client=Client("a"))
        self.handlers = RelayHandlers(
            calls=ClientCalls(members), store=self.store, broker_name="broker-a"
        )

    def ask(self, header: Header, *, code: int | None = None) -> Response:
        request = frame(header.code if code is None else code, fields=header.to_texts())
        outcome = self.handlers.table()[request.code](OPERATOR.connection, request)
        return asyncio.run(finished(cast(Awaitable[Response], outcome)))


async def finished(outcome: Awaitable[Response]) -> Response:
    return await outcome


def directly(**fields: Any) -> ConsumeMessageDirectly:
    given = {"consumer_group": "billing", "client_id": "a", "msg_id": offset_id(HERE, 0)}
    return ConsumeMessageDirectly(**{**given, **fields})


def test_running_information_is_asked_of_the_client() -> None:
    scene = Scene()
    scene.consumer.answer = frame(body=b'{"properties":{}}')
    asked = GetConsumerRunningInfo(consumer_group="billing", client_id="a", jstack_enable=True)
    assert scene.ask(asked).body == b'{"properties":{}}'
    assert scene.consumer.asked == [(asked, b"", 10_000, None)]


def test_a_message_is_read_here_and_consumed_there() -> None:
    scene = Scene()
    scene.put("orders")
    scene.ask(directly())
    ((header, body, _, _),) = scene.consumer.asked
    assert isinstance(header, ConsumeMessageDirectly)
    assert header.broker_name == "broker-a"
    assert [message.topic for message in decode_all(body)] == ["orders"]


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"client_id": None}, ResponseCode.INVALID_PARAMETER, "clientId and msgId are missing"),
        ({"msg_id": ""}, ResponseCode.INVALID_PARAMETER, "clientId and msgId are missing"),
        ({"msg_id": "nonsense"}, ResponseCode.INVALID_PARAMETER, "nonsense"),
        ({"msg_id": offset_id(HERE, 99)}, ResponseCode.SYSTEM_ERROR, "no message is stored"),
        ({"client_id": "b"}, ResponseCode.SYSTEM_ERROR, "<billing> <b> not online"),
    ],
)
def test_what_cannot_be_consumed_is_refused(fields: dict[str, Any], code: int, remark: str) -> None:
    scene = Scene()
    scene.put("orders")
    with pytest.raises(Refusal, match=remark) as refusal:
        scene.ask(directly(**fields))
    assert refusal.value.code == code
    assert scene.consumer.asked == []


def test_the_status_of_consumers_is_gathered() -> None:
    scene = Scene()
    queue = MessageQueue("orders", "broker-a", 0)
    results = ConsumerStatus(message_queue_table=QueueMap({queue: 7}))
    scene.consumer.answer = frame(body=results.to_json())
    answer = scene.ask(
        GetConsumerStatus(topic="orders", group="billing"),
        code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    )
    assert isinstance(answer.body, bytes)
    assert ConsumerStatus.from_json(answer.body).consumer_table["a"][queue] == 7
