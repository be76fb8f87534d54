"""What a running producer does with a message: permit, turn, packing, hooks, and the courier.

Two ways lead to a broker. A plain send over a known route to an open connection is begun on the
spot, and its caller waits for one future (``begin``, ``settle``). Whatever else may be needed, a
permit to wait for, a route, a queue of the caller's choice, compression, hooks, takes the other way
(``send``); a plain send that fails goes on there with its second try.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Final, NamedTuple

import msgspec

from orbitmq.client.arguments import check_queue_topic
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import Hooks, SendContext, SendMode, kind_of
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.producer.health.choice import health_of
from orbitmq.client.producer.health.health import Outcome
from orbitmq.client.producer.sending.attempts import Courier, Errand, Tried
from orbitmq.client.producer.sending.back_pressure import (
    WAITING_MAX,
    Permits,
    Shortage,
    ShortageKind,
)
from orbitmq.client.producer.sending.failures import back_pressure, timeout
from orbitmq.client.producer.sending.key_order import Key, KeyTurn, KeyTurns
from orbitmq.client.producer.sending.packing import NO_MARKS, PLAIN_CODE, Packer, Parcel
from orbitmq.client.producer.sending.receipts import check_durable, check_requirable, read_receipt
from orbitmq.client.producer.sending.retry_plan import SendPlan
from orbitmq.client.producer.sending.targets import Lane, Lanes, Slot, Target
from orbitmq.client.producer.sending.timing import LoopStalls
from orbitmq.client.settings import ProducerSettings, Require
from orbitmq.clock import local_month
from orbitmq.errors import (
    BackPressure,
    NetworkError,
    OrbitError,
    ProducerClosed,
    SendFailed,
    SendForbidden,
    SendTimeout,
)
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.wire.codes import VERSION_5_0_0
from orbitmq.wire.frame import Frame

__all__ = ["Begun", "Dispatch", "Wish"]

log = logging.getLogger("orbitmq.client")

_COMPRESS_HERE_MAX: Final = 16 * 1024
"""Larger bodies are compressed by a worker: here they would hold up the loop for a millisecond."""

_LAST_TURNS_S: Final = 1
"""How long a close waits for those in line to be told; each of them takes microseconds."""


class Begun(msgspec.Struct):
    """A plain send on its way."""

    answer: "asyncio.Future[Frame]"
    message: Message
    send_id: str
    slot: Slot
    began: float


class Wish(NamedTuple):
    """What a caller asked for, besides the message."""

    target: Target = None
    timeout_ms: int | None = None
    require: Require | None = None
    marks: Mapping[str, str] = NO_MARKS
    mode: SendMode = SendMode.ANSWERED
    slot: Slot | None = None
    """Whose turn it is, if the first try is left to the plan and that was asked already."""
    call_turn: KeyTurn | None = None
    """The place of a call in the lines of its keys, if it holds one; whoever joined leaves."""


class Dispatch:
    """The sends of one running producer; belongs to its loop.

    Args:
        core: the client, acquired for it.
        settings: the producer's.
        hooks: what to call around each send.

    """

    def __init__(self, core: ClientCore, settings: ProducerSettings, hooks: Hooks) -> None:
        machine = core.machine
        self.settings = settings
        self.statistics = SendStatistics(settings.group, machine.clock.monotonic_ms())
        self.permits = Permits(settings.in_flight_max, settings.in_flight_bytes_max)
        ids = _unique_ids(core)
        self.packer = Packer(settings, core.settings, ids)
        self._next_id_at, self._properties_text = ids.next_at, self.packer.properties_text
        self.health = health_of(settings)
        self.lanes = Lanes(core, settings, self.packer, self.health)
        self._stalls = LoopStalls.watch()
        self._courier = Courier(
            core, settings, self.lanes, self.health, self.statistics, self._stalls
        )
        self._core = core
        self._hooks = hooks
        self._key_turns = KeyTurns()
        self.before_turn: Callable[[Message], None] | None = None
        """Called when the turn of a sharding key comes; what it raises ends the send."""
        self._now_ms = machine.clock.now_ms
        self._time: Callable[[], float] = asyncio.get_running_loop().time
        self._plain_max = _plain_max(settings)
        self._learns = self.health.active
        per_try_ms = settings.per_try_timeout_ms if settings.retries else None
        self._first_try_ms = min(per_try_ms or settings.send_timeout_ms, settings.send_timeout_ms)

    def __repr__(self) -> str:
        return f"<Dispatch of {self.settings.group}, {self.permits!r}>"

    async def close(self, timeout_ms: int) -> None:
        """Wait so long for what is on its way; the caller begins nothing any more."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._key_turns.drained()  # who waits there has no permit yet
                await self.permits.drained()
        except TimeoutError:
            pass  # what is left ends by its own timeouts, or with the connections
        self.permits.close()
        self._key_turns.close()
        self._stalls.release()
        await asyncio.sleep(0)  # those who were told may keep what they could not send
        try:
            async with asyncio.timeout(_LAST_TURNS_S):
                await self._key_turns.drained()  # and so may those in line, one after the other
        except TimeoutError:
            log.warning("%s is closed with %r", self.settings.group, self._key_turns)

    async def meet(self, topic: str) -> None:
        """Find a topic, and connect to its brokers as far as they can be reached.

        Raises:
            NoRoute, NameserversFailed: it can't be found.

        """
        lane = await self.lanes.lane(topic)
        away: set[str] = set()
        for queue in lane.queues:
            if queue.broker_name in away:
                continue
            try:
                await self.lanes.connect(lane.slot(queue))
            except NetworkError as error:
                away.add(queue.broker_name)
                log.warning("a broker of %s can't be reached at the start: %s", topic, error)

    async def lane(
        self, topic: str, timeout_ms: int | None = None, *, must_exist: bool = False
    ) -> Lane:
        """Return the lane of a topic, looked up within the time of a send.

        Raises:
            SendTimeout: no nameserver answered in time.
            NoRoute, NameserversFailed: it can't be found.

        """
        limit_ms = self._limit_ms(timeout_ms)
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                return await self.lanes.lane(topic, must_exist=must_exist)
        except TimeoutError:
            raise SendTimeout(
                f"the route of {topic} was not found within {limit_ms} ms; nothing was sent",
                topic=topic,
                send_id="",
                timeout_ms=limit_ms,
                spent=TimeSpent(route_ms=limit_ms),
            ) from None

    def _limit_ms(self, timeout_ms: int | None) -> int:
        """Return the time of a call, as a plain number whichever package made it."""
        return self.settings.send_timeout_ms if timeout_ms is None else index(timeout_ms)

    # A plain send

    def begin(self, message: Message) -> Begun | Slot | None:
        """Begin a plain send, if nothing stands in its way; else return whose turn it would be.

        Of one that is begun the caller waits for the answer, has it read by ``receipt``, or goes on
        after an error by ``go_on``, and gives the permit back, whatever happens. Else it takes the
        other way, with the slot whose turn it is, if that is known already.
        """
        size = len(message.body)
        if self._hooks.are_set or size > self._plain_max or message.sharding_key is not None:
            return None
        lane = self.lanes.ready(message.topic)
        if lane is None:
            return None
        began = self._time()
        learns = self._learns
        slot = lane.next_slot(int(began * 1_000)) if learns else lane.slot_in_turn()
        connection = slot.connection
        if connection is None or not connection.is_open or not self.permits.take(size):
            return slot
        try:
            now_ms = self._now_ms()
            send_id = message.message_id or self._next_id_at(now_ms)
            text = self._properties_text(message, send_id)
            answer = connection.start_request(
                slot.stamp.fill_plain(now_ms, text, flag=message.flag),
                message.body,
                timeout_ms=self._first_try_ms_of(slot, began) if learns else self._first_try_ms,
                code=PLAIN_CODE,
            )
        except OrbitError:  # the other way meets it too, and has words for it
            self.permits.give_back(size)
            return slot
        return Begun(answer, message, send_id, slot, began)

    def receipt(self, begun: Begun, answer: Frame) -> SendReceipt:
        """Return what a broker says of a plain send.

        Raises:
            BrokerError, InvalidHeader: it did not store the message, or says not where.

        """
        slot, began = begun.slot, begun.began
        receipt = read_receipt(answer, begun.send_id, slot.queue, slot.peer)
        if answer.version < VERSION_5_0_0:
            self._courier.delivered_at_once.look(begun.message, slot.peer, answer.version)
        now = self._time()
        took_ms, now_ms = int((now - began) * 1_000), int(now * 1_000)
        self.statistics.stored(receipt.status, took_ms, now_ms)
        if self._learns:
            self.health.learn(slot.queue.broker_name, Outcome.STORED, took_ms, now_ms)
        return receipt

    def _first_try_ms_of(self, slot: Slot, began: float) -> int:
        """Tell health of a try that leaves now, and return how long it may take."""
        if not self.health.sent(slot.queue.broker_name, int(began * 1_000)):
            return self._first_try_ms
        plan = SendPlan(self.settings, self._core.machine.randomness, began_ms=0)
        return plan.try_timeout_ms(0, probe=True)

    async def go_on(self, begun: Begun, error: OrbitError) -> SendReceipt:
        """Return the receipt of a plain send whose first try failed, after further ones.

        Raises:
            OrbitError: as ``send`` does.

        """
        parcel = self.packer.pack(begun.message, send_id=begun.send_id)
        errand = Errand(parcel, None, self.settings.send_timeout_ms, begun.began)
        errand.spend("answer_ms", self._time() - begun.began)
        tried = Tried(begun.slot, begun.began, error)
        try:
            receipt = await self._courier.deliver(errand, tried)
        except BaseException as failure:
            self.statistics.failed_with(failure)
            raise
        self._count(errand, receipt)
        return receipt

    # Any other send

    async def send(self, message: Message, wish: Wish) -> SendReceipt:
        """Return the receipt of a message.

        Raises:
            SendFailed: or one of its kinds.
            NoRoute, NameserversFailed: where to send is not known.
            InvalidInput: or one of its kinds: what was given can't be sent.
            ProducerClosed: the producer was closed before the turn of the send came.
            MissingExtra: the package for the type of compression is not installed.

        """
        parcel = self._packed(message, wish)
        keys: list[Key] = []
        if wish.target is None and message.sharding_key is not None:
            wish = wish._replace(target=message.sharding_key)
            if wish.call_turn is None:
                keys = [(message.topic, message.sharding_key)]
        receipt = await self.carry(parcel, wish, keys)
        check_durable(receipt, wish.require or self.settings.require)
        return receipt

    def check(self, message: Message, wish: Wish) -> None:
        """Check all that can be known of a send before it has a route.

        Raises:
            InvalidInput: or one of its kinds: it can never be sent.

        """
        self._packed(message, wish)

    def _packed(self, message: Message, wish: Wish) -> Parcel:
        check_requirable(message, wish.require or self.settings.require)
        if isinstance(wish.target, MessageQueue):
            check_queue_topic(wish.target, message.topic)
        return self.packer.pack(message, wish.marks)

    def join(self, keys: Iterable[Key]) -> KeyTurn:
        """Join the lines of all keys of a call, before it does anything else; it leaves them."""
        return self._key_turns.join(keys)

    async def carry(self, parcel: Parcel, wish: Wish, keys: Sequence[Key] = ()) -> SendReceipt:
        """Return the receipt of a parcel, once those of the same keys before it are over.

        Raises:
            OrbitError: as ``send`` does, but for what the receipt may lack.

        """
        errand = Errand(parcel, wish.target, self._limit_ms(wish.timeout_ms), self._time())
        errand.next_slot = wish.slot
        context = self._begin_hooks(parcel, wish) if self._hooks.are_set else None
        receipt: SendReceipt | None = None
        failure: BaseException | None = None
        try:
            receipt = await self._in_turn(errand, keys, wish.call_turn)
        except BaseException as error:
            failure = error
            self.statistics.failed_with(error, len(parcel.messages))
            if isinstance(error, OrbitError) and not error.send_id:
                error.send_id = parcel.send_id
                error.add_note(f"It ended send {parcel.send_id} to {parcel.topic}.")
            raise
        finally:
            if context is not None:
                self._end_hooks(context, errand, receipt, failure)
        self._count(errand, receipt)
        return receipt

    async def oneway(self, message: Message, wish: Wish) -> None:
        """Send a message that nobody answers for.

        Raises:
            SendFailed, NoRoute, NameserversFailed, InvalidInput: as ``send`` does.

        """
        parcel = self.packer.pack(message, wish.marks)
        target = message.sharding_key if wish.target is None else wish.target
        errand = Errand(parcel, target, self._limit_ms(wish.timeout_ms), self._time())
        context = self._begin_hooks(parcel, wish) if self._hooks.are_set else None
        failure: BaseException | None = None
        try:
            await self._compress(errand)
            errand.queue = (await self._courier.oneway(errand)).queue
        except BaseException as error:
            failure = error
            self.statistics.failed_with(error)
            raise
        finally:
            if context is not None:
                self._end_hooks(context, errand, None, failure)
        self.statistics.left()

    async def _in_turn(
        self, errand: Errand, keys: Sequence[Key], call_turn: KeyTurn | None
    ) -> SendReceipt:
        # The turn first and the permit next: who has a permit waits for nobody in a line, so that
        # an earlier send of a key never lacks the permit that a later one holds.
        if call_turn is not None:
            await self._come(errand, call_turn)
        turn = self._key_turns.join(keys) if keys else None
        try:
            if turn is not None:
                await self._come(errand, turn)
            if self.before_turn is not None and (keys or call_turn is not None):
                for message in errand.parcel.messages:
                    self.before_turn(message)
            return await self._with_permit(errand)
        finally:
            if turn is not None:
                turn.leave()

    async def _with_permit(self, errand: Errand) -> SendReceipt:
        size = len(errand.parcel.body)
        if not self.permits.take(size):
            await self._wait_for_permit(errand, size)
        try:
            await self._compress(errand)
            return await self._courier.deliver(errand)
        finally:
            self.permits.give_back(size)

    async def _wait_for_permit(self, errand: Errand, size: int) -> None:
        began = self._time()
        shortage = await self.permits.wait(size, round(1_000 * errand.left_s(began)))
        errand.spend("permit_ms", self._time() - began)
        if shortage is None:
            return
        if shortage.kind is ShortageKind.CLOSED:
            raise ProducerClosed(
                f"send {errand.parcel.send_id} to {errand.parcel.topic} was not begun: the "
                "producer was closed before its turn came",
                state="closed",
            )
        spent = errand.spent(self._stalls)
        raise back_pressure(errand.parcel, shortage, spent, errand.timeout_ms)

    async def _come(self, errand: Errand, turn: KeyTurn) -> None:
        if turn.has_come:
            return
        began = self._time()
        if self._key_turns.waiting >= WAITING_MAX:
            raise self._too_many_waiting(errand)
        try:
            async with asyncio.timeout(errand.left_s(began)):
                await turn.come()
        except TimeoutError:
            errand.spend("permit_ms", self._time() - began)
            spent = errand.spent(self._stalls)
            raise timeout(errand.parcel, (), spent, errand.timeout_ms) from None
        errand.spend("permit_ms", self._time() - began)

    def _too_many_waiting(self, errand: Errand) -> BackPressure:
        permits, kind = self.permits, ShortageKind.WAITING
        waiting = self._key_turns.waiting
        shortage = Shortage(kind, permits.in_flight, permits.in_flight_bytes, waiting)
        spent = errand.spent(self._stalls)
        return back_pressure(errand.parcel, shortage, spent, errand.timeout_ms)

    async def _compress(self, errand: Errand) -> None:
        """Make the body smaller if it is large: a very large one on a worker, within the time."""
        parcel = errand.parcel
        if not self.packer.wants_compression(parcel):
            return
        if len(parcel.body) <= _COMPRESS_HERE_MAX:
            errand.parcel = self.packer.compressed(parcel)
            return
        began = self._time()
        work = self._core.workers.submit(self.packer.compressed, parcel)
        try:
            async with asyncio.timeout(errand.left_s(began)):
                errand.parcel = await asyncio.wrap_future(work)
        except TimeoutError:
            errand.spend("compression_ms", self._time() - began)
            spent = errand.spent(self._stalls)
            raise timeout(parcel, (), spent, errand.timeout_ms) from None
        errand.spend("compression_ms", self._time() - began)

    def _count(self, errand: Errand, receipt: SendReceipt) -> None:
        now = self._time()
        took_ms = int((now - errand.began) * 1_000)
        count = len(errand.parcel.messages)
        self.statistics.stored(receipt.status, took_ms, int(now * 1_000), count)

    # Hooks

    def _begin_hooks(self, parcel: Parcel, wish: Wish) -> SendContext:
        message = parcel.messages[0]
        context = SendContext(
            group=self.settings.group,
            mode=wish.mode,
            namespace=self._core.settings.namespace,
            message=message,
            messages=parcel.messages,
            message_ids=parcel.message_ids,
            kind=kind_of(message, wish.marks),
            send_id=parcel.send_id,
            began_ms=self._now_ms(),
            queue=wish.target if isinstance(wish.target, MessageQueue) else None,
        )
        try:
            self._hooks.check(context)
        except Exception as error:
            raise SendForbidden(
                f"send {parcel.send_id} to {parcel.topic} was forbidden by a hook: {error}",
                topic=parcel.topic,
                send_id=parcel.send_id,
            ) from error
        self._hooks.before(context)
        return context

    def _end_hooks(
        self,
        context: SendContext,
        errand: Errand,
        receipt: SendReceipt | None,
        failure: BaseException | None,
    ) -> None:
        context.took_ms = int((self._time() - errand.began) * 1_000)
        context.receipt = receipt
        context.error = failure
        if receipt is not None:
            context.queue = receipt.queue
        elif isinstance(failure, SendFailed):
            context.queue = failure.queue
        else:
            context.queue = errand.queue
        lane = self.lanes.ready(errand.parcel.topic)
        if lane is not None and context.queue is not None:
            context.broker_address = str(lane.slot(context.queue).address or "")
        self._hooks.after(context)


def _plain_max(settings: ProducerSettings) -> int:
    """Return the largest body that may be begun on the spot; -1 if the settings ask for more."""
    is_plain = (
        settings.short_header
        and settings.require is None
        and not settings.retry_another_broker_when_not_stored
    )
    return min(settings.compress_over_bytes - 1, settings.max_message_bytes) if is_plain else -1


def _unique_ids(core: ClientCore) -> UniqueIds:
    machine = core.machine
    return UniqueIds(
        Host.parse(f"{machine.host}:0").ip,
        pid=machine.pid,
        discriminator=machine.randomness.below(2**32),
        clock=machine.clock,
        month_of=local_month,
    )
