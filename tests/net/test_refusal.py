import asyncio
import pickle

from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.session import Response


async def answers() -> list[tuple[int, str | None]]:
    def at_once(_connection: Connection, _request: Frame) -> Response:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "no such topic: orders")

    async def later(_connection: Connection, _request: Frame) -> Response:
        await asyncio.sleep(0)
        raise Refusal(ResponseCode.NO_PERMISSION, "may not be read")

    seen = []
    for handler in (at_once, later):
        async with Listener(Address("127.0.0.1", 0), handler) as listener, Dialer() as dialer:
            answer = await dialer.request(listener.address, GetRouteInfo(topic="orders"))
            seen.append((answer.code, answer.remark))
    return seen


def test_a_refusal_is_answered_with_its_code_whether_raised_at_once_or_later() -> None:
    assert asyncio.run(answers()) == [
        (ResponseCode.TOPIC_NOT_EXIST, "no such topic: orders"),
        (ResponseCode.NO_PERMISSION, "may not be read"),
    ]


def test_it_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(Refusal(17, "no such topic")))
    assert (copy.code, copy.remark, str(copy)) == (17, "no such topic", "no such topic")
