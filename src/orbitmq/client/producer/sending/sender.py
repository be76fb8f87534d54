"""The sends of a running producer: each is one object, begun by a call and finished by its caller.

::

    begin ──▶ PendingSend, on the wire if route, connection and permit are at hand ──┐
    send ───▶ PendingSend, nothing done yet ─────────────────────────────────────────┴▶ finish

``finish`` does what is left: the turn of a sharding key, a permit, compression, all attempts, and
the end, with statistics and hooks. It is the same for both.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Final, NamedTuple

from orbitmq.client.arguments import check_queue_topic
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.hooks import Hooks, SendContext, SendMode, kind_of
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.producer.health.choice import health_of
from orbitmq.client.producer.sending.attempts import Attempts, PendingSend
from orbitmq.client.producer.sending.back_pressure import (
    WAITING_MAX,
    Permits,
    Shortage,
    ShortageKind,
)
from orbitmq.client.producer.sending.failures import back_pressure, timeout
from orbitmq.client.producer.sending.key_order import Key, KeyTurn, KeyTurns
from orbitmq.client.producer.sending.packing import NO_MARKS, Packer, Parcel
from orbitmq.client.producer.sending.receipts import check_durable, check_requirable
from orbitmq.client.producer.sending.targets import Lane, Lanes, Target
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

__all__ = ["Dispatch", "Wish"]

log = logging.getLogger("orbitmq.client")

_COMPRESS_HERE_MAX: Final = 16 * 1024
"""Larger bodies are compressed by a worker: here they would hold up the loop for a millisecond."""

_LAST_TURNS_S: Final = 1
"""How long a close waits for those in line to be told; each of them takes microseconds."""


class Wish(NamedTuple):
    """What a caller asked for, besides the message."""

    target: Target = None
    timeout_ms: int | None = None
    require: Require | None = None
    marks: Mapping[str, str] = NO_MARKS
    mode: SendMode = SendMode.ANSWERED
    call_turn: KeyTurn | None = None
    """The place of a call in the lines of its keys, if it holds one; whoever joined leaves."""


_NO_WISH: Final = Wish()


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
        self.packer = Packer(settings, core.settings, _unique_ids(core))
        self._pack_plain = self.packer.pack_plain
        self.health = health_of(settings)
        self.lanes = Lanes(core, settings, self.packer, self.health)
        self._stalls = LoopStalls.watch()
        self._attempts = Attempts(
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
        self._timeout_ms = settings.send_timeout_ms

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

    # Sending

    def begin(self, message: Message) -> PendingSend:
        """Return a send without any options, started on the spot if nothing is in its way.

        The caller awaits ``finish`` of it.

        Raises:
            InvalidInput: or one of its kinds: the message can't be sent.
            SendForbidden: a hook forbade it.

        """
        size = len(message.body)
        if self._hooks.are_set or size > self._plain_max or message.sharding_key is not None:
            return self._begin(message, _NO_WISH)
        began, now_ms = self._time(), self._now_ms()
        send = PendingSend(self._pack_plain(message, now_ms), began, self._timeout_ms)
        lane = self.lanes.ready(message.topic)
        if lane is not None:
            send.slot = slot = (
                lane.next_slot(int(began * 1_000)) if self._learns else lane.slot_in_turn()
            )
            connection = slot.connection
            if connection is not None and connection.is_open and self.permits.take(size):
                send.permit_bytes = size
                self._attempts.begin(send, connection, began, now_ms)
        return send

    async def finish(self, send: PendingSend) -> SendReceipt:
        """Return the receipt of a send, after as many attempts as its plan allows.

        Raises:
            SendFailed: or one of its kinds.
            NotDurable: it is stored less safely than required.
            NoRoute, NameserversFailed: where to send is not known.
            InvalidInput: the caller's choice of a queue can't be used.
            ProducerClosed: the producer was closed before the send could begin.
            MissingExtra: the package for the type of compression is not installed.

        """
        attempts = self._attempts
        receipt: SendReceipt | None = None
        failure: BaseException | None = None
        try:
            if send.permit_bytes < 0:
                await self._admit(send)
            while receipt is None:
                try:
                    if send.answer is None:
                        await attempts.begin_next(send)
                    assert send.answer is not None
                    receipt = attempts.stored(send, await send.answer)
                except OrbitError as error:
                    receipt = attempts.failed(send, error)
        except BaseException as error:
            failure = error
            self._note_failure(send, error)
            raise
        finally:
            if send.permit_bytes >= 0:
                self.permits.give_back(send.permit_bytes)
            if send.turn is not None:
                send.turn.leave()
            if send.context is not None:
                self._end_hooks(send, receipt, failure)
        now = self._time()
        took_ms = int((now - send.began) * 1_000)
        count = len(send.parcel.messages)
        self.statistics.stored(receipt.status, took_ms, int(now * 1_000), count)
        if send.require is not None:
            check_durable(receipt, send.require)
        return receipt

    async def send(self, message: Message, wish: Wish) -> SendReceipt:
        """Return the receipt of a message.

        Raises:
            OrbitError: as ``begin`` and ``finish`` do.

        """
        return await self.finish(self._begin(message, wish))

    async def send_packed(
        self, parcel: Parcel, wish: Wish, keys: Sequence[Key] = ()
    ) -> SendReceipt:
        """Return the receipt of a parcel, sent after earlier ones of the same keys.

        Raises:
            OrbitError: as ``finish`` does; SendForbidden: a hook forbade it.

        """
        return await self.finish(self._pending(parcel, wish, keys))

    def _begin(self, message: Message, wish: Wish) -> PendingSend:
        parcel = self._packed(message, wish)
        keys: list[Key] = []
        if wish.target is None and message.sharding_key is not None:
            wish = wish._replace(target=message.sharding_key)
            if wish.call_turn is None:
                keys = [(message.topic, message.sharding_key)]
        send = self._pending(parcel, wish, keys)
        send.require = wish.require or self.settings.require
        return send

    def _pending(self, parcel: Parcel, wish: Wish, keys: Sequence[Key] = ()) -> PendingSend:
        send = PendingSend(parcel, self._time(), self._limit_ms(wish.timeout_ms), wish.target)
        send.keys, send.call_turn = keys, wish.call_turn
        if self._hooks.are_set:
            send.context = self._begin_hooks(parcel, wish)
        return send

    def _note_failure(self, send: PendingSend, error: BaseException) -> None:
        parcel = send.parcel
        if isinstance(error, asyncio.CancelledError):
            self._attempts.cancelled(send)
        self.statistics.failed_with(error, len(parcel.messages))
        if isinstance(error, OrbitError) and not error.send_id:
            error.send_id = parcel.send_id
            error.add_note(f"It ended send {parcel.send_id} to {parcel.topic}.")

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

    async def oneway(self, message: Message, wish: Wish) -> None:
        """Send a message that is not answered.

        Raises:
            SendFailed, NoRoute, NameserversFailed, InvalidInput: as ``send`` does.

        """
        parcel = self.packer.pack(message, wish.marks)
        if wish.target is None:
            wish = wish._replace(target=message.sharding_key)
        send = self._pending(parcel, wish)
        failure: BaseException | None = None
        try:
            await self._compress(send)
            await self._attempts.oneway(send)
        except BaseException as error:
            failure = error
            self._note_failure(send, error)
            raise
        finally:
            if send.context is not None:
                self._end_hooks(send, None, failure)
        self.statistics.left()

    # Before the first attempt

    async def _admit(self, send: PendingSend) -> None:
        """Return when a send may begin: its keys' earlier sends have ended, and it has a permit."""
        # The turn first and the permit next: a send that has a permit waits for no other send, so
        # that an earlier one of a key never lacks the permit that a later one holds.
        if send.call_turn is not None:
            await self._come(send, send.call_turn)
        if send.keys:
            send.turn = self._key_turns.join(send.keys)
            await self._come(send, send.turn)
        if self.before_turn is not None and (send.keys or send.call_turn is not None):
            for message in send.parcel.messages:
                self.before_turn(message)
        size = len(send.parcel.body)
        if not self.permits.take(size):
            await self._wait_for_permit(send, size)
        send.permit_bytes = size
        await self._compress(send)

    async def _wait_for_permit(self, send: PendingSend, size: int) -> None:
        began = self._time()
        shortage = await self.permits.wait(size, round(1_000 * send.left_s(began)))
        send.spend("permit_ms", self._time() - began)
        if shortage is None:
            return
        if shortage.kind is ShortageKind.CLOSED:
            raise ProducerClosed(
                f"send {send.parcel.send_id} to {send.parcel.topic} was not begun: the "
                "producer was closed before its turn came",
                state="closed",
            )
        spent = send.spent(self._stalls)
        raise back_pressure(send.parcel, shortage, spent, send.timeout_ms)

    async def _come(self, send: PendingSend, turn: KeyTurn) -> None:
        if turn.has_come:
            return
        began = self._time()
        if self._key_turns.waiting >= WAITING_MAX:
            raise self._too_many_waiting(send)
        try:
            async with asyncio.timeout(send.left_s(began)):
                await turn.come()
        except TimeoutError:
            send.spend("permit_ms", self._time() - began)
            spent = send.spent(self._stalls)
            raise timeout(send.parcel, (), spent, send.timeout_ms) from None
        send.spend("permit_ms", self._time() - began)

    def _too_many_waiting(self, send: PendingSend) -> BackPressure:
        permits, kind = self.permits, ShortageKind.WAITING
        waiting = self._key_turns.waiting
        shortage = Shortage(kind, permits.in_flight, permits.in_flight_bytes, waiting)
        spent = send.spent(self._stalls)
        return back_pressure(send.parcel, shortage, spent, send.timeout_ms)

    async def _compress(self, send: PendingSend) -> None:
        """Make the body smaller if it is large: a very large one on a worker, within the time."""
        parcel = send.parcel
        if not self.packer.wants_compression(parcel):
            return
        if len(parcel.body) <= _COMPRESS_HERE_MAX:
            send.parcel = self.packer.compressed(parcel)
            return
        began = self._time()
        work = self._core.workers.submit(self.packer.compressed, parcel)
        try:
            async with asyncio.timeout(send.left_s(began)):
                send.parcel = await asyncio.wrap_future(work)
        except TimeoutError:
            send.spend("compression_ms", self._time() - began)
            spent = send.spent(self._stalls)
            raise timeout(parcel, (), spent, send.timeout_ms) from None
        send.spend("compression_ms", self._time() - began)

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
        self, send: PendingSend, receipt: SendReceipt | None, failure: BaseException | None
    ) -> None:
        context = send.context
        assert context is not None
        context.took_ms = int((self._time() - send.began) * 1_000)
        context.receipt = receipt
        context.error = failure
        if receipt is not None:
            context.queue = receipt.queue
        elif isinstance(failure, SendFailed):
            context.queue = failure.queue
        else:
            context.queue = send.queue
        lane = self.lanes.ready(send.parcel.topic)
        if lane is not None and context.queue is not None:
            context.broker_address = str(lane.slot(context.queue).address or "")
        self._hooks.after(context)


def _plain_max(settings: ProducerSettings) -> int:
    """Return the largest body that may be sent on the spot; -1: none, there is more to check."""
    if settings.require is not None:
        return -1
    return min(settings.compress_over_bytes - 1, settings.max_message_bytes)


def _unique_ids(core: ClientCore) -> UniqueIds:
    machine = core.machine
    return UniqueIds(
        Host.parse(f"{machine.host}:0").ip,
        pid=machine.pid,
        discriminator=machine.randomness.below(2**32),
        clock=machine.clock,
        month_of=local_month,
    )
