"""Groups of Java and Python members: queues shared without overlap, on our broker and on Java's."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from orbitmq import MessageQueue
from orbitmq.blocking import Producer
from orbitmq.message.model import Message
from tests.client.consumer.member_processes import Member, member
from tests.interop.clients import Consumer
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

QUEUES = 16


class Group:
    """The members of a group, and what was sent to its topic."""

    def __init__(self, team: Team, topic: str, producer: Producer) -> None:
        self.topic = topic
        self._producer = producer
        self._queues: tuple[MessageQueue, ...] = producer.queues(topic)
        self._team = team
        self._rounds = 0
        self.sent: set[str] = set()
        self.members: dict[str, Callable[[], list[str]]] = {}
        self._gone: list[str] = []

    def add_java(self, name: str, consumer: Consumer) -> None:
        self.members[name] = lambda: [one.body.decode() for one in consumer.received()]

    def add_python(self, name: str, consumer: Member) -> None:
        self.members[name] = lambda: [one.body for one in consumer.consumed]

    def remove(self, name: str) -> None:
        self._gone += self.members.pop(name)()

    def consumed(self) -> Counter[str]:
        """Return how often each body was consumed, by anyone."""
        bodies = Counter(self._gone)
        for bodies_of in self.members.values():
            bodies.update(bodies_of())
        return bodies

    def share(self) -> dict[str, set[str]]:
        """Send a message to each queue, and return what each member got, when all is consumed."""
        self._rounds += 1
        bodies = {f"{self._rounds}.{queue.queue_id}": queue for queue in self._queues}
        for body, queue in bodies.items():
            self._producer.send(Message(self.topic, body.encode()), queue=queue)
        self.sent |= bodies.keys()
        until(lambda: bodies.keys() <= self.consumed().keys(), what=f"{len(bodies)} are consumed")
        return {name: bodies.keys() & set(got()) for name, got in self.members.items()}

    def settled(self) -> None:
        """Wait until the members share the queues evenly, each queue with one member."""
        shares: list[int] = []

        def is_even() -> bool:
            shares[:] = sorted(map(len, self.share().values()))
            return sum(shares) == QUEUES and shares[-1] - shares[0] <= 1

        until(is_even, what=f"{len(self.members)} members share evenly: {shares}", seconds=90)


@pytest.fixture
def group(place: Team) -> Iterator[Group]:
    topic = place.topic("mixed", queues=QUEUES)
    with Producer("senders", nameserver=place.nameserver) as producer:
        yield Group(place, topic, producer)


def test_members_join_leave_and_die(place: Team, group: Group) -> None:
    topic = group.topic
    with ExitStack() as stack:
        java = [ExitStack() for _ in range(2)]
        for number, own in enumerate(java):
            stack.enter_context(own)
            group.add_java(f"java-{number}", own.enter_context(place.consumer(topic)))
        python = [
            stack.enter_context(member(place.nameserver, group_of(topic), topic)) for _ in range(3)
        ]
        for number, one in enumerate(python):
            group.add_python(f"python-{number}", one)
        group.settled()  # all five
        python[0].kill()
        group.remove("python-0")
        group.settled()
        python[1].stop()
        group.remove("python-1")
        group.settled()
        group.remove("java-0")
        java[0].close()
        group.settled()
        late = stack.enter_context(member(place.nameserver, group_of(topic), topic))
        group.add_python("python-late", late)
        group.settled()
        python[2].stop()  # its line of the last message may come with its end
        assert set(group.consumed()) == group.sent
