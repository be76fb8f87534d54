"""Our producer and two Java brokers, with a proxy before each that delays, loses, resets, answers.

What comes of each fault is told by the attempts of the error or the counts of the proxies, and what
is stored is read back by Java's consumer. Time that a broker is avoided for is leapt over.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import RETRY_CODES
from orbitmq.errors import SendFailed, SendRefused, SendTimeout
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.codes import RequestCode, ResponseCode
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.fault_proxy import Answered, CutOff, Fault, FaultProxy, Held, Late, Lost
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaCluster
from tests.interop.leaping import leap, run_leaping
from tests.interop.team import Team
from tests.interop.waiting import until, until_async

A, B = "java-a", "java-b"
PATIENT_MS = 20_000
"""A machine that runs several of these at once may take its time."""
SHORT_MS = 500
"""How long a try that gets no answer is given."""

STORED = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
}
"""Codes that come with a receipt."""


@dataclass(frozen=True)
class Brokers:
    """Two brokers in one cluster, and Java clients."""

    cluster: JavaCluster
    other: JavaBroker
    team: Team

    def topic(self, name: str) -> str:
        """Create a topic with a queue on each, and return it when clients can find both."""
        for broker in (self.cluster.broker, self.other):
            broker.create_topic(name, queues=1)
        nameserver = self.cluster.nameserver
        until(lambda: len(nameserver.route(name).queue_datas) == 2, what=f"both of {name}")
        return name


@dataclass(frozen=True)
class Faulty:
    """A producer, and the proxies that it sends through, by the name of the broker."""

    producer: Producer
    proxies: dict[str, FaultProxy]

    def script(self, *faults: Fault) -> None:
        """Let the next sends meet these, whichever broker they go to."""
        next(iter(self.proxies.values())).script.extend(faults)

    @property
    def seen(self) -> int:
        """How many sends came to any broker."""
        return sum(proxy.seen for proxy in self.proxies.values())


@pytest.fixture(scope="module", params=counterparts.ROCKETMQ_VERSIONS)
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    """Two brokers of each version in turn."""
    version: str = request.param
    if (why := counterparts.missing_for(version)) is not None:
        decline(why)
    java: Java = request.getfixturevalue(f"java_{version.replace('.', '')}")
    folder = tmp_path_factory.mktemp(f"faults-{version}")
    with JavaCluster(version, folder) as cluster:
        nameserver = cluster.nameserver.address
        settings = {"brokerName": B}
        with JavaBroker(version, folder / "b", nameserver=nameserver, settings=settings) as other:
            addresses = [str(cluster.broker.address), str(other.address)]
            yield Brokers(cluster, other, Team(java, str(nameserver), addresses))


@pytest.fixture(scope="module")
def topic(brokers: Brokers) -> str:
    """One for all codes: a broker takes a second to tell of a topic."""
    return brokers.topic("faults-codes")


@asynccontextmanager
async def faulty(brokers: Brokers, **options: object) -> AsyncIterator[Faulty]:
    addresses = [brokers.cluster.broker.address, brokers.other.address]
    async with FaultProxy(addresses[0]) as first, FaultProxy(addresses[1]) as second:
        second.script = first.script  # the faults are those of the next sends, wherever they go
        given: dict[str, object] = {
            "nameserver": str(brokers.cluster.nameserver.address),
            "address_map": {
                str(address): str(proxy.at)
                for address, proxy in zip(addresses, (first, second), strict=True)
            },
            "send_timeout_ms": PATIENT_MS,
            **options,
        }
        async with Producer("ours", **given) as producer:  # type: ignore[arg-type]
            yield Faulty(producer, {A: first, B: second})


def played(
    brokers: Brokers,
    story: Callable[[Faulty], Awaitable[None]],
    *,
    pace: float = 1.0,
    **options: object,
) -> None:
    async def main() -> None:
        async with faulty(brokers, **options) as scene:
            await story(scene)

    run_leaping(main(), pace=pace)


def bodies(brokers: Brokers, topic: str, count: int) -> list[bytes]:
    with brokers.team.consumer(topic) as consumer:
        return sorted(one.body for one in consumer.wait_for(count))


@pytest.mark.parametrize("code", sorted(set(ResponseCode) - STORED))
def test_each_code_is_tried_again_if_java_does_and_told_if_not(
    brokers: Brokers, topic: str, code: int
) -> None:
    async def story(scene: Faulty) -> None:
        scene.script(Answered(code))
        if code == ResponseCode.GO_AWAY:  # the connection is left, and the try made again
            receipt = await scene.producer.send(Message(topic, b"%d" % code))
            assert scene.seen == 2
            assert receipt.queue_offset >= 0
        elif code in RETRY_CODES:
            receipt = await scene.producer.send(Message(topic, b"%d" % code))
            assert [proxy.seen for proxy in scene.proxies.values()] == [1, 1], "another broker"
            assert receipt.queue_offset >= 0
        else:
            with pytest.raises(SendRefused) as caught:
                await scene.producer.send(Message(topic, b"%d" % code))
            assert (caught.value.code, len(caught.value.attempts)) == (code, 1)
            assert "by script" in str(caught.value)
            assert not caught.value.may_be_stored
            assert scene.seen == 1

    played(brokers, story)


def test_a_code_that_all_brokers_answer_ends_after_three_tries(brokers: Brokers) -> None:
    topic = brokers.topic("faults-busy")

    async def story(scene: Faulty) -> None:
        for proxy in scene.proxies.values():
            proxy.always = Answered(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system is busy")
        with pytest.raises(SendRefused, match="OVERLOAD") as caught:
            await scene.producer.send(Message(topic, b"x"))
        names = [attempt.queue.broker_name for attempt in caught.value.attempts]
        assert len(names) == 3
        assert names[0] != names[1] != names[2], "the last one that failed is avoided"

    played(brokers, story)


def test_a_reset_is_tried_again_on_the_other_broker(brokers: Brokers) -> None:
    topic = brokers.topic("faults-reset")

    async def story(scene: Faulty) -> None:
        await scene.producer.send(Message(topic, b"before"))
        scene.script(CutOff())
        receipt = await scene.producer.send(Message(topic, b"after"))
        assert receipt.queue_offset >= 0
        assert scene.seen == 3

    played(brokers, story)
    assert bodies(brokers, topic, 2) == [b"after", b"before"]


def test_a_reset_ends_a_send_to_a_chosen_queue(brokers: Brokers) -> None:
    topic = brokers.topic("faults-chosen")

    async def story(scene: Faulty) -> None:
        (queue, _) = await scene.producer.queues(topic)
        scene.script(CutOff())
        with pytest.raises(SendFailed) as caught:
            await scene.producer.send(Message(topic, b"x"), queue=queue)
        assert [attempt.queue for attempt in caught.value.attempts] == [queue]
        assert caught.value.may_be_stored
        scene.script(CutOff())
        with pytest.raises(SendFailed) as caught:
            await scene.producer.send(Message(topic, b"x"), selector=lambda there, _one: there[1])
        assert len(caught.value.attempts) == 1

    played(brokers, story)


def test_a_late_broker_is_waited_for(brokers: Brokers) -> None:
    topic = brokers.topic("faults-late")

    async def story(scene: Faulty) -> None:
        scene.script(Late(0.3))
        assert (await scene.producer.send(Message(topic, b"late"))).queue_offset == 0
        assert scene.seen == 1

    played(brokers, story)
    assert bodies(brokers, topic, 1) == [b"late"]


def test_a_lost_answer_leaves_two_copies_with_one_id(brokers: Brokers) -> None:
    topic = brokers.topic("faults-lost-answer")
    ids: list[str] = []

    async def story(scene: Faulty) -> None:
        scene.script(Lost(is_stored=True))
        ids.append((await scene.producer.send(Message(topic, b"twice"))).message_id)
        assert [proxy.seen for proxy in scene.proxies.values()] == [1, 1]

    played(brokers, story, per_try_timeout_ms=SHORT_MS)
    with brokers.team.consumer(topic) as consumer:
        received = consumer.wait_for(2)
    assert [(one.body, one.message_id) for one in received] == [(b"twice", ids[0])] * 2


def test_brokers_that_say_nothing_take_all_of_the_time_and_no_more_tries(brokers: Brokers) -> None:
    topic = brokers.topic("faults-silent")

    async def story(scene: Faulty) -> None:
        for proxy in scene.proxies.values():
            proxy.always = Lost()
        with pytest.raises(SendTimeout) as caught:
            await scene.producer.send(Message(topic, b"x"), timeout_ms=3 * SHORT_MS)
        error = caught.value
        assert len(error.attempts) == scene.seen == 1, "without a limit per try, one takes it all"
        assert error.may_be_stored
        assert error.timeout_ms == 3 * SHORT_MS

    played(brokers, story)


def test_sends_go_on_after_any_mixture_of_faults(brokers: Brokers) -> None:
    topic = brokers.topic("faults-mixture")
    faults: list[Fault] = [
        Late(0.05),
        CutOff(),
        Answered(ResponseCode.SYSTEM_ERROR),
        Lost(),
        Answered(ResponseCode.SYSTEM_BUSY),
    ] * 4
    expected = [b"%03d" % number for number in range(100)]

    async def story(scene: Faulty) -> None:
        async def one(body: bytes) -> MessageQueue:
            while True:
                with suppress(SendFailed):  # three faults in a row
                    return (await scene.producer.send(Message(topic, body))).queue

        scene.script(*faults)
        queues = await asyncio.gather(*(one(body) for body in expected))
        assert len(set(queues)) == 2

    # The last try of a send takes what is left of its time.
    played(brokers, story, per_try_timeout_ms=SHORT_MS, send_timeout_ms=3 * SHORT_MS)
    with brokers.team.consumer(topic) as consumer:  # some come twice, after a reset
        until(lambda: {*consumer.bodies()} >= {*expected}, what="all bodies")
        assert {*consumer.bodies()} == {*expected}


# Fault tolerance

WAYS = ("off", "java5", "java4", "adaptive")
SLOW_S = 6.0
"""Slow by any table."""
RESET_BARS_S = {"off": 0.0, "java5": 10.0, "java4": 600.0, "adaptive": 0.25}
SLOW_BARS_S = {"off": 0.0, "java5": 10.0, "java4": 180.0, "adaptive": 0.25}
"""For how long a broker is avoided after a reset, or after an answer that took six seconds."""
PACE = 0.1
"""A broker on a busy machine, which takes half a second to answer, is none that is slow."""
TURNS_S = 10
STEP_S = 0.05


async def where(scene: Faulty, topic: str, count: int) -> Counter[str]:
    """Send so many, one after another, and return how many each broker has stored."""
    message = Message(topic, b"where?")
    return Counter([(await scene.producer.send(message)).queue.broker_name for _ in range(count)])


async def until_both_take_turns(scene: Faulty, topic: str) -> None:
    """Send until the last ten went to both in turn; fail if that takes long."""
    last: deque[str] = deque(maxlen=10)
    async with asyncio.timeout(TURNS_S):
        while Counter(last) != {A: 5, B: 5}:
            last.extend(await where(scene, topic, 1))
            leap(STEP_S)


async def until_it_is_over(scene: Faulty, topic: str, way: str, seconds: float) -> None:
    """Let the time pass for which A is avoided, and return when it is used again."""
    if way.startswith("java"):
        leap(seconds / 2)
        assert await where(scene, topic, 10) == {B: 10}
        seconds /= 2
    leap(seconds)
    await until_both_take_turns(scene, topic)


async def slowed_down(scene: Faulty, topic: str, *names: str, seconds: float) -> None:
    """Have brokers take a send so late."""
    proxies = [scene.proxies[name] for name in names]
    for proxy in proxies:
        proxy.always = Held()
    sends = [
        asyncio.create_task(
            scene.producer.send(Message(topic, b"slow"), queue=MessageQueue(topic, name, 0))
        )
        for name in names
    ]
    await until_async(lambda: all(proxy.held for proxy in proxies), what="the sends wait")
    leap(seconds)
    for proxy in proxies:
        proxy.always = None
        proxy.release()
    receipts = await asyncio.gather(*sends)
    assert [receipt.queue.broker_name for receipt in receipts] == [*names]


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_that_resets_is_avoided_until_its_time_is_over(
    brokers: Brokers, topic: str, way: str
) -> None:
    async def story(scene: Faulty) -> None:
        bad = scene.proxies[A]
        assert await where(scene, topic, 10) == {A: 5, B: 5}
        seen, bad.always = bad.seen, CutOff()
        assert await where(scene, topic, 10) == {B: 10}
        if way == "off":
            assert bad.seen - seen >= 5, "each time it has its turn it is tried, in vain"
        else:
            assert bad.seen - seen == 1, "what one send met steers all"
        bad.always = None
        await until_it_is_over(scene, topic, way, RESET_BARS_S[way])

    played(brokers, story, fault_tolerance=way, pace=PACE)


@pytest.mark.parametrize("way", WAYS)
def test_a_slow_broker_is_avoided_until_its_time_is_over(
    brokers: Brokers, topic: str, way: str
) -> None:
    async def story(scene: Faulty) -> None:
        assert await where(scene, topic, 10) == {A: 5, B: 5}
        await slowed_down(scene, topic, A, seconds=SLOW_S)
        expected = {A: 5, B: 5} if way == "off" else {B: 10}
        assert await where(scene, topic, 10) == expected
        await until_it_is_over(scene, topic, way, SLOW_BARS_S[way])

    played(brokers, story, fault_tolerance=way, pace=PACE)


def test_adaptive_probes_a_silent_broker_before_anything_timed_out(
    brokers: Brokers, topic: str
) -> None:
    async def story(scene: Faulty) -> None:
        silent, message = scene.proxies[A], Message(topic, b"adaptive")
        assert await where(scene, topic, 10) == {A: 5, B: 5}
        silent.always = Held()
        sends = [asyncio.create_task(scene.producer.send(message)) for _ in range(2)]
        await until_async(lambda: silent.held, what="a send waits")
        leap(1.0)
        sends += [asyncio.create_task(scene.producer.send(message)) for _ in range(10)]
        await until_async(lambda: sum(send.done() for send in sends) == 10, what="ten are stored")
        assert len(silent.held) == 2, "the first, and one of ten that probes"
        silent.always = None
        silent.release()
        stored = Counter([receipt.queue.broker_name for receipt in await asyncio.gather(*sends)])
        assert stored == {A: 2, B: 10}
        await until_both_take_turns(scene, topic)

    played(brokers, story, fault_tolerance="adaptive", pace=PACE)


def test_java5_s_detector_finds_a_broker_that_is_back(brokers: Brokers, topic: str) -> None:
    """Both are barred for half a minute, so that which of them can be reached makes the difference.

    The detector looks every three seconds.
    """

    async def story(scene: Faulty) -> None:
        gone, there = scene.proxies[A], scene.proxies[B]
        assert await where(scene, topic, 10) == {A: 5, B: 5}
        await slowed_down(scene, topic, A, B, seconds=16)
        await until_both_take_turns(scene, topic)
        await gone.leave()
        queue = MessageQueue(topic, A, 0)
        with pytest.raises(SendFailed):
            await scene.producer.send(Message(topic, b"x"), queue=queue, timeout_ms=200)
        retried = retries_of(scene.producer)
        assert await where(scene, topic, 10) == {B: 10}
        await next_round(there)
        assert await where(scene, topic, 10) == {B: 10}
        assert retries_of(scene.producer) == retried, "nothing was tried where nobody is"
        await gone.come_back()
        await next_round(gone)
        await until_both_take_turns(scene, topic)

    async def next_round(proxy: FaultProxy) -> None:
        before = proxy.heard[RequestCode.GET_MAX_OFFSET]
        leap(3)
        await until_async(
            lambda: proxy.heard[RequestCode.GET_MAX_OFFSET] > before, what="the detector asks"
        )

    def retries_of(producer: Producer) -> list[float]:
        samples = producer.statistics.samples()
        return [one.value for one in samples if one.name == "orbitmq_producer_retries_total"]

    played(brokers, story, fault_tolerance="java5", detector=True, pace=PACE)
