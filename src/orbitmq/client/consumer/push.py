"""The consumer: its group's messages, handed to a function or an ``async for``.

::

    Membership (second loop) ── queues ──▶ OwnedQueues ── messages ──▶ Delivery ──▶ your code
         ▲                                     │  ▲                       │
         └──── released (ordered) ─────────────┘  └─ Offsets ◀── consumed ┴─ failed ─▶ Retries

A consumer belongs to the event loop that it was started on. Heartbeats, rebalancing and locks run
on a thread of their own: code that blocks the loop keeps its queues.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Final, TypeVar, Unpack

from orbitmq.client.consumer.answers import Answers
from orbitmq.client.consumer.assignment.membership import Membership
from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.delivery import Delivery, DeliveryParts
from orbitmq.client.consumer.delivery.handler import Handler, MessageHandler
from orbitmq.client.consumer.delivery.iterated import IteratedDelivery, Messages
from orbitmq.client.consumer.delivery.ordered import OrderedDelivery
from orbitmq.client.consumer.delivery.retries import Retries
from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.names import Names
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.options import ConsumerOptions, build_settings
from orbitmq.client.consumer.parts import describe_group, make_offsets, make_pulls
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscriptions import Selection, check_subscriptions, subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.second_loop import SecondLoop
from orbitmq.client.life import ClientState, Startable
from orbitmq.client.observe.consume_hooks import ConsumeHook, ConsumeHooks
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.observe.consume_traces import ConsumeTraceHook
from orbitmq.client.observe.otel_spans import ConsumeSpanHook, telemetry
from orbitmq.client.producer.sending.trace_sends import TraceSends
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import is_retry_topic, retry_topic
from orbitmq.wire.bodies.heartbeat import SubscriptionData

__all__ = ["Consumer"]

log = logging.getLogger("orbitmq.client")

_COMMIT_MS: Final = 1_000
"""What a close takes to store offsets, even if handlers have used up the time."""

H = TypeVar("H", bound=MessageHandler)


class Consumer(Startable):
    """Consumes the messages of its group; an async context manager, or ``start`` and ``close``.

    Give it a function by ``on_message``, or iterate over it: taking the next message acknowledges
    the one before.

    Args:
        group: the consumer group; its members share the queues of the topics.
        subscribe: topics, and which of their messages: ``"*"``, tags such as ``"paid || open"``, or
            ``Sql("amount > 10")``. All members of a group must subscribe to the same.
        settings: how it consumes.
        client: nameservers and connections.
        machine: clock, network and other things that tests replace.
        options: fields of both settings; they override ``settings`` and ``client``.

    Raises:
        InvalidInput: an option is unknown, can't be used, or contradicts another one.

    >>> import asyncio
    >>> from orbitmq.client.producer.producer import Producer
    >>> from orbitmq.embedded import EmbeddedCluster
    >>> from orbitmq.message.model import Message
    >>> async def main() -> bytes:
    ...     async with EmbeddedCluster() as cluster:
    ...         async with Producer("shop", nameserver=cluster.nameserver) as producer:
    ...             await producer.send(Message("orders", b"paid"))
    ...         orders = {"orders": "*"}
    ...         async with Consumer(
    ...             "billing", nameserver=cluster.nameserver, subscribe=orders, consume_from="first"
    ...         ) as consumer:
    ...             async for message in consumer:
    ...                 return message.body
    >>> asyncio.run(main())
    b'paid'
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        subscribe: Mapping[str, Selection] | Iterable[str] = (),
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings, self.client_settings = build_settings(group, options, settings, client)
        super().__init__(f"consumer {self.settings.group}", self.settings.stop_timeout_ms)
        self._machine = machine
        self._subscribed = check_subscriptions(subscribe)
        self._handler: MessageHandler | None = None
        self._running_handler: Handler | None = None
        self._hooks = ConsumeHooks()
        self._statistics: ConsumeStatistics | None = None
        self._names = Names(self.client_settings.namespace)
        self._membership: Membership | None = None
        self._owned: OwnedQueues | None = None
        self._iterated: IteratedDelivery | None = None

    # Before the start

    def on_message(self, handler: H) -> H:
        """Call a function or coroutine function with each message; usable as a decorator.

        If it returns, the message is consumed. If it raises, the message is delivered again later,
        to any member of the group, and becomes a dead letter after ``max_reconsume_times``;
        ``RetryLater`` chooses the delay. An ordered consumer tries again after ``suspend_ms``,
        before the next message of the queue. With ``batch_max`` over 1 it gets lists of messages.

        A function runs on one of ``concurrency`` threads, and may block. A coroutine runs on the
        loop of the consumer; ``concurrency`` of them at once.

        Raises:
            InvalidInput: it can't be called, or there is another one already.
            AlreadyStarted: the consumer has started.
        """
        if self._state is not ClientState.CREATED:
            raise self._already_started()
        if not callable(handler):
            raise InvalidInput(
                f"the handler is {type(handler).__name__}; give a function or coroutine function",
                field="handler",
            )
        if self._handler is not None:
            raise InvalidInput(
                f"{self._name} has a handler already: {self._handler!r}; choose by message.topic "
                "in one handler, or make a consumer for each",
                field="handler",
            )
        self._handler = handler
        return handler

    def add_hook(self, hook: ConsumeHook) -> None:
        """Call a hook around each delivery; InvalidInput if it lacks a method of ConsumeHook."""
        self._hooks.add(hook)

    def remove_hook(self, hook: ConsumeHook) -> None:
        """Remove a hook; ValueError if it was not added."""
        self._hooks.remove(hook)

    # Start and close

    @property
    def statistics(self) -> ConsumeStatistics:
        """Counts and times of what it consumed; see also ``ConsumeStatistics.prometheus``.

        Raises:
            NotRunning: it was never started.
        """
        if self._statistics is None:
            raise self._not_running()
        return self._statistics

    @property
    def client_id(self) -> str:
        """The client id that brokers know; empty before the start."""
        return "" if self._membership is None else self._membership.client_id

    async def start(self) -> None:
        """Join the group, and begin to consume.

        Raises:
            AlreadyStarted: it was started before.
            InvalidInput: nothing is subscribed, or a broker refused a SQL expression.
            NoNameserver: no nameserver is set.
        """
        await self._start()

    async def close(self) -> None:
        """Finish what is in hand, commit, and leave the group. A second call does nothing.

        It waits up to ``stop_timeout_ms`` for handlers; what they have not finished by then is
        delivered to the group again. So is the message of a handler that closes its own consumer.

        Raises:
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        await self._close()

    def _check_program(self) -> None:
        if self._handler is None:
            raise InvalidInput(
                f"{self._name} has no handler, so run() would consume nothing; give it one with "
                "@consumer.on_message",
                field="on_message",
            )

    def _leave_handler(self) -> bool:
        """Take no more messages if the calling thread runs the handler; return whether it does.

        The handler can't wait for the close, which waits for the handler.
        """
        handler = self._running_handler
        if handler is None or not handler.has_thread:
            return False
        handler.is_closing = True
        return True

    async def _open(self, parts: AsyncExitStack) -> None:
        settings, group = self.settings, self._names.wire(self.settings.group)
        if not self._subscribed:
            raise InvalidInput(
                f"{self._name} has no topic; give subscribe={{topic: '*'}}, or call subscribe()",
                field="subscribe",
            )
        core = await ClientCore.acquire(self.client_settings, self._machine)
        parts.push_async_callback(core.release)
        statistics = self._statistics = ConsumeStatistics(settings.group, core.machine.clock)
        second = core.machine.second_loop()
        parts.push_async_callback(second.close)
        membership = self._membership = self._made_membership(second, group)
        parts.push_async_callback(self._in_time, membership.close)
        offsets = make_offsets(core, settings, group)
        await offsets.load()
        times_max = settings.max_reconsume_times
        retries = Retries(core, group, max_reconsume_times=times_max, ordered=settings.ordered)
        parts.push_async_callback(retries.close)
        self._observe(core, parts)
        handler = self._wrapped_handler(core, parts)
        delivering = DeliveryParts(
            settings=settings,
            offsets=offsets,
            retries=retries,
            hooks=self._hooks,
            statistics=statistics,
            clock=core.machine.clock,
            namespace=self._names.namespace,
        )
        delivery = self._delivery(handler, delivering)
        owned = self._owned = OwnedQueues(
            parts=FetchParts(
                pulls=make_pulls(core, settings, group),
                offsets=offsets,
                delivery=delivery,
                subscription_of=membership.subscription_of,
                clock=core.machine.clock,
                commits=not settings.broadcasting,
                interval_ms=settings.pull_interval_ms,
                pulled=statistics.pulled,
                forgotten=membership.announce_soon,
            ),
            start=StartOffsets(core, offsets, settings.consume_from),
            limits=FlowLimits.of(settings),
            offset_interval_ms=settings.offset_interval_ms,
            released=membership.released,
        )
        parts.push_async_callback(
            self._in_time, lambda left_ms: owned.close(max(left_ms, _COMMIT_MS))
        )
        parts.push_async_callback(self._in_time, delivery.close)
        answers = Answers(
            core,
            second,
            membership,
            settings,
            queues=owned,
            offsets=offsets,
            statistics=statistics,
            handler=handler,
        )
        answers.listen()
        parts.push_async_callback(answers.close)
        await membership.start(self._subscriptions())
        delivering.client_id = membership.client_id

    def _made_membership(self, second: SecondLoop, group: str) -> Membership:
        client = self.client_settings
        description = describe_group(self.settings, group, unit_mode=client.unit_mode)
        return Membership(second, client, self._machine, description, self._assigned)

    def _subscriptions(self) -> list[SubscriptionData]:
        given = [self._subscription(*one) for one in self._subscribed.items()]
        if not self.settings.broadcasting:
            retries = retry_topic(self._names.wire(self.settings.group))
            given.append(subscription_data(retries, "*"))
        return given

    def _assigned(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        if self._owned is not None:
            self._owned.assign(topic, queues)

    def _observe(self, core: ClientCore, parts: AsyncExitStack) -> None:
        """Report deliveries to the trace topic, and as spans, if that is switched on."""
        settings = self.settings
        own: list[ConsumeHook] = []
        if settings.trace:
            traced = ProducerSettings(
                settings.group,
                trace_topic=settings.trace_topic,
                trace_batch_max=settings.trace_batch_max,
                trace_queue_max=settings.trace_queue_max,
            )
            sends = TraceSends(core, traced, "CONSUME")
            parts.push_async_callback(self._in_time, sends.close)
            own.append(ConsumeTraceHook(sends.reporter, sends.new_id))
        if (opentelemetry := telemetry()) is not None:
            own.append(ConsumeSpanHook(opentelemetry))
        for hook in own:
            self._hooks.add(hook)
            parts.callback(self._hooks.remove, hook)

    def _wrapped_handler(self, core: ClientCore, parts: AsyncExitStack) -> Handler | None:
        if self._handler is None:
            return None
        workers = core.machine.handler_workers(self.settings.concurrency)
        parts.callback(workers.close, wait=False)  # a thread that hangs must not hold the close
        takes_list = self.settings.batch_max > 1
        handler = Handler(self._handler, takes_list=takes_list, workers=workers)
        self._running_handler = handler
        return handler

    def _delivery(self, handler: Handler | None, parts: DeliveryParts) -> Delivery:
        if handler is None:
            self._iterated = IteratedDelivery(parts)
            return self._iterated
        if self.settings.ordered:
            return OrderedDelivery(handler, parts)
        return ConcurrentDelivery(handler, parts)

    def _stop(self) -> None:
        if self._state is ClientState.START_FAILED:
            self._membership = self._owned = self._iterated = self._statistics = None

    # While it runs

    def __aiter__(self) -> Messages:
        """Iterate over messages until closed; taking the next one acknowledges the one before.

        A step may be cancelled, such as by ``asyncio.timeout``: the next one goes on.

        Raises:
            InvalidInput: it has a handler.
            NotRunning, WrongLoop, WrongProcess: it can't be used here and now.
        """
        self._check_running()
        if self._iterated is None:
            raise InvalidInput(
                f"{self._name} has a handler, which gets the messages; iterate over a consumer "
                "without one",
                field="handler",
            )
        return self._iterated.messages()

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that it consumes now, without those of retries."""
        owned = () if self._owned is None else self._owned.inboxes
        return self._names.seen_queues(one for one in owned if not is_retry_topic(one.topic))

    async def subscribe(self, topic: str, selection: Selection = "*") -> None:
        """Subscribe to a topic, or change what is selected of it; also before the start.

        Raises:
            InvalidInput: the topic or the selection is invalid, or a broker refused it.
        """
        self._subscribed |= check_subscriptions({topic: selection})
        if self._state is not ClientState.CREATED:
            self._check_running()
            assert self._membership is not None
            await self._membership.subscribe(self._subscription(topic, selection))

    async def unsubscribe(self, topic: str) -> None:
        """Consume no more of a topic; nothing happens if it is not subscribed."""
        self._subscribed.pop(topic, None)
        if self._state is not ClientState.CREATED:
            self._check_running()
            assert self._membership is not None
            await self._membership.unsubscribe(self._names.wire(topic))

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Fetch no more of some queues, or of all; what was fetched is still delivered.

        Raises:
            NotRunning, WrongLoop, WrongProcess: it can't be used here and now.
        """
        self._running().pause(self._wire_queues(queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Fetch some queues, or all, again; errors as ``pause``."""
        self._running().resume(self._wire_queues(queues))

    def _running(self) -> OwnedQueues:
        self._check_running()
        assert self._owned is not None
        return self._owned

    def _wire_queues(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue] | None:
        return None if queues is None else list(map(self._names.wire_queue, queues))

    def _subscription(self, topic: str, selection: Selection) -> SubscriptionData:
        return subscription_data(self._names.wire(topic), selection)
