"""Reads queues from given offsets without a group: no membership, and no offset changes.

::

    pull of queue 1 ─┐
    pull of queue 2 ─┼─▶ waiting, at most _WAITING_MAX answers ─▶ batches()
    pull of queue 3 ─┘

A queue ends at its end offset, if one is given. Within a queue messages keep their order; between
queues they come as brokers answer. Queues that the topic gets meanwhile can be read as well.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from orbitmq.client.consumer.fetching.pulls import Pulled, Pulls, PullStatus
from orbitmq.client.consumer.subscriptions import Selection, subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.subscribe_route import subscribe_route
from orbitmq.errors import OrbitError
from orbitmq.message import names
from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["Tail", "readable_queues"]

log = logging.getLogger("orbitmq.client")

_Answer: TypeAlias = list[StoredMessage] | OrbitError | None

_GROUP: Final = "TOOLS_CONSUMER"
"""The group of Java's tools (MixAll.TOOLS_CONSUMER_GROUP): brokers let it pull from any topic."""
_WAITING_MAX: Final = 16
_BATCH: Final = 32
_BATCH_BYTES: Final = 1024 * 1024
_SUSPEND_MS: Final = 15_000
_TIMEOUT_MS: Final = 30_000
_PAUSE_S: Final = 1.0
_LOOK_S: Final = 10.0
"""How often new queues are looked for; what they have is read from their first message on."""
_TRIES: Final = 60
"""A broker may be away for about a minute, such as for a restart."""


async def readable_queues(core: ClientCore, topic: str) -> tuple[MessageQueue, ...]:
    """Return the queues of a topic to read, sorted; raise NoRoute if no nameserver knows it."""
    wrapped = names.wrap_namespace(core.settings.namespace, topic)
    route = subscribe_route(wrapped, await core.routes.route(wrapped), core.routes.where)
    return tuple(replace(queue, topic=topic) for queue in route.queues)


class Tail:
    """The messages of some queues; names are without namespace.

    Args:
        core: the connections; the caller releases it.
        start: the queues to read, each with the offset of its first message.
        end: where each queue ends; by default it doesn't, and new messages are waited for.
        topic: read new queues of this topic as well.
        selection: ``*``, tags, or ``Sql``.
    """

    def __init__(
        self,
        core: ClientCore,
        start: Mapping[MessageQueue, int],
        *,
        end: Mapping[MessageQueue, int] | None = None,
        topic: str | None = None,
        selection: Selection = "*",
    ) -> None:
        self._core = core
        self._start = start
        self._end = end
        self._topic = topic
        self._selection = selection
        self._pulls = Pulls(
            core,
            _GROUP,
            batch=_BATCH,
            batch_bytes=_BATCH_BYTES,
            suspend_ms=_SUSPEND_MS,
            timeout_ms=_TIMEOUT_MS,
            lite=True,
        )
        self._silent: set[str] = set()  # brokers that don't answer, each of which is logged once

    def __repr__(self) -> str:
        return f"<Tail of {len(self._start)} queues>"

    async def batches(self) -> AsyncGenerator[list[StoredMessage], None]:
        """Yield messages until all queues have ended; close the iterator to end earlier.

        Raises:
            OrbitError: a broker refused a pull, or could not be reached for a minute.
        """
        waiting: asyncio.Queue[_Answer] = asyncio.Queue(_WAITING_MAX)
        reads = {
            queue: asyncio.ensure_future(self._read(queue, offset, waiting))
            for queue, offset in self._start.items()
        }
        looking = asyncio.ensure_future(self._read_new_queues(reads, waiting))
        try:
            left = len(reads)
            while left:
                answer = await waiting.get()
                if isinstance(answer, OrbitError):
                    raise answer
                if answer is None:
                    left -= 1
                elif answer:
                    yield answer
        finally:
            tasks = [looking, *reads.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_new_queues(
        self,
        reads: "dict[MessageQueue, asyncio.Task[None]]",
        waiting: "asyncio.Queue[_Answer]",
    ) -> None:
        while self._topic is not None:
            await asyncio.sleep(_LOOK_S)
            try:
                queues = await readable_queues(self._core, self._topic)
            except OrbitError as error:
                log.debug("new queues of %s were not looked for: %s", self._topic, error)
                continue
            for queue in queues:
                if queue not in reads:
                    reads[queue] = asyncio.ensure_future(self._read(queue, 0, waiting))

    async def _read(
        self, queue: MessageQueue, offset: int, waiting: "asyncio.Queue[_Answer]"
    ) -> None:
        """Read one queue; put its messages, and at the end None or the error."""
        end = None if self._end is None else self._end[queue]
        try:
            while end is None or offset < end:
                pulled = await self._pull(queue, offset, hold=end is None)
                if pulled.status is PullStatus.NO_NEW and end is not None:
                    break  # the last messages were removed meanwhile
                offset = pulled.next_offset
                await waiting.put(
                    [
                        replace(message, topic=queue.topic)
                        for message in pulled.messages
                        if end is None or message.queue_offset < end
                    ]
                )
            await waiting.put(None)
        except OrbitError as error:
            await waiting.put(error)

    async def _pull(self, queue: MessageQueue, offset: int, *, hold: bool) -> Pulled:
        topic = names.wrap_namespace(self._core.settings.namespace, queue.topic)
        subscription = subscription_data(topic, self._selection)
        tries_left = _TRIES
        while True:
            try:
                pulled = await self._pulls.pull(
                    replace(queue, topic=topic), offset, subscription, hold=hold
                )
            except OrbitError as error:
                tries_left -= 1
                if not tries_left or not error.retriable:
                    raise
                self._note_silence(queue, error)
                await asyncio.sleep(_PAUSE_S)
            else:
                self._note_answer(queue)
                return pulled

    def _note_silence(self, queue: MessageQueue, error: OrbitError) -> None:
        name = queue.broker_name
        level = logging.DEBUG if name in self._silent else logging.WARNING
        self._silent.add(name)
        log.log(level, "%s, queue %d, is asked again: %s", name, queue.queue_id, error)

    def _note_answer(self, queue: MessageQueue) -> None:
        if queue.broker_name in self._silent:
            self._silent.discard(queue.broker_name)
            log.warning("%s answers again", queue.broker_name)
