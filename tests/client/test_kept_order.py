"""The order of a sharding key, whatever times out, is cancelled, fails, or is kept meanwhile.

A model: random calls on some keys, brokers that come and go, and in the end all of them are there.
For each key, what brokers have stored must be in the order of the calls, by the first copy of each
message and by the last one.
"""

import asyncio
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Final, NoReturn

import pytest

from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.key_order import Key
from orbitmq.errors import MessageTooLarge, OrbitError, PartlySent, SendKept, SendUnreachable
from orbitmq.message import batch
from orbitmq.message.model import Message, SendReceipt
from orbitmq.net.connection import Connection, Outcome
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response
from tests.client.post import Post, Script, later, open_post, open_producer, say_nothing
from tests.client.producer.outbox.test_send_or_keep import drained, opened
from tests.client.scene import Scene, play

MOODS: Final = ("up", "slow", "reset", "silent", "lost", "busy")
BUSY: Final = 2
FREE: Final = "free"
"""Stands for no key."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "outbox")


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "orbitmq")


class Brokers:
    """Brokers by mood; notes what each stores, whether it says so or not."""

    def __init__(self, post: Post, rng: random.Random) -> None:
        self._post, self._rng = post, rng
        self.moods = dict.fromkeys("ab", "up")
        self.stored: list[bytes] = []
        post.always = {name: self._script(name) for name in self.moods}

    def _script(self, name: str) -> Script:
        def script(connection: Connection, request: Frame) -> Outcome:
            mood = self.moods[name]
            if mood == "mixed":
                mood = self._rng.choice(MOODS)
            if mood == "reset":
                connection.abort("by script")
                return None
            if mood in ("up", "slow", "lost"):
                self._note(request)
            if mood == "slow":
                return self._later(self._post.stored(request))
            if mood == "busy":
                return Response(BUSY, remark="by script")
            return self._post.stored(request) if mood == "up" else None

        return script

    def _note(self, request: Frame) -> None:
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            self.stored.extend(bytes(one.body) for one in batch.split(request.body))
        else:
            self.stored.append(bytes(request.body))

    async def _later(self, answer: Response) -> Response:
        await asyncio.sleep(self._rng.choice((0.01, 0.3, 1, 2.5)))
        return answer


class Model:
    """Calls at random, and what has become of their messages."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.keys = [f"k{number}" for number in range(rng.choice((1, 2, 3)))]
        self.called: defaultdict[str, list[bytes]] = defaultdict(list)
        self.safe: set[bytes] = set()
        """What has a receipt, or is kept."""
        self.calls: list[asyncio.Task[None]] = []

    async def step(self, producer: Producer, brokers: Brokers) -> None:
        rng, chance = self._rng, self._rng.random()
        timeout_ms = rng.choice((None, None, 50, 300, 300, 3_000, 8_000))
        if chance < 0.5:
            self._call(self._send(producer, self._message(), timeout_ms))
        elif chance < 0.68:
            many = [self._message() for _ in range(rng.randrange(1, 6))]
            self._call(self._send_many(producer, many, timeout_ms))
        elif chance < 0.76:
            if under_way := [call for call in self.calls if not call.done()]:
                rng.choice(under_way).cancel()
        elif chance < 0.9:
            brokers.moods[rng.choice("ab")] = rng.choice((*MOODS, "up", "silent", "mixed"))
        else:
            await asyncio.sleep(rng.choice((0, 0.001, 0.05, 0.25, 0.3, 1, 4, 20)))
        if rng.random() < 0.7:
            await asyncio.sleep(0)

    def _call(self, call: Coroutine[None, None, None]) -> None:
        self.calls.append(asyncio.create_task(call))  # tasks begin in the order of their making

    def _message(self) -> Message:
        key = self._rng.choice((*self.keys, *self.keys, FREE))
        body = f"{key}:{len(self.called[key])}".encode()
        self.called[key].append(body)
        return Message("orders", body, sharding_key=None if key == FREE else key)

    async def _send(self, producer: Producer, message: Message, timeout_ms: int | None) -> None:
        try:
            await producer.send(message, timeout_ms=timeout_ms)
        except SendKept:
            pass
        except OrbitError:
            return
        self.safe.add(message.body)

    async def _send_many(
        self, producer: Producer, messages: Sequence[Message], timeout_ms: int | None
    ) -> None:
        frame_bytes = self._rng.choice((None, 10, 50))
        errors: dict[int, OrbitError] = {}
        try:
            await producer.send_many(messages, timeout_ms=timeout_ms, frame_bytes=frame_bytes)
        except PartlySent as error:
            errors = dict(error.errors)
        except OrbitError as error:
            errors = dict.fromkeys(range(len(messages)), error)
        for index, message in enumerate(messages):
            if isinstance(errors.get(index), SendKept | None):
                self.safe.add(message.body)

    def check(self, stored: Sequence[bytes]) -> None:
        last = {body: place for place, body in enumerate(stored)}
        first = {body: place for place, body in reversed(list(enumerate(stored)))}
        assert self.safe <= first.keys(), "a message that was kept, or has a receipt, is lost"
        for key in self.keys:
            there = [body for body in self.called[key] if body in first]
            assert sorted(there, key=first.__getitem__) == there
            assert sorted(there, key=last.__getitem__) == there


