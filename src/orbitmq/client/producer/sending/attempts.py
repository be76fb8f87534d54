"""The attempts of a send: queue, connection, request, answer, and what follows.

::

    choose ──▶ pause, after some failures ──▶ connect ──▶ begin ──▶ answer ──▶ RetryPlan
      ▲                                                                            │
      └───────────────────────────────── Again ◀───────────────────────────────────┤
                                        receipt ◀── Done     error ◀── GiveUp ◀────┘

``Sender.finish`` runs this loop for every send. All attempts share the time of one call.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import SendContext
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.producer.health.health import AttemptOutcome, Health, outcome_of
from orbitmq.client.producer.sending.failures import failure, no_route, silence, timeout
from orbitmq.client.producer.sending.key_order import Key, KeyPlace
from orbitmq.client.producer.sending.packing import BATCH_CODE, PreparedSend
from orbitmq.client.producer.sending.receipts import OldBrokerWarning, read_receipt
from orbitmq.client.producer.sending.retry_plan import Again, Done, GiveUp, RetryPlan, Step
from orbitmq.client.producer.sending.targets import (
    Destination,
    QueueTarget,
    TopicTarget,
    TopicTargets,
)
from orbitmq.client.producer.sending.timing import LoopStalls
from orbitmq.client.settings import ProducerSettings, Require
from orbitmq.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    NameserversFailed,
    NoRoute,
    OrbitError,
    RequestTimeout,
    SendFailed,
    SendTimeout,
    WrongProcess,
)
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from orbitmq.net.connection import Connection
from orbitmq.wire.codes import VERSION_5_0_0, ResponseCode
from orbitmq.wire.frame import Frame

__all__ = ["Attempts", "PendingSend"]

log = logging.getLogger("orbitmq.client")

_OK: Final = SendStatus.SEND_OK
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_ONEWAYS_IN_A_ROW: Final = 64
"""The loop runs other tasks after this many one-way sends: a caller that makes only those never
waits for anything."""


class PendingSend:
    """One send, from its call to its end; ``began`` is a time of the loop's clock."""

    # fmt: off
    __slots__ = (
        "_seconds", "answer", "asked", "attempt_began", "began", "call_place", "context",
        "destination", "keys", "permit_bytes", "place", "plan", "prepared", "queue",
        "queue_target", "require", "retry", "timeout_ms", "was_sent_away",
    )
    # fmt: on

    def __init__(
        self, prepared: PreparedSend, began: float, timeout_ms: int, destination: Destination = None
    ) -> None:
        self.prepared = prepared
        self.began = began
        self.timeout_ms = timeout_ms
        self.destination = destination

        self.keys: Sequence[Key] = ()
        """The keys whose earlier sends it waits for."""
        self.call_place: KeyPlace | None = None
        """The place of its call in the order of keys, if the call has one."""
        self.place: KeyPlace | None = None
        """Its own place in the order of its keys."""
        self.permit_bytes = -1
        """The size of the permit that it holds; -1: none yet."""
        self.context: SendContext | None = None
        """What hooks get, if there are any."""
        self.require: Require | None = None
        """The least that its receipt must say."""
        self.queue: MessageQueue | None = None
        """The queue that the caller chose, once it is known."""
        self.plan: RetryPlan | None = None
        """None until it is needed: most sends succeed at once."""
        self.retry: Again | None = None
        """How to choose the next attempt's queue, after a failed one."""
        self._seconds: dict[str, float] | None = None

        # The current attempt
        self.queue_target: QueueTarget | None = None
        """Where it goes; None between attempts."""
        self.answer: asyncio.Future[Frame] | None = None
        """The broker's answer to come; None until the request is written."""
        self.attempt_began = began
        self.asked = began
        """When the request was written."""
        self.was_sent_away = False
        """Whether the broker has answered GO_AWAY to it once."""

    def spend(self, what: str, seconds: float) -> None:
        """Add to the time that one of the fields of ``TimeSpent`` took."""
        if self._seconds is None:
            self._seconds = {}
        self._seconds[what] = self._seconds.get(what, 0.0) + seconds

    def spent(self, stalls: LoopStalls) -> TimeSpent:
        """Return where the time went until now."""
        known = {what: round(1_000 * seconds) for what, seconds in (self._seconds or {}).items()}
        return TimeSpent(**known, loop_stall_ms=stalls.longest_ms_since(self.began))

    def left_s(self, now: float) -> float:
        """Return how many seconds are left."""
        return self.began + self.timeout_ms / 1_000 - now

    def __repr__(self) -> str:
        return f"<PendingSend {self.prepared!r}>"


