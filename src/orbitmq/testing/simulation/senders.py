"""Small clients for simulated runs: a sender and a puller, with real connections and headers.

A sender sends messages of every kind. Its half messages are ended by its
:class:`orbitmq.testing.simulation.transactions.Decisions`.

They record what they see in a :class:`orbitmq.testing.simulation.histories.History`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from orbitmq.message import flags, properties
from orbitmq.message.model import StoredMessage
from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.randomness import Randomness
from orbitmq.testing.simulation.calls import ANSWER_MS, TRY_AGAIN, Caller
from orbitmq.testing.simulation.histories import Attempt, Kind, Reader, Stored
from orbitmq.testing.simulation.routes import ByRoute, Master
from orbitmq.testing.simulation.transactions import SENDERS, Decisions
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.pull import (
    COMMIT_OFFSET,
    SUBSCRIPTION,
    SUSPEND,
    PullMessage,
    PullMessageAnswer,
)
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2

__all__ = ["TAGS", "Puller", "Sender"]

TAGS: Final = ("red", "green", "blue")

_ATTEMPTS_MAX: Final = 500
_PULLS_WITHOUT_ANSWER_MAX: Final = 500
_BODY_MAX: Final = 600
_KINDS: Final = (*[Kind.PLAIN] * 6, Kind.DELAYED, Kind.TIMED, Kind.COMMITTED, Kind.ABORTED)
_LEVELS_MS: Final = (1_000, 5_000)
_TIMER_MS_MAX: Final = 5_000
_SERVED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
)
_NOT_YET: Final = (*TRY_AGAIN, ResponseCode.TOPIC_NOT_EXIST)


@dataclass(eq=False)
class Sender:
    """Sends messages one after another, and retries each until it is acknowledged."""

    _name: str
    _caller: Caller
    _chance: Randomness
    _nameserver: Address
    _topic: str
    _decisions: Decisions = field(init=False)
    _route: tuple[Address, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._decisions = Decisions(self._name, self._caller, self._chance)

    async def run(self, count: int, *, queues: int, pause_s: float) -> None:
        """Send ``count`` messages, with random pauses of ``pause_s`` on average.

        Where the master is elected, whichever is the master may ask for decisions, until the end.
        """
        if self._caller.history.elects:
            self._decisions.join_each(ByRoute(self._caller, self._nameserver, self._topic))
        for number in range(count):
            await self._send(f"{self._name}-{number:03d}", queues)
            await self._caller.clock.sleep(self._chance.uniform(0, 2 * pause_s))

    async def _send(self, key: str, queues: int) -> None:
        tag, kind, chance = self._chance.choice(TAGS), self._chance.choice(_KINDS), self._chance
        for number in range(_ATTEMPTS_MAX):
            place = self._route or await self._find(queues)
            if place is not None:
                address, queues_there = place
                attempt = Attempt(key, number, chance.below(queues_there), tag, kind=kind)
                self._caller.history.attempts.append(attempt)
                if await self._attempt(address, attempt, queues):
                    return
            await self._caller.clock.sleep(chance.uniform(0.05, 1.0))
        self._caller.history.faults.append(
            f"stuck: {key} was not stored in {_ATTEMPTS_MAX} attempts"
        )

    async def _attempt(self, address: Address, attempt: Attempt, queues: int) -> bool:
        now_ms = self._caller.clock.now_ms()
        header = SendMessageV2(
            producer_group=SENDERS,
            topic=self._topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=queues,
            queue_id=attempt.queue_id,
            sys_flag=flags.TRANSACTION_PREPARED if attempt.kind.is_transaction else 0,
            born_timestamp=now_ms,
            flag=attempt.number,
            properties=properties.encode(self._properties(attempt, now_ms)).decode(),
        )
        body = b"x" * self._chance.below(_BODY_MAX)
        if attempt.kind.is_transaction:
            await self._decisions.join(address)
        answer = await self._caller.ask(address, header, body)
        attempt.is_over = True
        if answer is None:
            self._route = None
        elif answer.code == ResponseCode.SUCCESS:
            stored = answer.read(SendMessageAnswer)
            attempt.acked_at = stored.queue_offset
            if attempt.kind.is_transaction:
                await self._decisions.end(address, attempt, stored)
            return True
        elif answer.code == ResponseCode.INVALID_PARAMETER and self._caller.history.has_successors:
            self._route = (
                None  # of a slave that was promoted before it knew all queues of the topic
            )
        elif answer.code not in TRY_AGAIN:
            self._caller.note_odd(answer, header)
        elif self._caller.history.elects:
            self._route = None  # maybe another is the master now
        return False

    def _properties(self, attempt: Attempt, now_ms: int) -> dict[str, str]:
        """Return the properties of an attempt, and note in it when it is due."""
        found = {properties.UNIQUE_KEY: attempt.key, properties.TAGS: attempt.tag}
        if attempt.kind is Kind.DELAYED:
            level = self._chance.below(len(_LEVELS_MS))
            found[properties.DELAY] = str(level + 1)
            attempt.due_ms = now_ms + _LEVELS_MS[level]
        elif attempt.kind is Kind.TIMED:
            attempt.due_ms = now_ms + 1 + self._chance.below(_TIMER_MS_MAX)
            found[properties.TIMER_DELIVER_MS] = str(attempt.due_ms)
        elif attempt.kind.is_transaction:
            found[properties.TRANSACTION_PREPARED] = "true"
            found[properties.PRODUCER_GROUP] = SENDERS
        return found

    async def _find(self, queues: int) -> tuple[Address, int] | None:
        """Return broker and queue count of the topic, or a broker that can create the topic."""
        for topic in (self._topic, AUTO_CREATE_TOPIC):
            answer = await self._caller.ask(self._nameserver, GetRouteInfo(topic=topic))
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                route = TopicRouteData.from_json(answer.body)
                master = route.broker_datas[0].broker_addrs.get(0)
                if master is None:
                    return None
                address = Address.parse(master)
                if topic == AUTO_CREATE_TOPIC:
                    return address, queues
                self._route = (address, route.queue_datas[0].write_queue_nums)
                return self._route
        return None


class Puller:
    """Reads one queue by pulls, and commits its offset with them.

    ``chance`` decides the size of each pull, and how long the broker may hold it.
    """

    def __init__(self, reader: Reader, caller: Caller, chance: Randomness, *, topic: str) -> None:
        self.reader = reader
        self.position = 0
        self._caller = caller
        self._chance = chance
        self._topic = topic
        self._given: list[Stored] = []

    async def run(self, master: Master, goal: Callable[[], int | None]) -> list[Stored]:
        """Pull until ``goal`` returns an offset and it is reached; return the messages."""
        unanswered = 0
        while (end := goal()) is None or self.position < end:
            broker = await master.find()
            if broker is not None and await self._pull(broker):
                unanswered = 0
                continue
            master.forget()
            unanswered += 1
            if unanswered > _PULLS_WITHOUT_ANSWER_MAX:
                self._caller.history.faults.append(
                    f"stuck: {self.reader} gets no responses any more"
                )
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
        answer = await self._caller.ask(broker, header, timeout_ms=hold_ms + ANSWER_MS)
        if answer is None or answer.code in _NOT_YET:
            return False
        history = self._caller.history
        if history.promotions and answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self.position = answer.read(PullMessageAnswer).next_begin_offset
            return False  # it has read what was lost with the master's disk
        if history.has_successors and answer.code == ResponseCode.INVALID_PARAMETER:
            return False  # nothing was acknowledged in this queue
        if answer.code not in _SERVED:
            self._caller.note_odd(answer, header)
            return False
        self._given += map(_stored, decode_all(answer.body))
        self.position = answer.read(PullMessageAnswer).next_begin_offset
        if self.position < position and not self._caller.history.promotions:
            self._caller.history.faults.append(
                f"moved back: {self.reader} went from {position} to {self.position}"
            )
        return True


def _stored(message: StoredMessage) -> Stored:
    found = message.properties
    key, tag = found.get(properties.UNIQUE_KEY, ""), found.get(properties.TAGS, "")
    return Stored(message.queue_offset, key, message.flag, tag, message.store_timestamp_ms)
