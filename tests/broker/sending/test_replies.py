import asyncio
from typing import Any

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.sending.replies import Replies
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.clock import Clock
from orbitmq.errors import RequestTimeout
from orbitmq.message.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, decode
from orbitmq.net.refusal import Refusal
from orbitmq.testing.clocks import run_virtual
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ReplyMessage
from tests.broker.fake_clients import Client, frame
from tests.broker.send_world import HERE, header
from tests.broker.world import HandClock

REPLIER = "10.0.0.8:40000"
TO_ASKER = {REPLY_TO_CLIENT: "asker", "CORRELATION_ID": "c-1"}


class Scene:
    """A broker that knows one requester."""

    def __init__(self, clock: Clock | None = None, **settings: Any) -> None:
        self.members = Members()
        self.requester = Client("asker")
        self.members.join_producers("askers", self.requester.member())
        self.clock = clock or HandClock()
        self.replies = Replies(
            members=self.members,
            settings=LiveSettings(BrokerSettings(**settings)),
            clock=self.clock,
            store_host=lambda: HERE,
        )

    async def push(self, body: bytes = b"42", *, to: str = "asker") -> str | None:
        found = {**TO_ASKER, REPLY_TO_CLIENT: to}
        return await self.replies.push(header("replies"), found, frame(body=body), REPLIER)


def test_the_requester_gets_the_reply_with_who_sent_it_and_when() -> None:
    scene = Scene()
    assert asyncio.run(scene.push()) is None
    ((pushed, body, timeout_ms, _),) = scene.requester.asked
    assert isinstance(pushed, ReplyMessage)
    assert (body, timeout_ms) == (b"42", 10_000)
    assert (pushed.born_host, pushed.store_host) == (REPLIER, str(HERE))
    assert pushed.store_timestamp == scene.clock.now_ms()
    assert pushed.unit_mode is False
    found = decode((pushed.properties or "").encode())
    assert found == {**TO_ASKER, PUSH_REPLY_TIME: str(scene.clock.now_ms())}
    assert scene.replies.waiting == 0


@pytest.mark.parametrize(
    ("client_id", "remark"),
    [
        ("", "reply message properties[REPLY_TO_CLIENT] is null"),
        ("other", "push reply message fail, channel of <other> not found."),
    ],
)
def test_a_reply_without_a_requester_says_so(client_id: str, remark: str) -> None:
    scene = Scene()
    found = {REPLY_TO_CLIENT: client_id} if client_id else {}
    why = asyncio.run(scene.replies.push(header("replies"), found, frame(), REPLIER))
    assert (why or "").startswith(remark)
    assert scene.requester.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        frame(ResponseCode.SYSTEM_ERROR, remark="process reply message fail"),
        RequestTimeout("process reply message fail", address="10.0.0.7:1"),
    ],
)
def test_a_reply_that_is_not_confirmed_says_why(answer: Frame | RequestTimeout) -> None:
    scene = Scene()
    scene.requester.answer = answer
    why = asyncio.run(scene.push())
    assert (why or "").startswith("push reply message to askerfail.")
    assert "process reply message fail" in (why or "")
    assert scene.replies.waiting == 0


class Silent(Client):
    """A requester that confirms only when the test lets it."""

    def __init__(self, client_id: str) -> None:
        super().__init__(client_id)
        self.may_confirm = asyncio.Event()

    async def request(self, *args: Any, **more: Any) -> Frame:
        await self.may_confirm.wait()
        return await super().request(*args, **more)


def test_a_silent_requester_delays_only_its_own_replies() -> None:
    async def main(clock: Clock) -> None:
        scene = Scene(clock, reply_thread_pool_queue_capacity=2)
        silent = Silent("silent")
        scene.members.join_producers("askers", silent.member())
        waiting = asyncio.create_task(scene.push(to="silent"))
        await asyncio.sleep(1.5)
        assert scene.replies.waiting == 1
        assert await scene.push() is None  # another requester's
        more = asyncio.create_task(scene.push(to="silent"))
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match=r"\[OVERLOAD\].*queue: 1500ms, size of queue: 2") as full:
            await scene.push()
        assert full.value.code == ResponseCode.SYSTEM_BUSY
        silent.may_confirm.set()
        assert (await waiting, await more) == (None, None)
        assert await scene.push() is None

    run_virtual(main)


def test_bytes_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.sending.fast_fail.WAITING_BYTES_MAX", 100)

    async def main(clock: Clock) -> None:
        scene = Scene(clock)
        silent = Silent("silent")
        scene.members.join_producers("askers", silent.member())
        waiting = asyncio.create_task(scene.push(bytes(100), to="silent"))
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match=r"\[REJECTREQUEST\]"):
            await scene.push()
        silent.may_confirm.set()
        await waiting
        assert await scene.push() is None

    run_virtual(main)
