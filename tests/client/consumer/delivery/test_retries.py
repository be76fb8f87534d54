"""Messages sent back, to a broker by script and to a real one."""

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.delivery.retries import Retries
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import OrbitError
from orbitmq.message import properties
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.net.connection import Outcome
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ConsumerSendMsgBack, SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Response
from tests.client.consumer.delivery.retry_story import SHORT_LEVELS, fails_until_dead
from tests.client.scene import BROKER_A, NAMES, Scene, play, route
from tests.client.stored import a_stored_message

_SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK
_QUEUE = MessageQueue("orders", "broker-a", 3)


async def _sent(
    scene: Scene, message: StoredMessage, *, max_times: int = -1, level: int = 0, **others: Any
) -> list[Frame]:
    """Send a message back, and return the requests for that."""
    scene.routes |= {"orders": route("a"), "%RETRY%billing": route("a", queues=1)}
    await scene.nameserver()
    await scene.broker()
    settings = ClientSettings(nameserver=str(NAMES[0]), keep_open_ms=0)
    core = await ClientCore.acquire(settings, scene.machine)
    retries = Retries(core, "billing", max_reconsume_times=max_times, **others)
    try:
        await retries.send_back(message, _QUEUE, delay_level=level)
    finally:
        await retries.close()
        await core.release()
    codes = (_SEND_BACK, RequestCode.SEND_MESSAGE_V2)
    return [
        frame for _, address, frame in scene.heard if frame.code in codes and address == BROKER_A
    ]


def test_the_broker_of_a_message_is_asked_to_take_it_back() -> None:
    async def story(scene: Scene) -> None:
        (request,) = await _sent(scene, a_stored_message(at=7), level=5)
        header = request.read(ConsumerSendMsgBack)
        assert (header.offset, header.group, header.delay_level) == (700, "billing", 5)
        assert (header.origin_topic, header.max_reconsume_times) == ("orders", 16)
        assert header.origin_msg_id == a_stored_message(at=7).message_id

    play(story)


@pytest.mark.parametrize(
    ("level", "retries", "delay", "limit"),
    [(0, 0, "3", "16"), (0, 2, "5", "16"), (7, 2, "7", "16"), (-1, 2, "5", "2")],
)
def test_a_copy_is_sent_if_it_refuses(level: int, retries: int, delay: str, limit: str) -> None:
    async def story(scene: Scene) -> None:
        def answer(request: Frame) -> Outcome:
            if request.code == _SEND_BACK:
                return Response(ResponseCode.SYSTEM_ERROR, remark="no")
            if request.code == RequestCode.SEND_MESSAGE_V2:
                return Response(header=SendMessageAnswer(msg_id="A", queue_id=0, queue_offset=1))
            return Response()

        scene.answer = answer
        message = a_stored_message(
            at=7, retries=retries, TAGS="paid", TRAN_MSG="true", colour="blue"
        )
        _, request = await _sent(scene, message, level=level)
        header = request.read(SendMessageV2)
        assert (header.topic, header.producer_group) == ("%RETRY%billing", "CLIENT_INNER_PRODUCER")
        assert header.reconsume_times == retries + 1
        assert str(header.max_reconsume_times) == limit
        assert header.properties is not None
        found = properties.decode(header.properties.encode())
        assert found | {"WAIT": "true"} == {
            "UNIQ_KEY": message.message_id,
            "WAIT": "true",
            "TAGS": "paid",
            "colour": "blue",
            "RETRY_TOPIC": "orders",
            "ORIGIN_MESSAGE_ID": message.message_id,
            "RECONSUME_TIME": str(retries + 1),
            "MAX_RECONSUME_TIMES": limit,
            "DELAY": delay,
        }
        assert bytes(request.body) == b"paid"

    play(story)


def test_an_error_if_nothing_takes_it() -> None:
    async def story(scene: Scene) -> None:
        scene.answer = lambda _request: Response(ResponseCode.SYSTEM_ERROR, remark="no")
        with pytest.raises(OrbitError):
            await _sent(scene, a_stored_message())

    play(story)


def test_a_failed_message_comes_again_by_the_retry_topic_and_ends_as_a_dead_letter() -> None:
    async def story() -> None:
        async with EmbeddedCluster(settings={"messageDelayLevel": SHORT_LEVELS}) as cluster:
            await fails_until_dead(cluster.nameserver)

    asyncio.run(story())
