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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Final, Literal, NamedTuple, TypeVar, Unpack

from msgspec.structs import replace

from orbitmq.client.arguments import check_queue, check_timeout_ms, time_ms
from orbitmq.client.consumer.answers import Answers
from orbitmq.client.consumer.assignment.membership import GroupDescription, Membership
from orbitmq.client.consumer.assignment.strategies import by_name
from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.fetching.pulls import Pulls
from orbitmq.client.consumer.offsets.local import LocalOffsets
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.options import PullConsumerOptions, build_pull_settings
from orbitmq.client.consumer.polling.assignments import AssignmentListener, Assignments, Queues
from orbitmq.client.consumer.polling.polled import PolledDelivery
from orbitmq.client.consumer.polling.positions import OffsetStore, Positions
from orbitmq.client.consumer.polling.queue_watch import QueuesListener, QueueWatch
from orbitmq.client.consumer.settings import PullConsumerSettings, consume_from_where
from orbitmq.client.consumer.subscriptions import Selection, subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.client.core.queue_offsets import QueueOffsets
from orbitmq.client.core.second_loop import SecondLoop
from orbitmq.client.core.subscribe_route import subscribe_route
from orbitmq.client.field_types import shown
from orbitmq.client.life import ClientState, Startable
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.settings import DEFAULT_INSTANCE, ClientSettings
from orbitmq.client.user_code import UserCode
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput, NotAssigned, NotRunning
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.names import check_topic, strip_namespace, wrap_namespace
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from orbitmq.wire.fields import INT32_MAX

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
    positions: Positions
    polled: PolledDelivery
    owned: OwnedQueues
    assignments: Assignments
    watch: QueueWatch
    start: StartOffsets

    @property
    def ask(self) -> QueueOffsets:
        """What brokers know of queues."""
        return QueueOffsets(self.core)


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
        self._namespace = ""
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

        It returns when ``assignment`` has the queues of this member. A second call for a topic
        changes the selection. All members of a group must subscribe to the same.

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
        await parts.assignments.settled()

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
        wanted = frozenset(map(self._wire, _listed(queues)))
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
            parts.assignments.change(topic, frozenset(q for q in wanted if q.topic == topic))
        await parts.assignments.settled()

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
                parts.assignments.change(one, frozenset())
        if self._mode == "assign":
            await parts.membership.attend(self._subscriptions)
        if not self._subscriptions:
            self._mode = None
        await parts.assignments.settled()

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that it reads now; none unless it is running."""
        if self._running is None:
            return frozenset()
        return self._own_all(self._running.assignments.queues)

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

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """Yield messages until it is closed; taking the next acknowledges the one before."""
        while messages := await self._poll(None, 1):
            yield messages[0]

    def discard(self) -> None:
        """Don't acknowledge what the last poll returned: no later poll or close commits it.

        It is read again after the next start, or by another member that gets its queue; ``seek``
        to read it again here.
        """
        if self._running is not None:
            self._running.polled.discard()

    async def _poll(self, timeout_s: float | None, count: int) -> list[StoredMessage]:
        polled = self._check().polled
        if self._mode is None:
            raise InvalidInput(
                f"{self._name} reads no queue; call subscribe(topic) or assign(queues) first",
                field="subscribe",
            )
        polled.acknowledge()
        messages = polled.take(count)
        if messages or timeout_s == 0:
            return self._seen(messages)
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while await polled.wait(None if end is None else end - loop.time()):
            if messages := polled.take(count):
                return self._seen(messages)
        return []

    # Positions

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that polls return of a queue, or a later one.

        Raises:
            NotAssigned: this consumer does not read the queue.
            OrbitError: the broker can't be asked where the group begins.
        """
        parts = self._check()
        wire = self._assigned(parts, queue)
        position = _returned(parts, wire)
        return await parts.start.of(wire) if position is None else position

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; what was fetched before is dropped.

        When it returns, polls return messages from there on only.

        Raises:
            NotAssigned: this consumer does not read the queue.
            InvalidInput: the queue has no such offset.
            OrbitError: the broker can't be asked which offsets it has.
        """
        parts = self._check()
        wire = self._assigned(parts, queue)
        begin, end = await asyncio.gather(parts.ask.begin(wire), parts.ask.end(wire))
        if not begin <= offset <= end:
            raise InvalidInput(
                f"Seek offset illegal, seek offset = {offset}, min offset = {begin}, max offset = "
                f"{end}: seek within them, or use seek_to_begin or seek_to_end",
                field="offset",
            )
        await self._move(parts, wire, offset)

    async def seek_to_begin(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue at the oldest messages of queues, or of all assigned; errors as ``seek``."""
        await self._seek_all(queues, self._check().ask.begin)

    async def seek_to_end(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue after the newest messages of queues, or of all assigned; errors as ``seek``."""
        await self._seek_all(queues, self._check().ask.end)

    async def seek_to_time(
        self, when: datetime | int, queues: Iterable[MessageQueue] | None = None
    ) -> None:
        """Continue at the first messages stored at or after a time; errors as ``seek``."""
        ask, at_ms = self._check().ask, time_ms(when, "when")
        await self._seek_all(queues, lambda queue: ask.at_time(queue, at_ms))

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Return no messages of queues, or of all assigned, until they are resumed.

        They stay assigned. A queue that is taken away is no longer paused.

        Raises:
            NotAssigned: this consumer does not read one of them.
            NotRunning: it is not started, or is closed.
        """
        parts = self._check()
        chosen = self._chosen(parts, queues)
        parts.polled.pause(chosen)
        parts.owned.pause(chosen)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Return messages of paused queues again; errors as ``pause``."""
        parts = self._check()
        chosen = self._chosen(parts, queues)
        parts.polled.resume(chosen)
        parts.owned.resume(chosen)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        if self._running is None:
            return frozenset()
        return self._own_all(self._running.polled.paused)

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
        parts = self._check()
        queues = self._commit(parts, offsets)
        await parts.positions.store.commit(queues)

    def commit_async(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit as ``commit`` does, in the background; a failure is logged, and tried again."""
        parts = self._check()
        self._commit(parts, offsets)
        parts.positions.persist_soon()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group has committed; None if there is none.

        Raises:
            OrbitError: the broker can't be reached, or refused.
        """
        store = self._check().positions.store
        wire = self._wire(queue)
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
        return tuple(map(self._own, found))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of a queue.

        Raises:
            OrbitError: the queue's broker is unknown, can't be reached, or refuses.
        """
        return await self._check().ask.begin(self._wire(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the newest message of a queue; errors as ``begin_offset``."""
        return await self._check().ask.end(self._wire(queue))

    async def offsets_for_time(self, queue: MessageQueue, when: datetime | int) -> int:
        """Return the offset of the first message stored at or after a time.

        Args:
            queue: the queue.
            when: a datetime with a time zone, or milliseconds since 1970.

        Raises:
            InvalidInput: the time has no time zone, or is not a time.
            OrbitError: as ``begin_offset``.
        """
        return await self._check().ask.at_time(self._wire(queue), time_ms(when, "when"))

    # Parts

    async def _open(self, parts: AsyncExitStack) -> None:
        settings = self.settings
        core = await ClientCore.acquire(self.client_settings, self._machine)
        parts.push_async_callback(core.release)
        second = core.machine.second_loop()
        parts.push_async_callback(second.close)
        self._namespace = core.settings.namespace
        group = wrap_namespace(self._namespace, settings.group)
        positions = Positions(self._store(core, group), auto_commit=settings.auto_commit)
        await positions.load()
        polled = PolledDelivery(positions, core.machine.clock, self.statistics.consumed)
        start = StartOffsets(core, positions, settings.consume_from)
        user_code = UserCode(core.user_workers)
        assignments = Assignments(user_code, self._listener, self._own_all)

        def released(queue: MessageQueue) -> None:
            polled.resume([queue])
            owned.resume([queue])
            assignments.released(queue)

        owned = OwnedQueues(
            parts=FetchParts(
                pulls=self._pulls(core, group),
                offsets=positions,
                delivery=polled,
                subscription_of=self._subscription_of,
                clock=core.machine.clock,
                commits=False,
                pulled=self.statistics.pulled,
            ),
            start=start,
            limits=self._limits(),
            offset_interval_ms=settings.auto_commit_interval_ms,
            released=released,
        )
        membership = self._membership(second, group, assignments.change)
        watch = QueueWatch(self._readable, user_code)
        self._running = running = _Parts(
            core, membership, positions, polled, owned, assignments, watch, start
        )
        await self._begin(parts, second, running)

    async def _begin(self, parts: AsyncExitStack, second: SecondLoop, running: _Parts) -> None:
        core, membership, owned = running.core, running.membership, running.owned
        answers = Answers(
            core,
            second,
            membership,
            self.settings,
            queues=owned,
            offsets=running.positions.store,
            statistics=self.statistics,
        )
        answers.listen()
        await membership.start()
        self._client_id = membership.client_id
        parts.push_async_callback(self._in_time, membership.close)
        parts.push_async_callback(self._in_time, owned.close)
        parts.push_async_callback(self._in_time, running.polled.close)
        parts.push_async_callback(answers.close)
        check_ms = self.settings.topic_check_interval_ms
        works = {
            "assignments": running.assignments.run(owned.assign),
            "commits": running.positions.run(),
            "queues": run_periodically(check_ms, running.watch.check, "queues can't be checked"),
        }
        tasks = [
            asyncio.create_task(work, name=f"{name} of {self._name}")
            for name, work in works.items()
        ]
        parts.push_async_callback(cancel_all, tasks)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.polled.acknowledge()
            self._running = None

    def _membership(
        self, second: SecondLoop, group: str, on_assigned: Callable[[str, Queues], None]
    ) -> Membership:
        settings = self.settings
        description = GroupDescription(
            group=group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=_MODELS[settings.broadcasting],
            consume_from_where=consume_from_where(settings.consume_from),
            unit_mode=self.client_settings.unit_mode,
            strategy=by_name(settings.strategy),
            rebalance_interval_ms=settings.rebalance_interval_ms,
            lock_interval_ms=settings.rebalance_interval_ms,
        )
        return Membership(second, self.client_settings, self._machine, description, on_assigned)

    def _subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    def _store(self, core: ClientCore, group: str) -> OffsetStore:
        if not self.settings.broadcasting:
            return RemoteOffsets(core, group)
        client_id = self.client_settings.client_id(core.machine.host, DEFAULT_INSTANCE)
        return LocalOffsets(self.settings.local_offset_directory, client_id, group, core.workers)

    def _pulls(self, core: ClientCore, group: str) -> Pulls:
        settings = self.settings
        return Pulls(
            core,
            group,
            batch=settings.pull_batch,
            batch_bytes=INT32_MAX,
            suspend_ms=settings.pull_suspend_ms,
            timeout_ms=settings.pull_timeout_ms,
            lite=True,
        )

    def _limits(self) -> FlowLimits:
        settings = self.settings
        return FlowLimits(
            queue_messages_max=settings.queue_messages_max,
            queue_bytes_max=settings.queue_bytes_max,
            total_messages_max=settings.all_messages_max,
            span_max=settings.span_max,
        )

    # Checks and names

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

    def _assigned(self, parts: _Parts, queue: MessageQueue) -> MessageQueue:
        """Return the queue with its name on the wire; raise NotAssigned if it is not read."""
        wire = self._wire(queue)
        if wire not in parts.assignments.queues:
            rebalancing = ", may be rebalancing" if self._mode == "subscribe" else ""
            raise NotAssigned(
                f"The message queue is not in assigned list{rebalancing}, message queue: {queue}; "
                "consumer.assignment has the queues that can be used",
                queue=str(queue),
            )
        return wire

    def _chosen(self, parts: _Parts, queues: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        if queues is None:
            return sorted(parts.assignments.queues)
        return [self._assigned(parts, queue) for queue in _listed(queues)]

    async def _seek_all(
        self,
        queues: Iterable[MessageQueue] | None,
        target: Callable[[MessageQueue], Awaitable[int]],
    ) -> None:
        parts = self._check()
        chosen = self._chosen(parts, queues)
        offsets = await asyncio.gather(*map(target, chosen))
        for queue, offset in zip(chosen, offsets, strict=True):
            await self._move(parts, queue, offset)

    async def _move(self, parts: _Parts, wire: MessageQueue, offset: int) -> None:
        await parts.positions.store.persist([wire])  # the reset forgets what was committed
        self._assigned(parts, self._own(wire))  # it may have been taken away meanwhile
        # All at once: from here on no poll returns what was fetched.
        if (inbox := parts.owned.inboxes.get(wire)) is not None:
            inbox.drop()
        parts.polled.discard(wire)
        # For a queue that is not fetched yet, since the listener of assignments seeks:
        parts.positions.update(wire, offset, increase_only=False)
        await parts.owned.reset({wire: offset})

    def _commit(
        self, parts: _Parts, offsets: Mapping[MessageQueue, int] | None
    ) -> list[MessageQueue] | None:
        """Commit in memory; return the queues, None for all."""
        if offsets is None:
            parts.polled.acknowledge()
            parts.positions.commit()
            return None
        checked = {}
        for queue, offset in offsets.items():
            wire = self._assigned(parts, queue)
            returned = _returned(parts, wire)
            if returned is None or not 0 <= offset <= returned:
                raise InvalidInput(
                    f"offset {offset} of {queue} can't be committed: polls returned what is before "
                    f"{returned}; seek first, to pass over messages",
                    field="offsets",
                )
            checked[wire] = offset
        for wire, offset in checked.items():
            parts.positions.commit_at(wire, offset)
        return list(checked)

    async def _readable(self, topic: str) -> Queues:
        return frozenset(await self.queues(topic))

    def _seen(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return messages with the topics that users know."""
        if not self._namespace:
            return messages
        return [replace(one, topic=self._bare(one.topic)) for one in messages]

    def _wrapped(self, topic: str) -> str:
        check_topic(topic)
        return wrap_namespace(self._namespace, topic)

    def _bare(self, topic: str) -> str:
        return strip_namespace(topic, self._namespace)

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        check_queue(queue)
        return replace(queue, topic=self._wrapped(queue.topic)) if self._namespace else queue

    def _own(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self._bare(queue.topic)) if self._namespace else queue

    def _own_all(self, queues: Iterable[MessageQueue]) -> Queues:
        return frozenset(map(self._own, queues))


def _returned(parts: _Parts, wire: MessageQueue) -> int | None:
    """Return the offset after what polls returned of a queue; None if nothing is known yet."""
    in_hand = parts.polled.next_offset(wire)
    return parts.positions.get(wire) if in_hand is None else in_hand


def _listed(queues: object) -> list[MessageQueue]:
    """Return the queues of an argument, which may be a single one."""
    if isinstance(queues, MessageQueue):
        return [queues]
    if not isinstance(queues, Iterable) or isinstance(queues, str | bytes):
        raise InvalidInput(
            f"queues is {shown(queues)}; it must be MessageQueues, such as consumer.queues(topic)",
            field="queues",
        )
    return list(queues)
