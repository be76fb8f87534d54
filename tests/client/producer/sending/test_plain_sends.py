"""Plain sends: the same requests and outcomes as if each was sent alone, with less work."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple
from unittest.mock import patch

import pytest

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import Hooks
from orbitmq.client.producer.sending.sender import Sender
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import MessageTooLarge, SendFailed, SendTimeout, TooManyRequests
from orbitmq.message.model import Message, SendReceipt
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Outcome
from orbitmq.randomness import SeededRandomness
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Response
from tests.client.post import Script, later, open_post, refuse, reset, say_nothing
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route, stand_still

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"], properties={"colour": "blue"})
NUMBER = re.compile(rb"#(\d+)#")


@asynccontextmanager
async def open_sender(
    scene: Scene, *, plainly: bool = True, **settings: object
) -> AsyncIterator[Sender]:
    """Start what a producer sends with."""
    core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
    sender = Sender(
        core,
        ProducerSettings("billing", **settings),  # type: ignore[arg-type]
        Hooks(),
        plainly=plainly,
    )
    try:
        yield sender
    finally:
        await sender.close(5_000)
        await core.release()


async def connect_all(sender: Sender, topic: str = "orders") -> None:
    """Have an open connection for each queue of a topic."""
    target = await sender.targets.find(topic)
    for queue in target.queues:
        await sender.targets.connect(target.of(queue))


def begin(sender: Sender, message: Message = MESSAGE) -> "asyncio.Task[SendReceipt]":
    return asyncio.create_task(sender.send_plain(message))


async def turn() -> None:
    await asyncio.sleep(0)


# The same as one by one


class Seen(NamedTuple):
    """What came of the same sends, without numbers, ids and times that may differ."""

    frames: list[tuple[int, Address, bytes]]
    outcomes: list[str]
    ends: list[SendReceipt | BaseException]
    stored: set[int]
    """Which messages a broker stored."""
    figures: str


def random_message(number: int, chance: Random) -> Message:
    texts = ["paid", 'é"quoted"\\', "100%d %b%%", "日本語😀", "x" * chance.choice([1, 300])]
    others: dict[str, object] = {}
    if chance.random() < 0.05:
        others["sharding_key"] = chance.choice(texts[:2])
    if chance.random() < 0.05:
        others["delay_level"] = 3
    if chance.random() < 0.05:
        others["wait_stored"] = False
    if chance.random() < 0.1:
        others["message_id"] = f'given-"{number}"'
    filling = chance.choice([0, 0, 0, 900, 5_000])
    return Message(
        "orders",
        b"#%d#" % number + bytes(filling),
        tags=chance.choice([None, "paid", "é%d", 'a"b']),
        keys=chance.sample(["o-42", "k%s", "é"], chance.randint(0, 2)),
        properties={f"name{i}é%": chance.choice(texts) for i in range(chance.randint(0, 2))},
        flag=chance.choice([0, 0, -7, 2**31 - 1]),
        **others,  # type: ignore[arg-type]
    )


def random_answer(seed: str, *, breaks: bool) -> Script:
    """Return what a broker does with one attempt of one send: always the same for the same."""
    chance = Random(seed)

    def store(_connection: Connection, request: Frame) -> Response:
        answer = SendMessageAnswer(
            msg_id=f"OID{seed}",
            queue_id=request.read(SendMessageV2).queue_id + (chance.random() < 0.05),
            queue_offset=chance.randint(0, 2**40),
            transaction_id=chance.choice([None, "T"]),
            region=chance.choice([None, "eu"]),
            trace_on=chance.choice([None, True, False]),
        )
        codes = [ResponseCode.SUCCESS] * 20 + [ResponseCode.FLUSH_DISK_TIMEOUT]
        return Response(chance.choice(codes), header=answer)

    late = later(chance.choice([0.01, 0.01, 0.2, 4.0]), store)
    refusals = [refuse(code) for code in (2, 14, 13, int(ResponseCode.GO_AWAY))]
    odd = [*refusals, refuse(0, "without fields"), say_nothing, late, *[reset] * breaks]
    return chance.choice(odd) if chance.random() < 0.25 else store


def without_chance(text: str) -> str:
    """Return a text without ids and request numbers."""
    return re.sub(r"[0-9A-F]{32}", "ID", re.sub(r"request \d+", "request N", text))


def neutral(frame: bytes) -> bytes:
    """Return a request without its number, id and time."""
    frame = re.sub(rb'"opaque":-?\d+', b'"opaque":N', frame)
    frame = re.sub(rb'"g":"\d+"', b'"g":"T"', frame)
    return re.sub(rb"UNIQ_KEY\\u0001[0-9A-F]{32}", b"UNIQ_KEY ID", frame)


def requests_in(data: bytes) -> list[bytes]:
    """Return the sends in what one write had."""
    found = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frame, data = data[:end], data[end:]
        if b'"code":310,' in frame:
            found.append(neutral(frame[8:]))
    return found


class SamePauses(SeededRandomness):
    """Pauses don't depend on which of two sends fails first."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


