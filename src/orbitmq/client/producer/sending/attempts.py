"""Carries one parcel to a broker: route, queue, connection, request, and again if the plan says so.

::

    lane ──▶ slot ──▶ pause, if the last try says so ──▶ connection ──▶ request ──▶ SendPlan
     ▲                                                                                 │
     └────────────────────────────────── Again ◀───────────────────────────────────────┤
                                          receipt ◀── Done      error ◀── GiveUp ◀─────┘

All of it shares the time of one call. Whoever calls has a permit, and gives it back.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.producer.health.health import Health, Outcome, outcome_of
from orbitmq.client.producer.sending.failures import failure, timeout
from orbitmq.client.producer.sending.packing import Parcel
from orbitmq.client.producer.sending.receipts import DeliveredAtOnce, read_receipt
from orbitmq.client.producer.sending.retry_plan import Again, Done, GiveUp, SendPlan, Step
from orbitmq.client.producer.sending.targets import Lane, Lanes, Slot, Target
from orbitmq.client.producer.sending.timing import LoopStalls
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    OrbitError,
    RequestTimeout,
    SendFailed,
    SendTimeout,
    WrongProcess,
)
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.model import MessageQueue, SendReceipt
from orbitmq.net.connection import Connection
from orbitmq.wire.codes import VERSION_5_0_0, ResponseCode
from orbitmq.wire.frame import Frame

__all__ = ["Courier", "Errand", "Tried"]

log = logging.getLogger("orbitmq.client")

_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_ONEWAYS_IN_A_ROW: Final = 64
"""After so many the loop gets its turn: who sends them one by one never waits for anything."""


class Tried(NamedTuple):
    """A try that was made before the courier was called, and how it ended."""

    slot: Slot
    began: float
    outcome: SendReceipt | OrbitError


class Errand:
    """One send on its way: what is carried, where to, and where its time goes.

    Args:
        parcel: what is carried.
        target: where to.
        timeout_ms: the time of the call.
        began: when the call began, by the loop's clock.

    """

    __slots__ = (
        "_spent",
        "began",
        "next_slot",
        "parcel",
        "queue",
        "target",
        "timeout_ms",
        "was_sent_away",
    )

    def __init__(self, parcel: Parcel, target: Target, timeout_ms: int, began: float) -> None:
        self.parcel = parcel
        self.target = target
        self.timeout_ms = timeout_ms
        self.began = began
        self.queue: MessageQueue | None = None
        """The queue that the caller chose, once it is known."""
        self.next_slot: Slot | None = None
        """Where the first try goes, if that is known."""
        self.was_sent_away = False
        """Whether the broker of the first try has said GO_AWAY already."""
        self._spent: dict[str, float] = {}

    def spend(self, what: str, seconds: float) -> None:
        """Note what time went to; the names are the fields of ``TimeSpent``."""
        self._spent[what] = self._spent.get(what, 0.0) + seconds

    def spent(self, stalls: LoopStalls) -> TimeSpent:
        """Return where the time went until now."""
        known = {what: round(1_000 * seconds) for what, seconds in self._spent.items()}
        return TimeSpent(**known, loop_stall_ms=stalls.longest_ms_since(self.began))

    def left_s(self, now: float) -> float:
        """Return how many seconds are left."""
        return self.began + self.timeout_ms / 1_000 - now


class Courier:
    """Carries the parcels of one producer; belongs to its loop.

    Args:
        core: the client.
        settings: the producer's.
        lanes: its lanes.
        health: learns from each try.
        statistics: counts retries.
        stalls: knows how long the loop stood still.

    """

    def __init__(
        self,
        core: ClientCore,
        settings: ProducerSettings,
        lanes: Lanes,
        health: Health,
        statistics: SendStatistics,
        stalls: LoopStalls,
    ) -> None:
        self._core = core
        self._settings = settings
        self._lanes = lanes
        self._health = health
        self._statistics = statistics
        self._stalls = stalls
        self._randomness = core.machine.randomness
        self._clock = core.machine.clock
        self._time: Callable[[], float] = asyncio.get_running_loop().time
        self._oneways = 0
        self.delivered_at_once = DeliveredAtOnce()
        """Is shown what brokers without timers have taken."""

    def __repr__(self) -> str:
        return f"<Courier of {self._settings.group}>"

    async def deliver(self, errand: Errand, tried: Tried | None = None) -> SendReceipt:
        """Return the receipt of a parcel, after as many tries as the plan allows.

        Args:
            errand: the send.
            tried: the first try, if the caller has made it.

        Raises:
            SendFailed: or one of its kinds: all tries failed, or no other could help.
            NoRoute, NameserversFailed: where to send is not known.
            InvalidInput: the target can't be.

        """
        plan = SendPlan(
            self._settings,
            self._randomness,
            began_ms=_ms(errand.began),
            timeout_ms=errand.timeout_ms,
            fixed=errand.target is not None,
        )
        step: Step | None = None
        if tried is not None and _is_sent_away(tried.outcome):
            errand.next_slot, errand.was_sent_away = tried.slot, True
        elif tried is not None:
            step = self._judge(plan, tried)
        while True:
            if isinstance(step, Done):
                return step.receipt
            if isinstance(step, GiveUp):
                raise self._failed(errand, plan, step) from step.cause
            if step is not None:
                self._note_retry(errand, plan, step)
            slot = await self._slot(errand, plan, step)
            step = await self._try(errand, plan, slot)

    async def oneway(self, errand: Errand) -> Slot:
        """Send a parcel that nobody answers for, and return where it went. One try, as in Java.

        Raises:
            SendFailed: it could not leave; that it left says nothing of its arrival.
            NoRoute, NameserversFailed, InvalidInput: as ``deliver`` does.

        """
        plan = SendPlan(
            self._settings,
            self._randomness,
            began_ms=_ms(errand.began),
            timeout_ms=errand.timeout_ms,
        )
        slot = await self._slot(errand, plan, None)
        parcel = errand.parcel
        began = self._time()
        try:
            connection = await self._connect(errand, slot, errand.left_s(began))
            self._oneways += 1
            if not self._oneways % _ONEWAYS_IN_A_ROW:
                await asyncio.sleep(0)
            if not connection.is_writable:
                await self._make_room(errand, plan, connection)
            header = slot.stamp.header(parcel, self._clock.now_ms())
            connection.oneway(header, parcel.body, code=parcel.code)
        except (WrongProcess, SendTimeout):
            raise
        except OrbitError as error:
            plan.failed(error, slot.queue, _ms(began), _ms(self._time()))
            raise self._failed(errand, plan, GiveUp(error, timed_out=False)) from error
        return slot

    async def _make_room(self, errand: Errand, plan: SendPlan, connection: Connection) -> None:
        """Return when one more that nobody answers for may leave: answers don't hold it back."""
        began = self._time()
        try:
            async with asyncio.timeout(errand.left_s(began)):
                await connection.writable()
            return
        except TimeoutError:
            pass  # told below, when the time is counted
        finally:
            errand.spend("answer_ms", self._time() - began)
        raise self._timed_out(errand, plan)

    # Where to

    async def _slot(self, errand: Errand, plan: SendPlan, step: Again | None) -> Slot:
        """Return where the next try goes, when it is time for it."""
        if errand.next_slot is not None:
            slot, errand.next_slot = errand.next_slot, None
            return slot
        lane = self._lanes.ready(errand.parcel.topic) or await self._look_up(errand, plan)
        if errand.queue is None:
            errand.queue = lane.aim(errand.target, errand.parcel.messages[0])
        if errand.queue is not None:
            slot = lane.slot(errand.queue)
        else:
            avoid = None if step is None else step.avoid
            slot = lane.next_slot(_ms(self._time()), avoid)
        if step is not None:
            wait_ms = plan.wait_ms(slot.queue.broker_name, _ms(self._time()))
            if wait_ms:
                await self._pause(errand, wait_ms / 1_000)
        return slot

    async def _look_up(self, errand: Errand, plan: SendPlan) -> Lane:
        began = self._time()
        try:
            async with asyncio.timeout(errand.left_s(began)):
                return await self._lanes.lane(errand.parcel.topic)
        except TimeoutError:
            pass  # told below, when the time is counted
        finally:
            errand.spend("route_ms", self._time() - began)
        raise self._timed_out(errand, plan)

    async def _pause(self, errand: Errand, seconds: float) -> None:
        began = self._time()
        try:
            await asyncio.sleep(seconds)
        finally:
            errand.spend("pause_ms", self._time() - began)

    # One try

    async def _try(self, errand: Errand, plan: SendPlan, slot: Slot) -> Step:
        """Make one try, and return what follows.

        A broker that says GO_AWAY has not taken the message. It is dialled anew and asked once
        more within the same try, as Java's ``NettyRemotingClient`` does.
        """
        began = self._time()
        was_sent_away, errand.was_sent_away = errand.was_sent_away, False
        try:
            answer = await self._ask(errand, plan, slot)
            if answer.code == _GO_AWAY and not was_sent_away:
                answer = await self._ask(errand, plan, slot)
            receipt = read_receipt(answer, errand.parcel.send_id, slot.queue, slot.peer)
        except WrongProcess:
            raise
        except OrbitError as error:
            return self._judge(plan, Tried(slot, began, error))
        except asyncio.CancelledError:
            self._learn(slot, Outcome.UNTOLD, began)
            raise
        if answer.version < VERSION_5_0_0:
            self.delivered_at_once.look(errand.parcel.messages[0], slot.peer, answer.version)
        return self._judge(plan, Tried(slot, began, receipt))

    async def _connect(self, errand: Errand, slot: Slot, timeout_s: float) -> Connection:
        connection = slot.connection
        if connection is not None and connection.is_open:
            return connection
        began = self._time()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._lanes.connect(slot)
        except TimeoutError:
            raise ConnectFailed(
                f"no connection to {slot.address} within {round(1_000 * timeout_s)} ms",
                address=str(slot.address),
            ) from None
        except ConnectionClosed as error:  # of one that was asked for nothing yet
            raise ConnectFailed(str(error), address=str(slot.address)) from error
        finally:
            errand.spend("connection_ms", self._time() - began)

    async def _ask(self, errand: Errand, plan: SendPlan, slot: Slot) -> Frame:
        """Return what the broker of a slot answers."""
        connect_s = plan.connect_timeout_ms(_ms(self._time())) / 1_000
        connection = await self._connect(errand, slot, connect_s)
        began = self._time()
        parcel, health = errand.parcel, self._health
        is_probe = health.active and health.sent(slot.queue.broker_name, _ms(began))
        timeout_ms = plan.try_timeout_ms(_ms(began), probe=is_probe)
        if timeout_ms <= 0:
            raise RequestTimeout(
                f"no time was left to ask {connection.peer}", address=connection.peer
            )
        release = self._core.heartbeats.release_of(slot.address) if parcel.is_batch else 0
        try:
            return await connection.start_request(
                slot.stamp.header(parcel, self._clock.now_ms(), release),
                parcel.body,
                timeout_ms=timeout_ms,
                code=parcel.code,
            )
        finally:
            errand.spend("answer_ms", self._time() - began)

    def _judge(self, plan: SendPlan, tried: Tried) -> Step:
        """Learn from a try, and return what follows it."""
        slot, began, outcome = tried
        began_ms, now_ms = _ms(began), _ms(self._time())
        if isinstance(outcome, SendReceipt):
            self._learn(slot, Outcome.STORED, began)
            return plan.stored(outcome, began_ms, now_ms)
        self._learn(slot, outcome_of(outcome), began)
        return plan.failed(outcome, slot.queue, began_ms, now_ms)

    def _learn(self, slot: Slot, outcome: Outcome, began: float) -> None:
        if self._health.active:
            now = self._time()
            took_ms = round(1_000 * (now - began))
            self._health.learn(slot.queue.broker_name, outcome, took_ms, _ms(now))

    # The end

    def _note_retry(self, errand: Errand, plan: SendPlan, step: Again) -> None:
        self._statistics.retried()
        log.info(
            "send %s to %s: attempt %d failed, another one follows: %s",
            errand.parcel.send_id,
            errand.parcel.topic,
            len(plan.attempts),
            plan.attempts[-1],
        )
        if step.refresh_route:
            lane = self._lanes.ready(errand.parcel.topic)
            if lane is not None:
                self._core.routes.invalidate(lane.route.topic)

    def _failed(self, errand: Errand, plan: SendPlan, step: GiveUp) -> SendFailed:
        if step.timed_out:
            return self._timed_out(errand, plan)
        took_ms = round(1_000 * (self._time() - errand.began))
        spent = errand.spent(self._stalls)
        return failure(errand.parcel, step.cause, plan.attempts, spent, took_ms)

    def _timed_out(self, errand: Errand, plan: SendPlan) -> SendFailed:
        spent = errand.spent(self._stalls)
        return timeout(errand.parcel, plan.attempts, spent, errand.timeout_ms)


def _is_sent_away(outcome: SendReceipt | OrbitError) -> bool:
    return isinstance(outcome, BrokerError) and outcome.code == _GO_AWAY


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
