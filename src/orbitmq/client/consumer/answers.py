"""What a consumer answers to the requests that operators send through brokers.

::

    second loop: request ──▶ question ──▶ user's loop: tables, handler ──▶ second loop: answer
                                │
                                └── no answer in time: user code blocks that loop

    220 RESET_CONSUMER_CLIENT_OFFSET     continue at other offsets               one-way
    221 GET_CONSUMER_STATUS_FROM_CLIENT  the offsets of a topic
    307 GET_CONSUMER_RUNNING_INFO        settings, queues, rates; stacks on request
    309 CONSUME_MESSAGE_DIRECTLY         run the handler on one message          no hooks, no offset

221 and 307 are answered from the second loop if the user's loop is blocked, with less detail; 307
then says so, and has the stacks that show where.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from orbitmq.client.consumer.delivery.delivery import as_seen
from orbitmq.client.consumer.delivery.handler import Handler, RetryLater
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.running_info import properties_of, queue_info
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.client.consumer.stacks import stacks_text
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.net.connection import Connection
from orbitmq.net.connection import Handler as RequestHandler
from orbitmq.threads import thread_id
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.bodies.offsets import ConsumerStatus, OffsetReset
from orbitmq.wire.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import ConsumeMessageDirectly, GetConsumerRunningInfo
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response

__all__ = ["Answers"]

log = logging.getLogger("orbitmq.client")

_TABLES_MS: Final = 2_000
"""How long the user's loop has for its tables; brokers wait 5 s for offsets, 10 s for the rest."""
_HANDLER_MS: Final = 9_000
"""How long the handler has for a message before the answer is that it takes longer."""

T = TypeVar("T")


class _Group(Protocol):
    """What is needed of a membership."""

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]: ...

    def listen(self, code: RequestCode, handler: RequestHandler) -> None: ...


class _Loops(Protocol):
    """What is needed of the second loop."""

    def call(self, work: Callable[[], object]) -> None: ...

    def call_back(self, work: Callable[[], object]) -> None: ...


class _Queues(Protocol):
    """What is needed of the owned queues."""

    @property
    def inboxes(self) -> Mapping[MessageQueue, Inbox]: ...

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class _Offsets(Protocol):
    """What is needed of the offsets."""

    def get(self, queue: MessageQueue) -> int | None: ...