class Brokers:
    """Two brokers that do something different with each attempt of each send."""

    def __init__(self, scene: Scene, seed: int, *, breaks: bool) -> None:
        self.frames: list[tuple[int, Address, bytes]] = []
        self.stored: set[int] = set()
        self._scene = scene
        self._seed = seed
        self._breaks = breaks
        self._tries: dict[int, int] = {}

    async def open(self) -> None:
        scene = self._scene
        scene.network.watch = self._watch
        scene.routes["orders"] = route("a", "b", queues=2)
        await scene.nameserver()
        for address in (BROKER_A, BROKER_B):
            await scene.listen(address, self._serve)

    def _watch(self, _from: Address, to: Address, data: bytes) -> None:
        if to in (BROKER_A, BROKER_B):
            now_ms = self._scene.clock.monotonic_ms()
            self.frames.extend((now_ms, to, one) for one in requests_in(data))

    def _serve(self, connection: Connection, request: Frame) -> Outcome:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return Response()
        body = bytes(request.body)
        found = NUMBER.match(body) or NUMBER.match(zlib.decompress(body))
        assert found is not None
        number = int(found[1])
        self._tries[number] = self._tries.get(number, 0) + 1
        script = random_answer(f"{self._seed}-{number}-{self._tries[number]}", breaks=self._breaks)
        outcome = script(connection, request)
        if isinstance(outcome, Response) and outcome.header is None:
            return outcome
        if outcome is not None:
            self.stored.add(number)
        return outcome


def sends_of(seed: int, *, plainly: bool, breaks: bool = False, crowd: bool = True) -> Seen:
    """Make random sends, of which some fail, and return what came of them."""

    async def story(scene: Scene) -> Seen:
        brokers = Brokers(scene, seed, breaks=breaks)
        await brokers.open()
        scene.machine.randomness = SamePauses(7)
        chance = Random(seed)
        async with open_sender(
            scene,
            plainly=plainly,
            in_flight_max=chance.choice([10, 40, 1_000]),
            per_try_timeout_ms=chance.choice([None, 500]),
            retry_another_broker_when_not_stored=chance.random() < 0.5,
        ) as sender:
            sends: list[asyncio.Task[SendReceipt]] = []
            while len(sends) < 120:
                for _ in range(chance.choice([1, 1, 5, 40]) if crowd else 1):
                    sends.append(begin(sender, random_message(len(sends), chance)))
                await asyncio.sleep(chance.choice([0, 0, 0.01, 0.5]))
                if chance.random() < 0.3:
                    chance.choice(sends).cancel()
                if not crowd:
                    await asyncio.wait(sends)
            ends = await asyncio.gather(*sends, return_exceptions=True)
            assert sender.permits.in_flight == sender.permits.in_flight_bytes == 0
            figures = sender.statistics.prometheus()
        outcomes = [without_chance(f"{end!r} {all_of(end)}") for end in ends]
        return Seen(sorted(brokers.frames), outcomes, ends, brokers.stored, figures)

    return play(story)


def all_of(end: SendReceipt | BaseException) -> list[object]:
    names = ("attempts", "spent", "may_be_stored", "code", "__notes__")
    return [getattr(end, name, None) for name in names]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("crowd", [True, False])
def test_sends_together_are_the_same_as_sends_alone(seed: int, crowd: bool) -> None:
    # With several in flight, what a broken connection loses depends on their order in one turn.
    together = sends_of(seed, plainly=True, breaks=not crowd, crowd=crowd)
    alone = sends_of(seed, plainly=False, breaks=not crowd, crowd=crowd)
    assert together.frames == alone.frames
    assert together.outcomes == alone.outcomes
    assert together.figures == alone.figures


