"""The sends of a running producer: each is one object, begun by a call and finished by its caller.

::

    send_plain ──▶ plain_sends, many at once ── what needs care ─────────────────────┐
    begin ──▶ PendingSend, on the wire if route, connection and permit are at hand ──┤
    send ───▶ PendingSend, nothing done yet ─────────────────────────────────────────┴▶ finish

``finish`` does what is left: the turn of a sharding key, a permit, compression, all attempts, and
the end, with statistics and hooks. It is the same for all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Final, NamedTuple, Protocol

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
from orbitmq.client.producer.sending.failures import (
    back_pressure,
    no_route,
    route_timeout,
    timeout,
)
from orbitmq.client.producer.sending.key_order import Key, KeyOrder, KeyPlace
from orbitmq.client.producer.sending.packing import NO_MARKS, Packer, PreparedSend
from orbitmq.client.producer.sending.plain_sends import Ended, PlainLimits, PlainSends
from orbitmq.client.producer.sending.receipts import check_durable, check_requirable
from orbitmq.client.producer.sending.targets import (
    Destination,
    QueueTarget,
    TopicTarget,
    TopicTargets,
)
from orbitmq.client.producer.sending.timing import LoopStalls
from orbitmq.client.settings import ProducerSettings, Require
from orbitmq.errors import (
    BackPressure,
    NameserversFailed,
    NetworkError,
    NoRoute,
    OrbitError,
    ProducerClosed,
    SendFailed,
    SendForbidden,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt

__all__ = ["SendOptions", "Sender", "Waiter"]

log = logging.getLogger("orbitmq.client")

_COMPRESS_HERE_MAX: Final = 16 * 1024
"""Larger bodies are compressed by a worker: they would block the loop for a millisecond."""

_TOGETHER_MAX: Final = 64 * 1024
"""Larger bodies are sent alone: nothing is gained by writing several together."""

_LAST_TURNS_S: Final = 1
"""How long a close waits for sends in line to end; each of them takes microseconds."""


class Waiter(Protocol):
    """Waits for a receipt, such as a future; it is called once, on the loop."""

    def done(self) -> bool:
        """Return whether it waits no more."""
        ...

    def set_result(self, receipt: SendReceipt, /) -> None:
        """Take the receipt."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error of the send."""
        ...


class SendOptions(NamedTuple):
    """The caller's options of a send."""

    destination: Destination = None
    timeout_ms: int | None = None
    require: Require | None = None
    marks: Mapping[str, str] = NO_MARKS
    mode: SendMode = SendMode.ANSWERED
    call_place: KeyPlace | None = None
    """The place of the call in the order of its keys, if it has one; the call leaves it."""


_NO_OPTIONS: Final = SendOptions()