@pytest.mark.parametrize("seed", range(60))
def test_messages_of_a_key_are_stored_in_the_order_of_their_calls(path: str, seed: int) -> None:
    rng = random.Random(seed)

    async def story(scene: Scene) -> None:
        brokers = Brokers(await open_post(scene, queues=rng.choice((1, 2, 4))), rng)
        model, options = Model(rng), {"retries": rng.choice((0, 1)), "outbox_path": path}
        producer = await open_producer(scene, stop_timeout_ms=rng.choice((0, 700)), **options)
        for _ in range(rng.choice((20, 60))):
            await model.step(producer, brokers)
        if rng.random() < 0.3:  # the next one goes on with what is left
            await producer.close()
            producer = await open_producer(scene, **options)
        brokers.moods.update(a="up", b="up")
        await asyncio.gather(*model.calls, return_exceptions=True)
        await drained(producer)
        assert producer.outbox is not None
        assert producer.outbox.refused == []
        model.check(brokers.stored)

    play(story)


# Cases of it


def keyed(body: bytes) -> Message:
    return Message("orders", body, sharding_key="o-42")


async def hung(scene: Scene, path: str, **options: object) -> tuple[Post, Producer]:
    """Return a producer whose brokers say nothing."""
    post, producer = await opened(scene, path, topics=["orders"], retries=0, **options)
    post.always = dict.fromkeys("ab", say_nothing)
    return post, producer


def begin(producer: Producer, body: bytes, timeout_ms: int) -> "asyncio.Task[SendReceipt]":
    return asyncio.create_task(producer.send(keyed(body), timeout_ms=timeout_ms))


def test_a_send_that_timed_out_is_kept_behind_an_earlier_one(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await hung(scene, path)
        sends = [begin(producer, b"%d" % n, (1_000, 300)[n % 2]) for n in range(6)]
        await asyncio.sleep(0.5)
        assert read_contents(path).waiting == ()
        errors = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(error) for error in errors] == [SendKept] * 6
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert post.bodies == [b"%d" % n for n in range(6)]

    play(story)


def test_one_whose_earlier_one_is_stored_is_kept_before_a_later_one(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path, topics=["orders"])
        post.scripts = {name: [later(2.5, post.store)] for name in "ab"}
        sends = [begin(producer, b"%d" % n, ms) for n, ms in enumerate((9_000, 300, 9_000))]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(one) for one in outcomes] == [SendReceipt, SendKept, SendKept]
        await drained(producer)
        assert post.bodies == [b"0", b"1", b"2"]

    play(story)


