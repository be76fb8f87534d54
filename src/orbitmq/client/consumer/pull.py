"""The pull consumer: asks for messages when it wants them (Java: DefaultLitePullConsumer).

::

    subscribe ─ Membership ─▶ Assignments ─▶ OwnedQueues ─ fetched ─▶ PolledDelivery ─ poll ─▶ you
    assign ──────────────────────┘               ▲                       │ acknowledged by the
                                                 └─ start, seek ─ Positions     next poll, or commit
                                                                     └─ commit ─▶ broker, or file

A pull consumer belongs to the event loop that it was started on. ``orbitmq.blocking`` has one for
threads.
"""

import asyncio
from asyncio import _get_running_loop as running_loop_or_none
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Final, Literal, NamedTuple, TypeVar, Unpack

from orbitmq.client.arguments import check_timeout_ms, time_ms
from orbitmq.client.consumer.answers import Answers
from orbitmq.client.consumer.assignment.membership import Membership
from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.names import Names
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.options import PullConsumerOptions, build_pull_settings
from orbitmq.client.consumer.parts import describe_group, make_offsets, make_pulls
from orbitmq.client.consumer.polling.assignments import AssignmentListener, Assignments
from orbitmq.client.consumer.polling.polled import PolledDelivery, PolledMessages
from orbitmq.client.consumer.polling.positions import Positions
from orbitmq.client.consumer.polling.queue_watch import QueuesListener, QueueWatch
from orbitmq.client.consumer.polling.read_queues import ReadQueues, listed
from orbitmq.client.consumer.settings import PullConsumerSettings
from orbitmq.client.consumer.subscriptions import Selection, subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.client.core.queue_offsets import QueueOffsets
from orbitmq.client.core.second_loop import SecondLoop
from orbitmq.client.core.subscribe_route import subscribe_route
from orbitmq.client.life import ClientState, Startable
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.settings import ClientSettings
from orbitmq.client.user_code import UserCode
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput, NotRunning
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.names import check_topic
from orbitmq.wire.bodies.heartbeat import MessageModel, SubscriptionData

__all__ = ["PullConsumer"]

L = TypeVar("L", bound=AssignmentListener)

_NOT_RUNNING: Final = "The consumer not running, please start it first."
_MODELS: Final = (MessageModel.CLUSTERING, MessageModel.BROADCASTING)
_MESSAGES: Final = 500
"""The most messages of one poll, unless the caller asks for another number; as in Kafka."""


class _Parts(NamedTuple):
    """What a running pull consumer is made of."""

    core: ClientCore
    membership: Membership
    queues: ReadQueues
    watch: QueueWatch