class Sender:
    """The sends of one running producer; belongs to its loop.

    ``plainly=False`` makes each send alone, the plain ones too.
    """

    def __init__(
        self, core: ClientCore, settings: ProducerSettings, hooks: Hooks, *, plainly: bool = True
    ) -> None:
        machine = core.machine
        self.settings = settings
        self.statistics = SendStatistics(settings.group, machine.clock.monotonic_ms())
        self.permits = Permits(settings.in_flight_max, settings.in_flight_bytes_max)
        self.packer = Packer(settings, core.settings, core.machine.unique_ids())
        self._pack_plain = self.packer.pack_plain
        self.health = health_of(settings)
        self.targets = TopicTargets(core, settings, self.packer, self.health)
        self._stalls = LoopStalls.watch()
        self._attempts = Attempts(
            core, settings, self.targets, self.health, self.statistics, self._stalls
        )
        self._core = core
        self._hooks = hooks
        self._key_order = KeyOrder()
        self._of_waiters: dict[Waiter, asyncio.Task[SendReceipt] | _Relay] = {}
        self.before_turn: Callable[[Message], None] | None = None
        """Called when it is the turn of a message with a sharding key; an error ends the send."""
        self._now_ms = machine.clock.now_ms
        self._time: Callable[[], float] = asyncio.get_running_loop().time
        self._create_future = asyncio.get_running_loop().create_future
        self._plain_max = _plain_max(settings)
        self._learns = self.health.active
        self._timeout_ms = settings.send_timeout_ms
        size_max = min(self._plain_max, _TOGETHER_MAX)
        if not plainly or self._learns or not settings.short_header:
            size_max = -1
        self._plain = PlainSends(
            self.targets,
            self.packer,
            self.permits,
            self.statistics,
            hooks,
            self._now_ms,
            PlainLimits(size_max, settings.send_timeout_ms, self._attempts.first_try_ms),
            self.begin,
        )

    def __repr__(self) -> str:
        return f"<Sender of {self.settings.group}, {self.permits!r}>"

    async def close(self, timeout_ms: int) -> None:
        """Wait up to that long for pending sends; the caller starts no new ones."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._key_order.drained()  # sends that wait there have no permit yet
                await self.permits.drained()
        except TimeoutError:
            pass  # the rest ends by timeouts, or when the connections close
        self.permits.close()
        self._key_order.close()
        self._stalls.release()
        await asyncio.sleep(0)  # sends that have just failed may go into the outbox
        try:
            async with asyncio.timeout(_LAST_TURNS_S):
                await self._key_order.drained()  # so may those in line, one after the other
        except TimeoutError:
            log.warning("producer %s is closed with %r", self.settings.group, self._key_order)

    async def meet(self, topic: str) -> None:
        """Look up a topic, and connect to its brokers; one that can't be reached is logged."""
        topic_target = await self.targets.find(topic)
        away: set[str] = set()
        for queue in topic_target.queues:
            if queue.broker_name in away:
                continue
            try:
                await self.targets.connect(topic_target.of(queue))
            except NetworkError as error:
                away.add(queue.broker_name)
                log.warning("a broker of %s can't be reached at the start: %s", topic, error)

    async def find(
        self, topic: str, timeout_ms: int | None = None, *, must_exist: bool = False
    ) -> TopicTarget:
        """Return the target of a topic, looked up within the time budget of a send.

        Raise SendNoRoute if there is no queue to write to, and SendTimeout or SendNameserversFailed
        if no nameserver answered in time, or at all.
        """
        limit_ms = self._limit_ms(timeout_ms)
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                return await self.targets.find(topic, must_exist=must_exist)
        except TimeoutError:
            raise route_timeout(topic, limit_ms, self._core.routes.unanswered) from None
        except (NoRoute, NameserversFailed) as error:
            raise no_route(error, topic) from error

    def _limit_ms(self, timeout_ms: int | None) -> int:
        """Return the time budget of a call as an int; numbers of NumPy are allowed."""
        return self.settings.send_timeout_ms if timeout_ms is None else index(timeout_ms)

    # Sending

    async def send_plain(self, message: Message) -> SendReceipt:
        """Return the receipt of a message that is sent without options."""
        begun: asyncio.Future[Ended] = self._create_future()
        send = self._plain.begin(message, begun)
        if send is not None:
            return await self.finish(send)
        try:
            ended = await begun
        except asyncio.CancelledError as error:
            self._plain.abandon(begun, message, error)
            raise
        return ended if isinstance(ended, SendReceipt) else await self.finish(ended)

    def begin(self, message: Message, queue_target: QueueTarget | None = None) -> PendingSend:
        """Return a send without options, with its request written if that is possible now.

        ``queue_target`` is the queue whose turn it is, if one has been asked. The caller awaits
        ``finish``. Raise InvalidInput if the message can't be sent, and SendForbidden if a hook
        forbids it.
        """
        size = len(message.body)
        if self._hooks.are_set or size > self._plain_max or message.sharding_key is not None:
            return self._begin(message, _NO_OPTIONS)
        began, now_ms = self._time(), self._now_ms()
        send = PendingSend(self._pack_plain(message, now_ms), began, self._timeout_ms)
        self._start(send, size, now_ms, queue_target)
        return send

    def _start(
        self, send: PendingSend, size: int, now_ms: int, queue_target: QueueTarget | None = None
    ) -> None:
        """Write the request of a send, if route, connection and permit are at hand."""
        began = send.began
        if queue_target is None and (topic_target := self.targets.ready(send.prepared.topic)):
            queue_target = (
                topic_target.pick(int(began * 1_000)) if self._learns else topic_target.in_turn()
            )
        if queue_target is not None:
            send.queue_target = queue_target
            connection = queue_target.connection
            if connection is not None and connection.is_open and self.permits.take(size):
                send.permit_bytes = size
                self._attempts.begin(send, queue_target, connection, began, now_ms)

    def begin_for(self, message: Message, waiter: Waiter) -> None:
        """Send a message without options, and give its receipt or its error to ``waiter``."""
        relay = self._of_waiters[waiter] = _Relay(self, message, waiter)
        try:
            send = self._plain.begin(message, relay)
        except Exception as error:
            del self._of_waiters[waiter]
            waiter.set_exception(error)
        else:
            if send is not None:
                self._finish_for(send, waiter)

    def cancel_for(self, waiter: Waiter) -> None:
        """Cancel the send of a waiter that waits no more."""
        begun = self._of_waiters.get(waiter)
        if isinstance(begun, _Relay):
            begun.cancel()
        elif begun is not None:
            # After its first step: a task that never ran would not give its permit back.
            asyncio.get_running_loop().call_soon(begun.cancel)

    def ended_for(self, waiter: Waiter, ended: Ended) -> None:
        """Give the receipt of a plain send to its waiter, or go on with the send."""
        if isinstance(ended, PendingSend):
            self._finish_for(ended, waiter)
        else:
            del self._of_waiters[waiter]
            if not waiter.done():
                waiter.set_result(ended)

    def cancelled_for(self, waiter: Waiter, message: Message) -> None:
        """Record that a plain send was cancelled; its request may be in flight."""
        del self._of_waiters[waiter]
        self.permits.give_back(len(message.body))
        self.statistics.failed_with(asyncio.CancelledError())

    def _finish_for(self, send: PendingSend, waiter: Waiter) -> None:
        task = asyncio.get_running_loop().create_task(self.finish(send))
        self._of_waiters[waiter] = task
        task.add_done_callback(partial(self._finished_for, waiter))

    def _finished_for(self, waiter: Waiter, task: "asyncio.Task[SendReceipt]") -> None:
        """Give the outcome of a send to its waiter."""
        del self._of_waiters[waiter]
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if waiter.done():
            return
        if error is None:
            waiter.set_result(task.result())
        else:
            waiter.set_exception(error)

    async def finish(self, send: PendingSend) -> SendReceipt:
        """Return the receipt of a send, after as many attempts as its plan allows."""
        attempts = self._attempts
        receipt: SendReceipt | None = None
        failure: BaseException | None = None
        try:
            if send.permit_bytes < 0:
                await self._admit(send)
            while receipt is None:
                try:
                    answer = send.answer
                    if answer is None:
                        answer = await attempts.begin_next(send)
                    receipt = attempts.stored(send, await answer)
                except OrbitError as error:
                    receipt = attempts.failed(send, error)
        except BaseException as error:
            failure = error
            self._note_failure(send, error)
            raise
        finally:
            if send.permit_bytes >= 0:
                self.permits.give_back(send.permit_bytes)
            if send.place is not None:
                send.place.leave()
            if send.context is not None:
                self._end_hooks(send, receipt, failure)
        now = self._time()
        took_ms = int((now - send.began) * 1_000)
        count = len(send.prepared.messages)
        self.statistics.stored(receipt.status, took_ms, int(now * 1_000), count)
        if send.require is not None:
            check_durable(receipt, send.require)
        return receipt

    async def send(self, message: Message, options: SendOptions) -> SendReceipt:
        """Return the receipt of a message."""
        return await self.finish(self._begin(message, options))

    async def send_prepared(
        self, prepared: PreparedSend, options: SendOptions, keys: Sequence[Key] = ()
    ) -> SendReceipt:
        """Return the receipt of a prepared send, made after earlier ones of the same keys."""
        send = self._pending(prepared, options, keys)
        if prepared.is_batch and not keys and options == _NO_OPTIONS and send.context is None:
            self._start(send, len(prepared.body), self._now_ms())
        return await self.finish(send)

    def _begin(self, message: Message, options: SendOptions) -> PendingSend:
        prepared = self._prepared(message, options)
        keys: list[Key] = []
        if options.destination is None and message.sharding_key is not None:
            options = options._replace(destination=message.sharding_key)
            if options.call_place is None:
                keys = [(message.topic, message.sharding_key)]
        send = self._pending(prepared, options, keys)
        send.require = options.require or self.settings.require
        return send

    def _pending(
        self, prepared: PreparedSend, options: SendOptions, keys: Sequence[Key] = ()
    ) -> PendingSend:
        send = PendingSend(
            prepared, self._time(), self._limit_ms(options.timeout_ms), options.destination
        )
        send.keys, send.call_place = keys, options.call_place
        if self._hooks.are_set:
            send.context = self._begin_hooks(prepared, options)
        return send

    def _note_failure(self, send: PendingSend, error: BaseException) -> None:
        prepared = send.prepared
        if isinstance(error, asyncio.CancelledError):
            self._attempts.cancelled(send)
        self.statistics.failed_with(error, len(prepared.messages))
        if isinstance(error, OrbitError) and not error.send_id:
            error.send_id = prepared.send_id
            error.add_note(f"it ended send {prepared.send_id} to {prepared.topic}")

    def check(self, message: Message, options: SendOptions) -> None:
        """Check what can be checked of a send before it has a route."""
        self._prepared(message, options)

    def _prepared(self, message: Message, options: SendOptions) -> PreparedSend:
        check_requirable(message, options.require or self.settings.require)
        if isinstance(options.destination, MessageQueue):
            check_queue_topic(options.destination, message.topic)
        return self.packer.pack(message, options.marks)

    def join(self, keys: Iterable[Key]) -> KeyPlace:
        """Join the lines of all keys of a call, before it does anything else; the call leaves."""
        return self._key_order.join(keys)

    async def oneway(self, message: Message, options: SendOptions) -> None:
        """Send a message that is not answered."""
        prepared = self.packer.pack(message, options.marks)
        if options.destination is None:
            options = options._replace(destination=message.sharding_key)
        send = self._pending(prepared, options)
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
        """Return when a send may begin: earlier sends of its keys have ended, it has a permit."""
        # The turn first, then the permit: a send with a permit waits for no other send, so that a
        # later send of a key never holds the permit that an earlier one needs.
        if send.call_place is not None:
            await self._wait_for_turn(send, send.call_place)
        if send.keys:
            send.place = self._key_order.join(send.keys)
            await self._wait_for_turn(send, send.place)
        if self.before_turn is not None and (send.keys or send.call_place is not None):
            for message in send.prepared.messages:
                self.before_turn(message)
        size = len(send.prepared.body)
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
                f"send {send.prepared.send_id} to {send.prepared.topic} was not sent: the "
                "producer was closed before its turn came",
                state="closed",
            )
        spent = send.spent(self._stalls)
        raise back_pressure(send.prepared, shortage, spent, send.timeout_ms)

    async def _wait_for_turn(self, send: PendingSend, place: KeyPlace) -> None:
        if place.is_first:
            return
        began = self._time()
        if self._key_order.waiting >= WAITING_MAX:
            raise self._too_many_waiting(send)
        try:
            async with asyncio.timeout(send.left_s(began)):
                await place.wait()
        except TimeoutError:
            send.spend("permit_ms", self._time() - began)
            spent = send.spent(self._stalls)
            raise timeout(send.prepared, (), spent, send.timeout_ms) from None
        send.spend("permit_ms", self._time() - began)

    def _too_many_waiting(self, send: PendingSend) -> BackPressure:
        permits, kind = self.permits, ShortageKind.WAITING
        waiting = self._key_order.waiting
        shortage = Shortage(kind, permits.in_flight, permits.in_flight_bytes, waiting)
        spent = send.spent(self._stalls)
        return back_pressure(send.prepared, shortage, spent, send.timeout_ms)

    async def _compress(self, send: PendingSend) -> None:
        """Compress a large body, a very large one on a worker."""
        prepared = send.prepared
        if not self.packer.wants_compression(prepared):
            return
        if len(prepared.body) <= _COMPRESS_HERE_MAX:
            send.prepared = self.packer.compressed(prepared)
            return
        began = self._time()
        work = self._core.workers.submit(self.packer.compressed, prepared)
        try:
            async with asyncio.timeout(send.left_s(began)):
                send.prepared = await asyncio.wrap_future(work)
        except TimeoutError:
            send.spend("compression_ms", self._time() - began)
            spent = send.spent(self._stalls)
            raise timeout(prepared, (), spent, send.timeout_ms) from None
        send.spend("compression_ms", self._time() - began)

    # Hooks

    def _begin_hooks(self, prepared: PreparedSend, options: SendOptions) -> SendContext:
        message = prepared.messages[0]
        context = SendContext(
            group=self.settings.group,
            mode=options.mode,
            namespace=self._core.settings.namespace,
            message=message,
            messages=prepared.messages,
            message_ids=prepared.message_ids,
            kind=kind_of(message, options.marks),
            send_id=prepared.send_id,
            began_ms=self._now_ms(),
            queue=options.destination if isinstance(options.destination, MessageQueue) else None,
        )
        try:
            self._hooks.check(context)
        except Exception as error:
            raise SendForbidden(
                f"send {prepared.send_id} to {prepared.topic} was forbidden by a hook: {error}",
                topic=prepared.topic,
                send_id=prepared.send_id,
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
        topic_target = self.targets.ready(send.prepared.topic)
        if topic_target is not None and context.queue is not None:
            context.broker_address = str(topic_target.of(context.queue).address or "")
        self._hooks.after(context)


class _Relay:
    """Passes the end of a plain send on to a waiter; cancelled as a task is."""

    __slots__ = ("_is_cancelled", "_message", "_sender", "_waiter")

    def __init__(self, sender: Sender, message: Message, waiter: Waiter) -> None:
        self._sender = sender
        self._message = message
        self._waiter = waiter
        self._is_cancelled = False

    def done(self) -> bool:
        return self._is_cancelled

    def set_result(self, ended: Ended, /) -> None:
        self._sender.ended_for(self._waiter, ended)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._sender.cancelled_for(self._waiter, self._message)


def _plain_max(settings: ProducerSettings) -> int:
    """Return the largest body of sends that ``begin`` starts; -1: none."""
    if settings.require is not None:
        return -1
    return min(settings.compress_over_bytes - 1, settings.max_message_bytes)