class Attempts:
    """Makes the attempts of one producer's sends; belongs to its loop."""

    def __init__(
        self,
        core: ClientCore,
        settings: ProducerSettings,
        targets: TopicTargets,
        health: Health,
        statistics: SendStatistics,
        stalls: LoopStalls,
    ) -> None:
        self._core = core
        self._settings = settings
        self._targets = targets
        self._health = health
        self._learns = health.active
        self._statistics = statistics
        self._stalls = stalls
        self._randomness = core.machine.randomness
        self._now_ms = core.machine.clock.now_ms
        self._time: Callable[[], float] = asyncio.get_running_loop().time
        self._oneways = 0
        per_try_ms = settings.per_try_timeout_ms if settings.retries else None
        self.first_try_ms = min(per_try_ms or settings.send_timeout_ms, settings.send_timeout_ms)
        """How long the broker has to answer the first attempt of a send."""
        self._seeks_ok = settings.retry_another_broker_when_not_stored
        self._old_brokers = OldBrokerWarning()

    def __repr__(self) -> str:
        return f"<Attempts of {self._settings.group}>"

    # One attempt

    def begin(
        self,
        send: PendingSend,
        target: QueueTarget,
        connection: Connection,
        now: float,
        now_ms: int,
    ) -> asyncio.Future[Frame]:
        """Write the request of an attempt, and return its answer to come, also in ``send.answer``.

        A request that can't be written becomes a failed answer, so that all failures are handled
        in one place.
        """
        prepared = send.prepared
        send.asked = now
        is_probe = self._learns and self._health.sent(target.queue.broker_name, _ms(now))
        if send.plan is None and not is_probe:
            timeout_ms = self.first_try_ms
        else:
            timeout_ms = self._plan(send).try_timeout_ms(_ms(now), probe=is_probe)
        code = prepared.code
        release = self._core.heartbeats.release_of(target.address) if code == BATCH_CODE else 0
        try:
            if timeout_ms <= 0:
                raise RequestTimeout(
                    f"no time was left to ask {connection.peer}", address=connection.peer
                )
            answer = connection.start_request(
                target.headers.fill(prepared, now_ms, release),
                prepared.body,
                timeout_ms=timeout_ms,
                code=code,
            )
        except OrbitError as error:
            answer = asyncio.get_running_loop().create_future()
            answer.set_exception(error)
        send.answer = answer
        return answer

    async def begin_next(self, send: PendingSend) -> asyncio.Future[Frame]:
        """Choose a queue for the next attempt, connect, and write its request, as ``begin`` does.

        Raise ConnectFailed if the attempt has failed, and SendFailed or InvalidInput if there is no
        queue to choose.
        """
        plan = self._plan(send)
        target = send.queue_target
        if target is None:
            target = send.queue_target = await self._choose(send, plan)
        now = self._time()
        if not send.was_sent_away:
            send.attempt_began = now
        connect_s = plan.connect_timeout_ms(_ms(now)) / 1_000
        connection = await self._connect(send, target, connect_s)
        return self.begin(send, target, connection, self._time(), self._now_ms())

    def stored(self, send: PendingSend, answer: Frame) -> SendReceipt | None:
        """Return the receipt in a broker's answer; None if another attempt may give a better one.

        Raise BrokerError if the broker did not store the message, InvalidHeader if it does not say
        where.
        """
        queue_target = send.queue_target
        assert queue_target is not None
        assert queue_target.connection is not None
        peer = queue_target.connection.peer
        receipt = read_receipt(answer, send.prepared.send_id, queue_target.queue, peer)
        if answer.version < VERSION_5_0_0:
            self._old_brokers.check(send.prepared.messages[0], peer, answer.version)
        if self._learns:
            self._learn(send, AttemptOutcome.STORED)
        if receipt.status is _OK or not self._seeks_ok:
            return receipt
        began_ms, now_ms = _ms(send.attempt_began), _ms(self._time())
        return self._follow(send, self._plan(send).stored(receipt, began_ms, now_ms))

    def failed(self, send: PendingSend, error: OrbitError) -> SendReceipt | None:
        """Record an error and prepare the next attempt: return None if there is one.

        A broker that answers GO_AWAY has not stored the message. The connection is opened again and
        the request repeated within the same attempt, as Java's ``NettyRemotingClient`` does.

        Otherwise return the receipt of an earlier attempt, or raise the error of the send.
        """
        queue_target = send.queue_target
        if queue_target is None or isinstance(error, WrongProcess):
            raise error  # no attempt was in progress
        now = self._time()
        if send.answer is not None:
            send.spend("answer_ms", now - send.asked)
        is_sent_away = isinstance(error, BrokerError) and error.code == _GO_AWAY
        if is_sent_away and not send.was_sent_away:
            send.answer, send.was_sent_away = None, True
            return None
        if self._learns:
            self._learn(send, outcome_of(error))
        began_ms = _ms(send.attempt_began)
        return self._follow(
            send, self._plan(send).failed(error, queue_target.queue, began_ms, _ms(now))
        )

    def cancelled(self, send: PendingSend) -> None:
        """Record that the caller was cancelled, perhaps during an attempt."""
        if self._learns and send.queue_target is not None and send.permit_bytes >= 0:
            self._learn(send, AttemptOutcome.UNKNOWN)

    def _follow(self, send: PendingSend, step: Step) -> SendReceipt | None:
        """Return the receipt that a send ends with, None if another attempt follows."""
        if isinstance(step, Done):
            return step.receipt
        plan = self._plan(send)
        if isinstance(step, GiveUp):
            if step.cause.refresh_route:  # the next send should not meet the same broker
                self._refresh_route(send)
            raise self._failure(send, plan, step) from step.cause
        self._note_retry(send, plan)
        if step.refresh_route:
            self._refresh_route(send)
        send.retry, send.queue_target, send.answer, send.was_sent_away = step, None, None, False
        return None

    def _plan(self, send: PendingSend) -> RetryPlan:
        if send.plan is None:
            send.plan = RetryPlan(
                self._settings,
                self._randomness,
                began_ms=_ms(send.began),
                timeout_ms=send.timeout_ms,
                fixed=send.destination is not None,
            )
        return send.plan

    def _learn(self, send: PendingSend, outcome: AttemptOutcome) -> None:
        assert send.queue_target is not None
        now = self._time()
        took_ms = round(1_000 * (now - send.attempt_began))
        self._health.learn(send.queue_target.queue.broker_name, outcome, took_ms, _ms(now))

    # Where to

    async def _choose(self, send: PendingSend, plan: RetryPlan) -> QueueTarget:
        """Return where the next attempt goes, after the pause before it."""
        topic_target = self._targets.ready(send.prepared.topic) or await self._look_up(send, plan)
        if send.queue is None:
            send.queue = topic_target.chosen(send.destination, send.prepared.messages[0])
        if send.queue is not None:
            queue_target = topic_target.of(send.queue)
        else:
            avoid = None if send.retry is None else send.retry.avoid
            queue_target = topic_target.pick(_ms(self._time()), avoid)
        if send.retry is not None:
            wait_ms = plan.wait_ms(queue_target.queue.broker_name, _ms(self._time()))
            if wait_ms:
                await self._pause(send, wait_ms / 1_000)
                topic_target = self._targets.ready(send.prepared.topic) or topic_target
                queue_target = topic_target.of(queue_target.queue)  # it may have moved
        return queue_target

    async def _look_up(self, send: PendingSend, plan: RetryPlan) -> TopicTarget:
        began, topic = self._time(), send.prepared.topic
        try:
            async with asyncio.timeout(send.left_s(began)):
                return await self._targets.find(topic)
        except TimeoutError:
            pass  # raised below, when the time is counted
        except (NoRoute, NameserversFailed) as error:
            # A route that is lost between attempts, as while a broker restarts, may come back.
            last = self._targets.last(topic) if plan.attempts else None
            if last is None:
                raise no_route(error, topic, send.prepared, plan.attempts) from error
            return last
        except ConnectionClosed as error:  # the client is closed
            step = GiveUp(error, timed_out=False)
            raise self._failure(send, plan, step) from error
        finally:
            send.spend("route_ms", self._time() - began)
        raise self._timed_out(send, plan, silence(self._core.routes.unanswered))

    async def _pause(self, send: PendingSend, seconds: float) -> None:
        began = self._time()
        try:
            await asyncio.sleep(seconds)
        finally:
            send.spend("pause_ms", self._time() - began)

    async def _connect(
        self, send: PendingSend, queue_target: QueueTarget, timeout_s: float
    ) -> Connection:
        connection = queue_target.connection
        if connection is not None and connection.is_open:
            return connection
        began = self._time()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._targets.connect(queue_target)
        except TimeoutError:
            raise ConnectFailed(
                f"no connection to {queue_target.address} within {round(1_000 * timeout_s)} ms",
                address=str(queue_target.address),
            ) from None
        except ConnectionClosed as error:  # the client is closed
            self._plan(send).stop()
            raise ConnectFailed(str(error), address=str(queue_target.address)) from error
        finally:
            send.spend("connection_ms", self._time() - began)

    # One-way sends

    async def oneway(self, send: PendingSend) -> None:
        """Write a request that is not answered, and set ``send.queue``. One attempt, as in Java."""
        plan = self._plan(send)
        queue_target = await self._choose(send, plan)
        prepared = send.prepared
        began = self._time()
        try:
            connection = await self._connect(send, queue_target, send.left_s(began))
            self._oneways += 1
            if not self._oneways % _ONEWAYS_IN_A_ROW:
                await asyncio.sleep(0)
            if not connection.is_writable:
                await self._make_room(send, plan, connection)
            header = queue_target.headers.fill(prepared, self._now_ms())
            connection.oneway(header, prepared.body, code=prepared.code)
        except (WrongProcess, SendTimeout):
            raise
        except OrbitError as error:
            plan.failed(error, queue_target.queue, _ms(began), _ms(self._time()))
            if error.refresh_route:
                self._refresh_route(send)
            raise self._failure(send, plan, GiveUp(error, timed_out=False)) from error
        send.queue = queue_target.queue

    async def _make_room(self, send: PendingSend, plan: RetryPlan, connection: Connection) -> None:
        """Return when the peer takes more bytes: no answers hold one-way sends back."""
        began = self._time()
        try:
            async with asyncio.timeout(send.left_s(began)):
                await connection.writable()
            return
        except TimeoutError:
            pass  # raised below, when the time is counted
        finally:
            send.spend("answer_ms", self._time() - began)
        raise self._timed_out(send, plan)

    # The end

    def _note_retry(self, send: PendingSend, plan: RetryPlan) -> None:
        self._statistics.retried()
        is_news = len(plan.attempts) == 1 or not plan.attempts[-1].equals(plan.attempts[-2])
        log.log(
            logging.INFO if is_news else logging.DEBUG,
            "send %s to %s: attempt %d failed, another one follows: %s",
            send.prepared.send_id,
            send.prepared.topic,
            len(plan.attempts),
            plan.attempts[-1],
        )

    def _refresh_route(self, send: PendingSend) -> None:
        topic_target = self._targets.ready(send.prepared.topic)
        if topic_target is not None:
            self._core.routes.invalidate(topic_target.route.topic)

    def _failure(self, send: PendingSend, plan: RetryPlan, step: GiveUp) -> SendFailed:
        if step.timed_out:
            return self._timed_out(send, plan)
        took_ms = round(1_000 * (self._time() - send.began))
        spent = send.spent(self._stalls)
        return failure(send.prepared, step.cause, plan.attempts, spent, took_ms)

    def _timed_out(self, send: PendingSend, plan: RetryPlan, hint: str = "") -> SendFailed:
        spent = send.spent(self._stalls)
        return timeout(send.prepared, plan.attempts, spent, send.timeout_ms, hint)


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