class PullConsumer(Startable):
    """Reads messages when it is asked to; an async context manager, or ``start`` and ``close``.

    Use ``poll`` from one task: a poll acknowledges what the one before returned.

    Args:
        group: the consumer group: its members share the queues of the topics they subscribe to.
        settings: how it reads.
        client: nameservers and connections.
        machine: clock, network and other things that tests replace.
        options: fields of both settings; they override ``settings`` and ``client``.

    Raises:
        InvalidInput: an option is unknown, can't be used, or contradicts another one.

    >>> from orbitmq.client.producer.producer import Producer
    >>> from orbitmq.embedded import EmbeddedCluster
    >>> from orbitmq.message.model import Message
    >>> async def main() -> list[bytes]:
    ...     async with EmbeddedCluster() as cluster:
    ...         async with Producer("shop", nameserver=cluster.nameserver) as producer:
    ...             await producer.send(Message("orders", b"paid"))
    ...         async with PullConsumer(
    ...             "audit", nameserver=cluster.nameserver, consume_from="first"
    ...         ) as consumer:
    ...             await consumer.subscribe("orders")
    ...             messages = await consumer.poll(timeout_ms=10_000)
    ...             await consumer.commit()
    ...             return [message.body for message in messages]
    >>> asyncio.run(main())
    [b'paid']
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: PullConsumerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> None:
        self.settings, self.client_settings = build_pull_settings(group, options, settings, client)
        super().__init__(f"pull consumer {self.settings.group}", self.settings.stop_timeout_ms)
        self._machine = machine
        clock = SystemClock() if machine is None else machine.clock
        self.statistics = ConsumeStatistics(self.settings.group, clock)
        """Counts and times of what it read; see also ``ConsumeStatistics.prometheus``."""
        self._listener: AssignmentListener | None = None
        self._mode: Literal["subscribe", "assign"] | None = None
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._names = Names()
        self._client_id = ""
        self._running: _Parts | None = None

    # Life

    @property
    def client_id(self) -> str:
        """The client id that brokers know; empty before the start."""
        return self._client_id

    async def start(self) -> None:
        """Connect, and return when topics can be subscribed to.

        Raises:
            AlreadyStarted: it was started before.
            NoNameserver: no nameserver is set.
            InvalidInput: an instance name is in use with other settings.
        """
        await self._start()

    async def close(self) -> None:
        """Commit what polls returned, unless auto commit is off, and leave the group.

        A second call does nothing. The end of an ``async with`` block does the same, but if an
        exception ends it, what the last poll returned is not committed.

        Raises:
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        await self._close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.discard()
        await self.close()

    # What it reads

    async def subscribe(self, topic: str, selection: Selection = "*") -> None:
        """Share the queues of a topic with the other members of the group.

        It returns when ``assignment`` has the queues of this member. A topic that no nameserver
        knows yet has none; it is looked up again every 20 s. A second call for a topic changes the
        selection. All members of a group must subscribe to the same.

        Args:
            topic: the topic.
            selection: which messages: ``"*"``, tags such as ``"paid || open"``, or
                ``Sql("amount > 10")``.

        Raises:
            InvalidInput: the topic or selection is invalid, or queues are assigned.
            OrbitError: a broker refused the selection.
            NotRunning: it is not started, or is closed.
        """
        parts = self._check()
        subscription = subscription_data(self._wrapped(topic), selection)
        self._check_mode("subscribe")
        former = dict(self._subscriptions)
        self._subscriptions[subscription.topic] = subscription
        try:
            await parts.membership.subscribe(subscription)
        except BaseException:
            self._subscriptions = former
            raise
        self._mode = "subscribe"
        await parts.queues.assignments.settled()

    async def assign(self, queues: Iterable[MessageQueue], selection: Selection = "*") -> None:
        """Read these queues, in place of those assigned before; other consumers may read them too.

        Committed offsets are those of the group.

        Args:
            queues: queues, such as those of ``queues(topic)``.
            selection: which of their messages, as for ``subscribe``.

        Raises:
            InvalidInput: there is no queue, the selection is invalid, or topics are subscribed.
            NoRoute: a topic does not exist.
            NotRunning: it is not started, or is closed.
        """
        parts = self._check()
        wanted = frozenset(map(self._names.wire_queue, listed(queues)))
        if not wanted:
            raise InvalidInput(
                "Message queues can not be null or empty: give at least one, or call unsubscribe() "
                "to read none",
                field="queues",
            )
        topics = {queue.topic for queue in wanted}
        subscriptions = {topic: subscription_data(topic, selection) for topic in sorted(topics)}
        self._check_mode("assign")
        await parts.membership.attend(topics)
        former, self._subscriptions = self._subscriptions, subscriptions
        self._mode = "assign"
        for topic in sorted(topics | former.keys()):
            parts.queues.assignments.change(topic, frozenset(q for q in wanted if q.topic == topic))
        await parts.queues.assignments.settled()

    async def unsubscribe(self, topic: str | None = None) -> None:
        """Stop to read a topic, or all; offsets are committed as when queues are taken away.

        Raises:
            NotRunning: it is not started, or is closed.
        """
        parts = self._check()
        topics = list(self._subscriptions) if topic is None else [self._wrapped(topic)]
        for one in topics:
            if self._subscriptions.pop(one, None) is not None:
                if self._mode == "subscribe":
                    await parts.membership.unsubscribe(one)
                parts.queues.assignments.change(one, frozenset())
        if self._mode == "assign":
            await parts.membership.attend(self._subscriptions)
        if not self._subscriptions:
            self._mode = None
        await parts.queues.assignments.settled()

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that it reads now; none unless it is running."""
        if self._running is None:
            return frozenset()
        return self._names.seen_queues(self._running.queues.assignments.queues)

    def on_assignment(self, listener: L) -> L:
        """Call a function when the queues that it reads change; a decorator too.

        It gets two sets: the queues given and the queues taken. It is called before the first
        message of a new queue, so that it may ``seek``; and after the last commit of a lost one,
        but not for the close. A coroutine function runs on the loop, a plain one on a thread.

        Raises:
            AlreadyStarted: the consumer has started.
        """
        if self._state is not ClientState.CREATED:
            raise self._already_started()
        self._listener = listener
        return listener

    async def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """Call a function with a topic and its queues when they change.

        They are looked up every ``topic_check_interval_ms``.

        Raises:
            OrbitError: the topic can't be looked up.
            NotRunning: it is not started, or is closed.
        """
        await self._check().watch.add(topic, listener)

    # Messages

    async def poll(
        self, timeout_ms: int | None = None, *, max_messages: int = _MESSAGES
    ) -> list[StoredMessage]:
        """Return messages, as soon as there are any; an empty list if none come in time.

        A poll acknowledges what the one before returned: auto commit commits it.

        Args:
            timeout_ms: how long to wait; ``poll_timeout_ms`` if left out.
            max_messages: the most to return; others stay for the next poll.

        Raises:
            InvalidInput: nothing is subscribed or assigned, or an argument is invalid.
            NotRunning: it is not started, or is closed.
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.poll_timeout_ms
        else:
            check_timeout_ms(timeout_ms)
        if max_messages < 1:
            raise InvalidInput(
                f"max_messages is {max_messages}; it must be 1 or more", field="max_messages"
            )
        return await self._poll(max(0, timeout_ms) / 1_000, max_messages)

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """Iterate over messages until it is closed; the next acknowledges the one before.

        A step may be cancelled, such as by ``asyncio.timeout``: the next one goes on.
        """
        return PolledMessages(self._poll)

    def discard(self) -> None:
        """Don't acknowledge what the last poll returned: no later poll or close commits it.

        It is read again after the next start, or by another member that gets its queue; ``seek``
        to read it again here.
        """
        if self._running is not None:
            self._running.queues.polled.discard()

    async def _poll(self, timeout_s: float | None, count: int) -> list[StoredMessage]:
        polled = self._check().queues.polled
        if self._mode is None:
            raise InvalidInput(
                f"{self._name} reads no queue; call subscribe(topic) or assign(queues) first",
                field="subscribe",
            )
        polled.acknowledge()
        messages = polled.take(count)
        if messages or timeout_s == 0:
            return self._names.seen_messages(messages)
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while await polled.wait(None if end is None else end - loop.time()):
            if messages := polled.take(count):
                return self._names.seen_messages(messages)
        return []

    # Positions

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that polls return of a queue, or a later one.

        Raises:
            NotAssigned: this consumer does not read the queue.
            OrbitError: the broker can't be asked where the group begins.
        """
        return await self._check().queues.position(queue)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; what was fetched before is dropped.

        When it returns, polls return messages from there on only.

        Raises:
            NotAssigned: this consumer does not read the queue.
            InvalidInput: the queue has no such offset.
            OrbitError: the broker can't be asked which offsets it has.
        """
        await self._check().queues.seek(queue, offset)

    async def seek_to_begin(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the oldest messages of queues, or of all assigned; errors as ``seek``."""
        reading = self._check().queues
        await reading.seek_all(queues, reading.ask.begin)

    async def seek_to_end(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue after the newest messages of queues, or of all assigned; errors as ``seek``."""
        reading = self._check().queues
        await reading.seek_all(queues, reading.ask.end)

    async def seek_to_time(
        self, when: datetime | int, queues: Iterable[MessageQueue] | None = None
    ) -> None:
        """Continue at the first messages stored at or after a time; errors as ``seek``."""
        reading, at_ms = self._check().queues, time_ms(when, "when")
        await reading.seek_all(queues, lambda queue: reading.ask.at_time(queue, at_ms))

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Return no messages of queues, or of all assigned, until they are resumed.

        They stay assigned. A queue that is taken away is no longer paused.

        Raises:
            NotAssigned: this consumer does not read one of them.
            NotRunning: it is not started, or is closed.
        """
        self._check().queues.pause(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Return messages of paused queues again; errors as ``pause``."""
        self._check().queues.resume(queues)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        if self._running is None:
            return frozenset()
        return self._names.seen_queues(self._running.queues.polled.paused)

    # Commits

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit what polls returned, and wait until it is stored.

        Args:
            offsets: other offsets to commit: of each queue, that of the next message to read. None
                may be past what polls returned.

        Raises:
            NotAssigned: this consumer does not read one of the queues.
            InvalidInput: an offset is past what polls returned.
            OrbitError: a broker can't be reached, or refused.
        """
        reading = self._check().queues
        await reading.positions.store.commit(reading.commit(offsets))

    def commit_async(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit as ``commit`` does, in the background; a failure is logged, and tried again."""
        reading = self._check().queues
        reading.commit(offsets)
        reading.positions.persist_soon()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group has committed; None if there is none.

        Raises:
            OrbitError: the broker can't be reached, or refused.
        """
        store = self._check().queues.positions.store
        wire = self._names.wire_queue(queue)
        offset = store.get(wire)
        return await store.stored(wire) if offset is None else offset

    # Queues of any topic

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of a topic, sorted.

        Raises:
            NoRoute: no nameserver knows the topic.
            NameserversFailed: no nameserver answered.
        """
        routes, wire = self._check().core.routes, self._wrapped(topic)
        found = subscribe_route(wire, await routes.route(wire), routes.where).queues
        return tuple(map(self._names.seen_queue, found))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of a queue.

        Raises:
            OrbitError: the queue's broker is unknown, can't be reached, or refuses.
        """
        return await self._check().queues.ask.begin(self._names.wire_queue(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the newest message of a queue; errors as ``begin_offset``."""
        return await self._check().queues.ask.end(self._names.wire_queue(queue))

    async def offsets_for_time(self, queue: MessageQueue, when: datetime | int) -> int:
        """Return the offset of the first message stored at or after a time.

        Args:
            queue: the queue.
            when: a datetime with a time zone, or milliseconds since 1970.

        Raises:
            InvalidInput: the time has no time zone, or is not a time.
            OrbitError: as ``begin_offset``.
        """
        return await self._check().queues.ask.at_time(
            self._names.wire_queue(queue), time_ms(when, "when")
        )

    # Parts

    async def _open(self, parts: AsyncExitStack) -> None:
        settings = self.settings
        core = await ClientCore.acquire(self.client_settings, self._machine)
        parts.push_async_callback(core.release)
        second = core.machine.second_loop()
        parts.push_async_callback(second.close)
        self._names = Names(core.settings.namespace)
        group = self._names.wire(settings.group)
        store = make_offsets(core, settings, group)
        positions = Positions(store, auto_commit=settings.auto_commit)
        await positions.load()
        polled = PolledDelivery(positions, core.machine.clock, self.statistics.consumed)
        start = StartOffsets(core, positions, settings.consume_from)
        user_code = UserCode(core.user_workers)
        assignments = Assignments(user_code, self._listener, self._names.seen_queues)
        owned = OwnedQueues(
            parts=FetchParts(
                pulls=make_pulls(core, settings, group),
                offsets=positions,
                delivery=polled,
                subscription_of=self._subscription_of,
                clock=core.machine.clock,
                commits=False,
                pulled=self.statistics.pulled,
            ),
            start=start,
            limits=FlowLimits.of(settings),
            offset_interval_ms=settings.auto_commit_interval_ms,
        )
        reading = ReadQueues(
            names=self._names,
            assignments=assignments,
            owned=owned,
            polled=polled,
            positions=positions,
            start=start,
            ask=QueueOffsets(core),
            is_shared=lambda: self._mode == "subscribe",
        )
        owned.released = reading.released
        description = describe_group(settings, group, unit_mode=self.client_settings.unit_mode)
        membership = Membership(
            second, self.client_settings, self._machine, description, assignments.change
        )
        watch = QueueWatch(self.queues, user_code)
        self._running = running = _Parts(core, membership, reading, watch)
        await self._begin(parts, second, running)

    async def _begin(self, parts: AsyncExitStack, second: SecondLoop, running: _Parts) -> None:
        membership, reading = running.membership, running.queues
        answers = Answers(
            running.core,
            second,
            membership,
            self.settings,
            queues=reading.owned,
            offsets=reading.positions.store,
            statistics=self.statistics,
        )
        answers.listen()
        await membership.start()
        self._client_id = membership.client_id
        parts.push_async_callback(self._in_time, membership.close)
        parts.push_async_callback(self._in_time, reading.owned.close)
        parts.push_async_callback(self._in_time, reading.polled.close)
        parts.push_async_callback(answers.close)
        check_ms = self.settings.topic_check_interval_ms
        works = {
            "assignments": reading.assignments.run(reading.owned.assign),
            "commits": reading.positions.run(),
            "queues": run_periodically(check_ms, running.watch.check, "queues can't be checked"),
        }
        tasks = [
            asyncio.create_task(work, name=f"{name} of {self._name}")
            for name, work in works.items()
        ]
        parts.push_async_callback(cancel_all, tasks)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.queues.polled.acknowledge()
            self._running = None

    def _subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    # Checks

    def _check(self) -> _Parts:
        running = self._running
        if running is None or running_loop_or_none() is not self._loop:
            self._check_running()
        assert running is not None  # or it is not running
        return running

    def _not_running(self) -> NotRunning:
        error = super()._not_running()
        return NotRunning(f"{_NOT_RUNNING} {error}", state=error.state)

    def _check_mode(self, mode: Literal["subscribe", "assign"]) -> None:
        if self._mode not in (None, mode):
            raise InvalidInput(
                "Subscribe and assign are mutually exclusive. Call unsubscribe() first, or make "
                "another pull consumer",
                field=mode,
            )

    def _wrapped(self, topic: str) -> str:
        check_topic(topic)
        return self._names.wire(topic)
