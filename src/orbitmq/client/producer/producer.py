"""The producer: sends messages to brokers, and returns their receipts.

A producer belongs to the event loop that it was started on. ``orbitmq.blocking`` has one for
threads.
"""

import logging
from asyncio import _get_running_loop as running_loop_or_none
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Unpack

from orbitmq.client.arguments import check_listener, check_timeout_ms
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.life import ClientState, Startable
from orbitmq.client.observe.hooks import Hooks, SendHook, SendMode
from orbitmq.client.observe.otel_spans import SpanHook, telemetry
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.observe.trace_reports import TraceReporter
from orbitmq.client.producer.exchanges import ExchangeMethods, Exchanges
from orbitmq.client.producer.health.detector import Detector
from orbitmq.client.producer.options import ProducerOptions, build_settings
from orbitmq.client.producer.outbox.outbox import Outbox
from orbitmq.client.producer.outbox.send_or_keep import SendOrKeep
from orbitmq.client.producer.sending.accumulator import Accumulator
from orbitmq.client.producer.sending.queue_choice import QueueSelector
from orbitmq.client.producer.sending.send_many import send_gathered, send_many
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.producer.sending.targets import destination_of
from orbitmq.client.producer.start_rate import StartRate
from orbitmq.client.producer.tracing import Tracing
from orbitmq.client.producer.transactions import Check, TransactionListener
from orbitmq.client.settings import ClientSettings, ProducerSettings, Require
from orbitmq.errors import InvalidInput, ProducerClosed
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message
from orbitmq.message.names import check_topic, wrap_namespace

__all__ = ["Producer"]

log = logging.getLogger("orbitmq.client")

_NO_OPTIONS: Final = SendOptions()
_starts: Final = StartRate()