@pytest.mark.parametrize("seed", range(8))
def test_errors_of_broken_connections_say_what_may_be_stored(seed: int) -> None:
    seen = sends_of(seed, plainly=True, breaks=True)
    failed = 0
    for number, end in enumerate(seen.ends):
        if isinstance(end, SendReceipt):
            assert number in seen.stored
        elif isinstance(end, SendFailed):
            failed += 1
            assert end.may_be_stored or number not in seen.stored
        else:
            assert isinstance(end, asyncio.CancelledError)
    assert failed


# Turns


def writes_of(scene: Scene) -> list[int]:
    """Return a list of how many sends each write will have."""
    writes: list[int] = []

    def watch(_from: Address, _to: Address, data: bytes) -> None:
        if count := len(requests_in(data)):
            writes.append(count)

    scene.network.watch = watch
    return writes


def test_sends_of_one_turn_are_one_write() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        writes = writes_of(scene)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            receipts = await asyncio.gather(*(begin(sender) for _ in range(10)))
            assert [one.queue_offset for one in receipts] == [n for n in range(5) for _ in "ab"]
            assert writes == [10]

    play(story)


@pytest.mark.parametrize(
    ("in_flight", "more", "writes"), [(0, 40, [16, 16, 8]), (160, 100, [64, 36]), (400, 100, [100])]
)
def test_many_sends_leave_before_the_turn_ends(
    in_flight: int, more: int, writes: list[int]
) -> None:
    async def story(scene: Scene) -> list[int]:
        post = await open_post(scene, "a")
        async with open_sender(scene, in_flight_max=2_000) as sender:
            await connect_all(sender)
            post.always["a"] = later(1.0, post.store)
            sends = [begin(sender) for _ in range(in_flight)]
            await asyncio.sleep(0.1)
            seen = writes_of(scene)
            sends += [begin(sender) for _ in range(more)]
            await asyncio.sleep(0.1)
            await asyncio.gather(*sends)
            return seen

    assert play(story) == writes


def test_each_broker_has_a_write_of_its_own() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene)
        writes = writes_of(scene)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            await asyncio.gather(*(begin(sender) for _ in range(8)))
            assert writes == [4, 4]
            assert sorted(post.brokers) == list("aaaabbbb")

    play(story)


def test_sends_that_begin_late_in_a_blocked_turn_have_their_whole_time() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        async with open_sender(scene) as sender:
            await connect_all(sender)
            first = begin(sender)
            asyncio.get_running_loop().call_soon(stand_still, 4.0)
            second = begin(sender)
            with pytest.raises(SendTimeout, match="was not sent within 3000 ms"):
                await first
            await second
            assert len(post.sent) == 1

    play(story)


# Ends


def test_a_cancelled_send_gives_its_permit_back_at_once() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        async with open_sender(scene) as sender:
            await connect_all(sender)
            post.always["a"] = later(1.0, post.store)
            sends = [begin(sender) for _ in range(3)]
            await asyncio.sleep(0.5)
            sends[1].cancel()
            await asyncio.wait([sends[1]])
            assert sender.permits.in_flight == 2
            assert sender.permits.in_flight_bytes == 2 * len(MESSAGE.body)
            await asyncio.sleep(1)
            assert sender.permits.in_flight == 0
            assert (sender.statistics.sent, sender.statistics.failed) == (2, 1)

    play(story)


@pytest.mark.parametrize("answer", ["stored", "refused"])
def test_a_send_that_is_cancelled_in_the_turn_of_its_answer_ends_once(answer: str) -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        async with open_sender(scene) as sender:
            await connect_all(sender)

            def settle(connection: Connection, request: Frame) -> Response:
                asyncio.get_running_loop().call_later(0, cancel_when_answered)
                return post.stored(request) if answer == "stored" else Response(2)

            def cancel_when_answered() -> None:
                if sender.statistics.sent or sending._fut_waiter.done():  # type: ignore[attr-defined]
                    sending.cancel()
                else:
                    asyncio.get_running_loop().call_soon(cancel_when_answered)

            post.always["a"] = settle
            sending = begin(sender)
            await asyncio.wait([sending])
            assert sending.cancelled()
            assert sender.permits.in_flight == 0
            figures = (sender.statistics.sent, sender.statistics.failed)
            assert figures == ((1, 0) if answer == "stored" else (0, 1))

    play(story)