def test_a_caller_cancelled_while_it_waits_to_be_kept_blocks_no_other(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await hung(scene, path)
        sends = [begin(producer, b"%d" % n, ms) for n, ms in enumerate((1_000, 300, 300, 2_000))]
        await asyncio.sleep(0.5)
        sends[1].cancel()
        await asyncio.sleep(0)
        assert sends[1].cancelled()
        assert read_contents(path).waiting == ()
        await asyncio.wait(sends)
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert post.bodies == [b"0", b"2", b"3"]

    play(story)


def test_a_message_without_key_waits_for_no_other(path: str) -> None:
    async def story(scene: Scene) -> None:
        _post, producer = await hung(scene, path)
        first = begin(producer, b"first", 1_000)
        await asyncio.sleep(0)
        with pytest.raises(SendKept):
            await producer.send(Message("orders", b"1"), timeout_ms=300)
        pair = [keyed(b"second"), Message("orders", b"22")]
        many = asyncio.create_task(producer.send_many(pair, timeout_ms=300))
        await asyncio.sleep(0.5)
        assert not first.done()
        assert sizes_kept(path) == [1, 2]
        outcomes = await asyncio.gather(first, many, return_exceptions=True)
        assert [type(one) for one in outcomes] == [SendKept, PartlySent]
        assert sizes_kept(path) == [1, 2, 5, 6]

    play(story)


def test_an_error_that_no_retry_can_change_is_raised_at_once(path: str) -> None:
    async def story(scene: Scene) -> None:
        _post, producer = await hung(scene, path, max_message_bytes=10)
        first = begin(producer, b"first", 1_000)
        await asyncio.sleep(0)
        with pytest.raises(MessageTooLarge):
            await producer.send(keyed(b"x" * 11))
        assert not first.done()
        await asyncio.wait([first])

    play(story)


def test_a_chosen_queue_does_not_let_a_message_overtake_its_key(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await hung(scene, path)
        queue = (await producer.queues("orders"))[0]
        sends = [begin(producer, b"0", 1_000), begin(producer, b"1", 2_000)]
        await asyncio.sleep(0.5)
        chosen = producer.send(keyed(b"2"), queue=queue, timeout_ms=300)
        outcomes = await asyncio.gather(*sends, chosen, return_exceptions=True)
        assert [type(one) for one in outcomes] == [SendKept] * 3
        post.always = {}
        del post.sent[:]
        await drained(producer)
        assert post.bodies == [b"0", b"1", b"2"]

    play(story)


def test_at_a_close_those_in_line_are_kept_in_their_order(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await hung(scene, path, stop_timeout_ms=100)
        first = begin(producer, b"first", 60_000)
        sends = [begin(producer, b"%d" % n, (60_000, 300)[n % 2]) for n in range(6)]
        await asyncio.sleep(0.5)  # half of them wait for their turn, the others to be kept
        await producer.close()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(one) for one in outcomes] == [SendKept] * 6
        with pytest.raises(SendUnreachable) as raised:
            await first
        assert "could not be kept in the outbox either" in raised.value.__notes__[0]
        post.always = {}
        del post.sent[:]
        await drained(await open_producer(scene, outbox_path=path))
        assert post.bodies == [b"%d" % n for n in range(6)]

    play(story)


def sizes_kept(path: str) -> list[int]:
    return [entry.body_bytes for entry in read_contents(path).waiting]


class Unwalked(Counter[Key]):
    """Counts that nobody walks through: there may be thousands."""

    def __iter__(self) -> NoReturn:
        pytest.fail("a send looked at the keys of all others")

    items = keys = values = __iter__


def test_a_send_looks_at_no_key_but_its_own(path: str) -> None:
    async def story(scene: Scene) -> None:
        post, producer = await opened(scene, path)
        assert producer._keeping is not None
        in_line = producer._keeping._in_line = Unwalked()
        await producer.send(Message("orders", b"free"))
        await producer.send(keyed(b"1"))
        await producer.send_many([keyed(b"2"), Message("orders", b"free too")])
        assert len(post.sent) == 4
        assert len(in_line) == 0, "and leaves nothing behind"

    play(story)
