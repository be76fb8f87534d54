"""Our producer and two Java brokers, with a proxy before each that delays, loses, resets, answers.

What comes of each fault is told by the attempts of the error or the counts of the proxies, and what
is stored is read back by Java's consumer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from orbitmq.client.producer import Producer
from orbitmq.client.settings import RETRY_CODES
from orbitmq.errors import SendFailed, SendRefused, SendTimeout
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.codes import ResponseCode
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.fault_proxy import Answered, CutOff, Fault, FaultProxy, Late, Lost
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaCluster
from tests.interop.team import Team
from tests.interop.waiting import until

VERSION = "5.4.0"
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


@pytest.fixture(scope="module")
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    if (why := counterparts.missing_for(VERSION)) is not None:
        decline(why)
    java: Java = request.getfixturevalue("java_540")
    folder = tmp_path_factory.mktemp("faults")
    with JavaCluster(VERSION, folder) as cluster:
        nameserver = cluster.nameserver.address
        settings = {"brokerName": "java-b"}
        with JavaBroker(VERSION, folder / "b", nameserver=nameserver, settings=settings) as other:
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
            yield Faulty(producer, {"first": first, "second": second})


def played(brokers: Brokers, story: Callable[[Faulty], Awaitable[None]], **options: object) -> None:
    async def main() -> None:
        async with faulty(brokers, **options) as scene:
            await story(scene)

    asyncio.run(main())


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

    played(brokers, story, per_try_timeout_ms=SHORT_MS)
    assert sorted(set(bodies(brokers, topic, 100))) == expected