def test_a_burst_that_can_t_be_written_is_a_failed_attempt_of_each() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        async with open_sender(scene) as sender:
            await connect_all(sender)
            fault = TooManyRequests("as many as allowed wait")
            with patch.object(Connection, "start_burst", side_effect=fault):
                sends = [begin(sender) for _ in range(3)]
                await turn()
                await turn()
            await asyncio.gather(*sends)
            assert len(post.sent) == 3
            assert sender.permits.in_flight == 0
            assert 'retries_total{group="billing"} 3' in sender.statistics.prometheus()

    play(story)


def test_a_message_id_that_is_too_long_fails_alone() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            long = begin(sender, MESSAGE.replace(message_id="x" * 40_000))
            others = [begin(sender) for _ in range(3)]
            await asyncio.wait([long, *others])
            assert isinstance(long.exception(), MessageTooLarge)
            assert sorted(one.result().queue_offset for one in others) == [0, 1, 2]
            assert len(post.sent) == 3
            assert sender.permits.in_flight == 0

    play(story)


def test_a_connection_that_closes_before_the_turn_ends_is_opened_again() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            target = sender.targets.ready("orders")
            assert target is not None
            connection = target.of(target.queues[0]).connection
            assert connection is not None
            sending = begin(sender)
            await turn()
            connection.abort("by the test")
            assert (await sending).queue_offset == 0
            assert len(post.sent) == 1

    play(story)


def test_the_permits_of_sends_that_wait_go_to_the_next_in_line() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        post.always["a"] = later(0.1, post.store)
        async with open_sender(scene, in_flight_max=10) as sender:
            await connect_all(sender)
            sends = [begin(sender) for _ in range(35)]
            await asyncio.gather(*sends)
            assert len(post.sent) == 35
            assert max(one.at_ms for one in post.sent) == 300

    play(story)


def test_a_closed_connection_is_forgotten() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a", queues=1)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            post.scripts["a"] = [post.store, reset]
            await begin(sender)
            assert "over 1 connections" in repr(sender._plain)
            await begin(sender)
            await begin(sender)
            assert "over 1 connections" in repr(sender._plain)

    play(story)


# What is plain


@pytest.mark.parametrize(
    ("message", "is_plain"),
    [
        (MESSAGE, True),
        (Message("orders", b"x"), True),
        (Message("orders", b"x", tags="é", message_id="0A01"), True),
        (Message("orders", bytes(4_095)), True),
        (Message("orders", bytes(4_096)), False),
        (Message("orders", b"x", sharding_key="k"), False),
        (Message("orders", b"x", delay_level=3), False),
        (Message("orders", b"x", wait_stored=False), False),
        (Message("orders", b"x", priority=1), False),
        (Message("orders", b"x", keys=["k" * 5_000]), False),
        (Message("orders", b"x", tags="t" * 2_000), False),
    ],
)
def test_everyday_messages_are_plain(message: Message, is_plain: bool) -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        async with open_sender(scene) as sender:
            await connect_all(sender)
            with patch.object(
                Connection, "start_burst", autospec=True, side_effect=Connection.start_burst
            ) as bursts:
                await begin(sender, message)
            assert bursts.called is is_plain

    play(story)


@pytest.mark.parametrize(
    "settings", [{"fault_tolerance": "java5"}, {"short_header": False}, {"require": "stored"}]
)
def test_some_settings_need_care(settings: dict[str, object]) -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        async with open_sender(scene, **settings) as sender:  # type: ignore[arg-type]
            await connect_all(sender)
            with patch.object(Connection, "start_burst") as bursts:
                await begin(sender)
            assert not bursts.called

    play(story)


def test_forms_of_many_tags_don_t_pile_up() -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a", queues=1)
        async with open_sender(scene) as sender:
            await connect_all(sender)
            for number in range(1_100):
                await begin(sender, Message("orders", b"x", tags=f"tag-{number}"))
            target = sender.targets.ready("orders")
            assert target is not None
            assert len(target.of(target.queues[0]).forms) <= 1_024

    play(story)
