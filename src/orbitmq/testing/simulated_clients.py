"""Small clients for simulated runs: a sender and a puller, with real connections and headers.

They record what they see in a :class:`orbitmq.testing.histories.History`. They also check that
every request is answered in time, unless the network lost something.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from orbitmq.errors import NetworkError, RequestTimeout
from orbitmq.message import properties
from orbitmq.message.model import StoredMessage
from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.transport.network import Network
from orbitmq.randomness import Randomness
from orbitmq.testing.clocks import VirtualClock
from orbitmq.testing.histories import Attempt, History, Reader, Stored
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import ResponseCode, name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import (
    COMMIT_OFFSET,
    SUBSCRIPTION,
    SUSPEND,
    PullMessage,
    PullMessageAnswer,
)
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2

__all__ = ["TAGS", "Caller", "Puller", "Sender"]

TAGS: Final = ("red", "green", "blue")

_ATTEMPTS_MAX: Final = 500
_PULLS_WITHOUT_ANSWER_MAX: Final = 500
_ANSWER_MS: Final = 3_000
_BODY_MAX: Final = 600
# Codes of a broker that starts, stops or is busy: try again.
_TRY_AGAIN: Final = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLUSH_DISK_TIMEOUT,
)

_SERVED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
)
_NOT_YET: Final = (*_TRY_AGAIN, ResponseCode.TOPIC_NOT_EXIST)


class Caller:
    """Sends requests, and records a fault if a response is missing for no reason.

    ``troubles`` returns how much was lost so far: while it does not change, nothing was lost.
    """

    def __init__(
        self, network: Network, clock: VirtualClock, history: History, troubles: Callable[[], int]
    ) -> None:
        self.clock = clock
        self.history = history
        self._troubles = troubles
        self._dialer = Dialer(network=network)

    async def ask(
        self, address: Address, header: Header, body: bytes = b"", timeout_ms: int = _ANSWER_MS
    ) -> Frame | None:
        """Return the response; None after a timeout, which closes the connection, or an error."""
        before = self._troubles()
        try:
            return await self._dialer.request(address, header, body, timeout_ms=timeout_ms)
        except RequestTimeout as error:
            if self._troubles() == before:
                self.history.faults.append(f"no response, although nothing was lost: {error}")
            connection = self._dialer.connections.get(address)
            if connection is not None:
                connection.abort("it does not respond")
        except NetworkError:
            pass  # refused, reset or closed: the caller tries again
        return None

    def note_odd(self, answer: Frame, header: Header) -> None:
        """Record an unexpected response code as a fault."""
        request = name_of_request(header.code)
        self.history.faults.append(f"{request} was answered {answer.code}: {answer.remark}")

    async def close(self) -> None:
        """Close all connections."""
        await self._dialer.close()


@dataclass(eq=False)
class Sender:
    """Sends messages one after another, and retries each until it is acknowledged."""

    _name: str
    _caller: Caller
    _chance: Randomness
    _nameserver: Address
    _topic: str
    _route: tuple[Address, int] | None = field(init=False, default=None)

    async def run(self, count: int, *, queues: int, pause_s: float) -> None:
        """Send ``count`` messages, with random pauses of ``pause_s`` on average."""
        for number in range(count):
            await self._send(f"{self._name}-{number:03d}", queues)
            await self._caller.clock.sleep(self._chance.uniform(0, 2 * pause_s))

    async def _send(self, key: str, queues: int) -> None:
        tag, chance = self._chance.choice(TAGS), self._chance
        is_delayed = chance.below(6) == 0
        for number in range(_ATTEMPTS_MAX):
            place = self._route or await self._find(queues)
            if place is not None:
                address, queues_there = place
                attempt = Attempt(
                    key, number, chance.below(queues_there), tag, is_delayed=is_delayed
                )
                self._caller.history.attempts.append(attempt)
                if await self._attempt(address, attempt, queues):
                    return
            await self._caller.clock.sleep(chance.uniform(0.05, 1.0))
        self._caller.history.faults.append(f"{key} was not stored in {_ATTEMPTS_MAX} attempts")

    async def _attempt(self, address: Address, attempt: Attempt, queues: int) -> bool:
        own = {properties.UNIQUE_KEY: attempt.key, properties.TAGS: attempt.tag}
        if attempt.is_delayed:
            own[properties.DELAY] = str(1 + self._chance.below(2))
        header = SendMessageV2(
            producer_group="senders",
            topic=self._topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=queues,
            queue_id=attempt.queue_id,
            sys_flag=0,
            born_timestamp=self._caller.clock.now_ms(),
            flag=attempt.number,
            properties=properties.encode(own).decode(),
        )
        body = b"x" * self._chance.below(_BODY_MAX)
        answer = await self._caller.ask(address, header, body)
        if answer is None:
            self._route = None
        elif answer.code == ResponseCode.SUCCESS:
            attempt.acked_at = answer.read(SendMessageAnswer).queue_offset
            return True
        elif answer.code not in _TRY_AGAIN:
            self._caller.note_odd(answer, header)
        return False

    async def _find(self, queues: int) -> tuple[Address, int] | None:
        """Return broker and queue count of the topic, or a broker that can create the topic."""
        for topic in (self._topic, AUTO_CREATE_TOPIC):
            answer = await self._caller.ask(self._nameserver, GetRouteInfo(topic=topic))
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                route = TopicRouteData.from_json(answer.body)
                address = Address.parse(route.broker_datas[0].broker_addrs[0])
                if topic == AUTO_CREATE_TOPIC:
                    return address, queues
                self._route = (address, route.queue_datas[0].write_queue_nums)
                return self._route
        return None


class Puller:
    """Reads one queue by pulls, and commits its offset with them.

    ``chance`` decides the size of each pull, and how long the broker may hold it. ``starts``
    returns how often the broker was started; a start may lose committed offsets. ``committed`` is
    the number of the broker's start, and the offset committed since then.
    """

    def __init__(
        self,
        reader: Reader,
        caller: Caller,
        chance: Randomness,
        *,
        topic: str,
        starts: Callable[[], int],
    ) -> None:
        self.reader = reader
        self.position = 0
        self.committed = (0, 0)
        self._starts = starts
        self._caller = caller
        self._chance = chance
        self._topic = topic
        self._given: list[Stored] = []

    async def run(self, broker: Address, goal: Callable[[], int | None]) -> list[Stored]:
        """Pull until ``goal`` returns an offset and it is reached; return the messages."""
        unanswered = 0
        while (end := goal()) is None or self.position < end:
            if await self._pull(broker):
                unanswered = 0
                continue
            unanswered += 1
            if unanswered > _PULLS_WITHOUT_ANSWER_MAX:
                self._caller.history.faults.append(f"{self.reader} gets no responses any more")
                break
            await self._caller.clock.sleep(self._chance.uniform(0.05, 1.0))
        return self._given

    async def _pull(self, broker: Address) -> bool:
        """Pull once; return whether the broker served it."""
        hold_ms = 500 + self._chance.below(8_000)
        position = self.position
        header = PullMessage(
            consumer_group=self.reader.group,
            topic=self._topic,
            queue_id=self.reader.queue_id,
            queue_offset=position,
            max_msg_nums=1 + self._chance.below(32),
            sys_flag=SUSPEND | SUBSCRIPTION | (COMMIT_OFFSET if position else 0),
            commit_offset=position,
            suspend_timeout_millis=hold_ms,
            subscription=self.reader.tag or "*",
            sub_version=0,
            expression_type="TAG",
        )
        starts = self._starts()
        answer = await self._caller.ask(broker, header, timeout_ms=hold_ms + _ANSWER_MS)
        if answer is None or answer.code in _NOT_YET:
            return False
        if answer.code not in _SERVED:
            self._caller.note_odd(answer, header)
            return False
        if starts == self._starts():
            self.committed = (starts, position)
        self._given += map(_stored, decode_all(answer.body))
        self.position = answer.read(PullMessageAnswer).next_begin_offset
        if self.position < position:
            self._caller.history.faults.append(
                f"{self.reader} was moved back from {position} to {self.position}"
            )
        return True


def _stored(message: StoredMessage) -> Stored:
    found = message.properties
    key, tag = found.get(properties.UNIQUE_KEY, ""), found.get(properties.TAGS, "")
    return Stored(message.queue_offset, key, message.flag, tag)