class Producer(Startable, ExchangeMethods):
    """Sends messages; an async context manager, or ``start`` and ``close``.

    Args:
        group: the producer group; that of ``settings`` if left out.
        settings: how it sends.
        client: nameservers and connections.
        machine: clock, network and other things that tests replace.
        transaction_listener: does the local work of transactions and answers the broker's checks;
            or a function that only answers checks.
        options: fields of both settings; they override ``settings`` and ``client``.

    Raises:
        InvalidInput: an option is unknown, can't be used, or contradicts another one.

    >>> import asyncio
    >>> from orbitmq.embedded import EmbeddedCluster
    >>> async def main() -> str:
    ...     async with EmbeddedCluster() as cluster:
    ...         async with Producer("billing", nameserver=cluster.nameserver) as producer:
    ...             receipt = await producer.send(Message("orders", b"paid", keys=["o-42"]))
    ...             return receipt.status.value
    >>> asyncio.run(main())
    'SEND_OK'
    """

    _closed_error = ProducerClosed

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        transaction_listener: TransactionListener | Check | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.settings, self.client_settings = build_settings(group, options, settings, client)
        super().__init__(f"producer {self.settings.group}", self.settings.stop_timeout_ms)
        check_listener(transaction_listener)
        self._machine = machine
        self._transaction_listener = transaction_listener
        self._hooks = Hooks()
        self._sender: Sender | None = None
        self._running_sender: Sender | None = None  # the same, while it is running
        self._accumulator: Accumulator | None = None
        self._exchanges: Exchanges | None = None
        self._keeping: SendOrKeep | None = None
        self._tracing: Tracing | None = None
        self._core: ClientCore | None = None

    # Start and close

    @property
    def client_id(self) -> str:
        """The client id that brokers know; empty before the start."""
        return "" if self._core is None else self._core.client_id

    @property
    def statistics(self) -> SendStatistics:
        """Counts and times of its sends; see also ``SendStatistics.prometheus``.

        Raises:
            NotRunning: it was never started.
        """
        if self._sender is None:
            raise self._not_running()
        return self._sender.statistics

    @property
    def tracer(self) -> TraceReporter | None:
        """Counts the trace reports of its sends; None unless ``trace`` is set."""
        return None if self._tracing is None else self._tracing.tracer

    @property
    def outbox(self) -> Outbox | None:
        """The messages kept on disk to be sent later; None unless ``outbox_path`` is set."""
        return None if self._keeping is None else self._keeping.outbox

    def add_hook(self, hook: SendHook) -> None:
        """Call a hook around each send that begins from now on.

        Raises:
            InvalidInput: it lacks a method of ``SendHook``, or one is a coroutine function.
        """
        self._hooks.add(hook)

    def remove_hook(self, hook: SendHook) -> None:
        """Remove a hook; ValueError if it was not added."""
        self._hooks.remove(hook)

    async def start(self) -> None:
        """Start, and return when it can send. With ``topics``, connect to their brokers too.

        Raises:
            AlreadyStarted: it was started before.
            NoNameserver: no nameserver is set.
            NoRoute, NameserversFailed: a topic of ``topics`` has no route.
            InvalidInput: a group or instance name is in use with other settings.
        """
        await self._start()
        self._running_sender = self._sender

    async def _open(self, parts: AsyncExitStack) -> None:
        settings = self.settings
        core = self._core = await ClientCore.acquire(self.client_settings, self._machine)
        parts.push_async_callback(core.release)
        _starts.note(core.machine.clock.monotonic_ms())
        group = wrap_namespace(core.settings.namespace, settings.group)
        owner = object()  # not this producer: the core must not keep it from being collected
        core.register_producer(group, owner)
        leave = partial(core.unregister_producer, group, owner)
        parts.push_async_callback(self._in_time, leave)
        if settings.trace:
            self._tracing = Tracing(core, settings)
            self._add_own_hook(self._tracing.hook, parts)
            parts.push_async_callback(self._in_time, self._tracing.close)
        if (opentelemetry := telemetry()) is not None:
            self._add_own_hook(SpanHook(opentelemetry), parts)
        sender = self._sender = Sender(core, settings, self._hooks)
        if settings.outbox_path:
            self._keeping = SendOrKeep(core, sender, settings)
            parts.push_async_callback(self._keeping.close)
        parts.push_async_callback(self._in_time, sender.close)
        if self._keeping is not None:
            await self._keeping.open()
            parts.push_async_callback(self._keeping.stop)
        self._exchanges = Exchanges(
            core,
            sender,
            self._transaction_listener,
            on_end=self._tracing.note_end if self._tracing else lambda _end: None,
        )
        parts.push_async_callback(self._in_time, self._exchanges.close)
        if settings.detector:
            detector = Detector(core, sender.health, settings.detect_timeout_ms)
            await parts.enter_async_context(detector)
        if settings.auto_batch:
            self._accumulator = Accumulator(
                settings, core.machine.clock, partial(send_gathered, sender)
            )
            parts.push_async_callback(self._in_time, self._accumulator.flush)
        for topic in settings.topics:
            await sender.meet(topic)

    def _add_own_hook(self, hook: SendHook, parts: AsyncExitStack) -> None:
        self._hooks.add(hook)
        parts.callback(self._hooks.remove, hook)

    def _stop(self) -> None:
        self._running_sender = None
        if self._state is ClientState.START_FAILED:
            self._sender = self._accumulator = self._core = None
            self._exchanges = self._keeping = self._tracing = None

    async def close(self) -> None:
        """Wait up to ``stop_timeout_ms`` for pending sends, and stop. A second call does nothing.

        A start or another close that is in progress ends first.

        Raises:
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        await self._close()

    # Sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
        require: Require | str | None = None,
    ) -> SendReceipt:
        """Send a message, and return the broker's receipt.

        By default queues are used round-robin, and a failed send is retried on another broker. A
        message with a sharding key goes to the queue of the key; sends of one key are stored in the
        order of the calls, even if none is awaited before the next.

        A failure before the request left, such as a refused connection, is retried until the time
        ends, with growing pauses; it does not count as one of the ``retries``.

        Args:
            message: what to send; it is not changed.
            queue: the queue to send it to. One try, unless ``retry_same_queue`` is set.
            selector: chooses the queue. One try, too.
            sharding_key: replaces the message's sharding key. One try, too.
            timeout_ms: the time budget of the call; ``send_timeout_ms`` if left out.
            require: the least that the receipt must say: stored, flushed or replicated. A broker
                that flushes or replicates in the background (ASYNC_FLUSH, ASYNC_MASTER, its
                defaults) answers SEND_OK without waiting for it, which meets any of them.

        Raises:
            SendFailed: or one of its kinds, such as ``SendTimeout`` or ``SendNoRoute``;
                ``may_be_stored`` says whether a broker may have stored the message anyway.
            NotDurable: it is stored, but less safely than required.
            InvalidInput: or one of its kinds, such as ``MessageTooLarge``: it can't be sent.
            NotRunning: the producer is not started, or is closed.
            WrongLoop, WrongProcess: the producer belongs to another loop or process.
        """
        sender = self._running_sender
        if sender is None or running_loop_or_none() is not self._loop:
            sender = self._running()  # raises, and says what is wrong
        if type(message) is not Message:
            check_is_message(message)
        chosen = queue is not None or selector is not None or sharding_key is not None
        if not chosen and timeout_ms is None and require is None and self._keeping is None:
            if self._accumulator is not None and message.sharding_key is None:
                gathered = self._accumulator.add(message)
                if gathered is not None:
                    return await gathered
            return await sender.send_plain(message)
        if timeout_ms is not None:
            check_timeout_ms(timeout_ms)
        destination = destination_of(queue, selector, sharding_key)
        if sharding_key is not None:
            message = message.replace(sharding_key=sharding_key)
            destination = None
        options = SendOptions(destination, timeout_ms, _require(require))
        if self._keeping is None:
            return await sender.send(message, options)
        return await self._send_or_keep(self._keeping, message, options)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a message that is not acknowledged: it may be lost without an error.

        Args:
            message: what to send.
            queue: the queue to send it to.
            selector: chooses the queue.
            timeout_ms: the time budget for route and connection.

        Raises:
            SendFailed: it could not be sent.
            OrbitError: as ``send`` does.
        """
        check_timeout_ms(timeout_ms)
        options = SendOptions(destination_of(queue, selector), timeout_ms, mode=SendMode.ONEWAY)
        await self._running().oneway(message, options)

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        queues: Sequence[MessageQueue | None] | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
        require: Require | str | None = None,
        frame_bytes: int | None = None,
    ) -> list[SendReceipt]:
        """Send messages together, and return a receipt for each, in their order.

        Messages of one topic are sent in as few frames as their size allows; those that can't be in
        a batch, such as delayed ones, are sent alone. Frames to one queue are sent one after the
        other; if one fails, the rest is not sent, to keep the order. Messages of one sharding key
        also keep their order with other calls in progress.

        Args:
            messages: what to send, to any topics.
            queue: the queue to send them to.
            queues: the queue of each; None: by its sharding key, or round-robin.
            selector: chooses the queue of each.
            timeout_ms: the time budget of each frame.
            require: the least that each receipt must say.
            frame_bytes: the approximate size of the largest frame; ``max_message_bytes`` if left
                out. Smaller frames spread over more queues.

        Raises:
            PartlySent: some of several frames failed; it has the errors, and the receipts of the
                others. With an outbox, the errors of messages that are kept are ``SendKept``.
            InvalidInput: more than one of queue, queues and selector is given, or one of them
                can't be used.
            OrbitError: the only frame failed, as in ``send``.
        """
        check_timeout_ms(timeout_ms)
        destination = destination_of(queue, selector)
        if queues is not None and destination is not None:
            raise InvalidInput(
                "give at most one of queue, queues and selector: each chooses the queue",
                field="queues",
            )
        options = SendOptions(destination, timeout_ms, _require(require))
        sender = self._running()
        send = partial(send_many, sender) if self._keeping is None else self._keeping.send_many
        return await send(messages, options, queues=queues, frame_bytes=frame_bytes)

    async def queues(self, topic: str, *, must_exist: bool = True) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that can be written to, in the order that selectors see.

        Args:
            topic: the topic.
            must_exist: False: if the first send to the topic would create it, return the queues
                that it will have.

        Raises:
            NoRoute, NameserversFailed, SendTimeout: there is no route.
            InvalidTopic: the name is not allowed.
        """
        check_topic(topic)
        topic_target = await self._running().find(topic, must_exist=must_exist)
        return tuple(topic_target.queues)

    async def _send_or_keep(
        self, keeping: SendOrKeep, message: Message, options: SendOptions
    ) -> SendReceipt:
        sender = self._running()

        async def send(named: Message) -> SendReceipt:
            if (
                self._accumulator is not None
                and options == _NO_OPTIONS
                and named.sharding_key is None
            ):
                gathered = self._accumulator.add(named)
                if gathered is not None:
                    return await gathered
            return await sender.send(named, options)

        return await keeping.send(keeping.named(message), send, options)

    def _exchanging(self) -> Exchanges:
        self._running()
        assert self._exchanges is not None  # made at the start
        return self._exchanges

    def _running(self) -> Sender:
        sender = self._running_sender
        if sender is None:
            raise self._not_running()
        if running_loop_or_none() is not self._loop:
            self._check_loop()
        return sender


def _require(require: Require | str | None) -> Require | None:
    try:
        return None if require is None else Require(require)
    except ValueError:
        allowed = ", ".join(one.value for one in Require)
        raise InvalidInput(
            f"require is {str(require)[:40]!r}; it must be one of {allowed}", field="require"
        ) from None