class Answers:
    """Answers the requests of brokers about one consumer; created on the user's loop.

    ``handler`` is None if the consumer has none: it is iterated over, or polls.
    """

    def __init__(
        self,
        core: ClientCore,
        second: _Loops,
        group: _Group,
        settings: ConsumerSettings | PullConsumerSettings,
        *,
        queues: _Queues,
        offsets: _Offsets,
        statistics: ConsumeStatistics,
        handler: Handler | None = None,
    ) -> None:
        self._core = core
        self._second = second
        self._group = group
        self._settings = settings
        self._is_ordered = isinstance(settings, ConsumerSettings) and settings.ordered
        self._queues = queues
        self._offsets = offsets
        self._statistics = statistics
        self._handler = handler
        self._clock = core.machine.clock
        self._started_ms = self._clock.now_ms()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = thread_id()
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Answers of {self._settings.group}>"

    def listen(self) -> None:
        """Answer from now on."""
        self._group.listen(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset)
        self._group.listen(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        self._group.listen(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info)
        self._group.listen(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)

    async def close(self) -> None:
        """Cancel handlers and resets that still run for an operator; on the user's loop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # On the second loop

    def _reset(self, connection: Connection, request: Frame) -> None:
        header = request.read(ResetOffset)
        table = OffsetReset.from_json(request.body).offset_table
        offsets = {queue: at for queue, at in table.items() if queue.topic == header.topic}
        log.info(
            "%s resets group %s in %d queues of topic %s",
            *(connection.peer, header.group, len(offsets), header.topic),
        )
        self._second.call_back(lambda: self._begin(self._reset_here(offsets)))

    async def _status(self, _connection: Connection, request: Frame) -> Response:
        topic = request.read(GetConsumerStatus).topic
        committed, _ = await self._asked(self._committed)
        wanted = {queue: at for queue, at in committed.items() if topic in ("", queue.topic)}
        return Response(body=ConsumerStatus(message_queue_table=QueueMap(wanted)).to_json())

    async def _running_info(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetConsumerRunningInfo)
        queues, is_blocked = await self._asked(self._queue_table)
        nameservers = "".join(f"{one};" for one in self._core.nameservers.addresses)
        own = {
            "PROP_NAMESERVER_ADDR": nameservers,
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
        }
        notes = {}
        if is_blocked:
            notes["loop"] = (
                f"blocked: it ran nothing for {_TABLES_MS} ms; the first stack of jstack is what "
                "it does"
            )
        subscriptions = sorted(self._group.subscriptions.values(), key=lambda one: one.topic)
        info = ConsumerRunningInfo(
            properties=properties_of(self._settings) | own,
            subscription_set=tuple(subscriptions),
            mq_table=QueueMap(queues),
            status_table={one.topic: self._statistics.status(one.topic) for one in subscriptions},
            user_consumer_info=notes,
            jstack=(
                stacks_text(self._loop, self._loop_thread)
                if header.jstack_enable or is_blocked
                else None
            ),
        )
        return Response(body=info.to_json())

    async def _consume_directly(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(ConsumeMessageDirectly)
        handler = self._handler
        if handler is None:
            return Response(
                ResponseCode.SYSTEM_ERROR,
                remark=f"The Consumer Group <{header.consumer_group}> not exist in this consumer: "
                "the consumer has no handler, it takes messages itself; ask another client",
            )
        messages = decode_all(request.body, broker_name=header.broker_name or "")

        def begin(reply: Callable[[ConsumeMessageDirectlyResult], None]) -> None:
            self._begin(self._handle(handler, messages, reply))

        try:
            result = await self._ask(begin, _HANDLER_MS)
        except TimeoutError:
            return Response(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                remark=f"consumer <{header.consumer_group}> <{header.client_id}> Timeout: the "
                f"handler has not returned after {_HANDLER_MS} ms",
            )
        return Response(body=result.to_json())

    async def _asked(self, read: Callable[[bool], T]) -> tuple[T, bool]:
        """Return what ``read`` finds, and whether the user's loop was blocked.

        It is called there with True. If that loop is blocked, it is called here with False: it
        may only read what does not change by being read.
        """
        try:
            return await self._ask(lambda reply: reply(read(True)), _TABLES_MS), False
        except TimeoutError:
            return read(False), True

    async def _ask(self, work: Callable[[Callable[[T], None]], None], limit_ms: int) -> T:
        """Call ``work`` on the user's loop, with a function that takes its result.

        Raise TimeoutError if there is none in time; work that has not begun by then never does.
        """
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(result: T) -> None:
            if not answered.done():
                answered.set_result(result)

        def reply(result: T) -> None:
            self._second.call(partial(settle, result))

        def begin() -> None:
            if not answered.done():
                work(reply)

        self._second.call_back(begin)
        async with asyncio.timeout(limit_ms / 1_000):
            return await answered

    # On the user's loop; the first two also on the second, if that one is blocked

    def _committed(self, _is_loop: bool) -> dict[MessageQueue, int]:
        found = ((queue, self._offsets.get(queue)) for queue in tuple(self._queues.inboxes))
        return {queue: at for queue, at in found if at is not None}

    def _queue_table(self, is_loop: bool) -> dict[MessageQueue, ProcessQueueInfo]:
        return {
            queue: queue_info(
                inbox,
                self._offsets.get(queue),
                self._clock,
                is_ordered=self._is_ordered,
                is_loop=is_loop,
            )
            for queue, inbox in sorted(self._queues.inboxes.items())
        }

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work, name=f"answer of {self._settings.group}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reset_here(self, offsets: Mapping[MessageQueue, int]) -> None:
        owned = {queue: at for queue, at in offsets.items() if queue in self._queues.inboxes}
        try:
            await self._queues.reset(owned)
        except OrbitError as error:
            log.error("group %s could not be reset: %s", self._settings.group, error)

    async def _handle(
        self,
        handler: Handler,
        messages: Sequence[StoredMessage],
        reply: Callable[[ConsumeMessageDirectlyResult], None],
    ) -> None:
        began_ms = self._clock.monotonic_ms()
        result, remark = CMResult.CR_SUCCESS, None
        try:
            for message in messages:  # a record may hold a batch
                queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
                await handler.call(as_seen([message], queue, self._core.settings.namespace))
        except RetryLater as error:
            result, remark = CMResult.CR_LATER, str(error) or None
        except Exception as error:
            log.exception("the handler failed on a message that an operator sent to it")
            result, remark = CMResult.CR_THROW_EXCEPTION, _described(error)
        reply(
            ConsumeMessageDirectlyResult(
                consume_result=result,
                order=self._is_ordered,
                remark=remark,
                spent_time_mills=self._clock.monotonic_ms() - began_ms,
            )
        )


def _described(error: Exception) -> str:
    """Return an error with the place that it was raised at."""
    text = "".join(traceback.format_exception_only(error)).strip()
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{text}, in {last.name} at {last.filename}:{last.lineno}"
