"""The queues that a pull consumer reads, and the order of things when they change.

::

    change ─▶ pending ─▶ taken queues dropped, offsets persisted ─▶ listener ─▶ given queues fetched

Changes are carried out one after the other; of several that wait, the newest of a topic counts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from orbitmq.client.user_code import UserCode
from orbitmq.message.model import MessageQueue

__all__ = ["AssignmentListener", "Assignments", "Queues"]

log = logging.getLogger("orbitmq.client")

Queues = frozenset[MessageQueue]
AssignmentListener = Callable[[Queues, Queues], Awaitable[None] | None]
"""Gets the queues given and those taken; a function runs on a thread, a coroutine on the loop."""


class Assignments:
    """Carries out changes of the assignment; ``run`` is its task.

    ``names`` turns queues into those that the listener knows.
    """

    def __init__(
        self,
        user_code: UserCode,
        listener: AssignmentListener | None = None,
        names: Callable[[Queues], Queues] = frozenset,
    ) -> None:
        self._user_code = user_code
        self._listener = listener
        self._names = names
        self._by_topic: dict[str, Queues] = {}
        self._pending: dict[str, Queues] = {}
        self._dropping: set[MessageQueue] = set()
        self._changed = asyncio.Event()
        self._dropped = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._is_notifying = False

    @property
    def queues(self) -> Queues:
        """The queues that are read."""
        return frozenset[MessageQueue]().union(*self._by_topic.values())

    def change(self, topic: str, queues: Queues) -> None:
        """Have all queues of a topic that are read replaced by others."""
        self._pending[topic] = queues
        self._settled.clear()
        self._changed.set()

    def released(self, queue: MessageQueue) -> None:
        """Note that a queue is dropped, and its offset persisted."""
        self._dropping.discard(queue)
        if not self._dropping:
            self._dropped.set()

    async def settled(self) -> None:
        """Wait until all changes are carried out; not while the listener runs, which may call."""
        if not self._is_notifying:
            await self._settled.wait()

    async def run(self, assign: Callable[[str, Queues], None]) -> None:
        """Carry out changes until cancelled.

        ``assign`` is that of ``OwnedQueues``, which calls ``released`` for each queue it dropped.
        """
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._pending:
                topic = next(iter(self._pending))
                await self._carry_out(topic, self._pending.pop(topic), assign)
            self._settled.set()

    async def _carry_out(
        self, topic: str, queues: Queues, assign: Callable[[str, Queues], None]
    ) -> None:
        before = self._by_topic.get(topic, frozenset())
        given, taken = queues - before, before - queues
        if not given and not taken:
            return
        if taken:
            self._dropping.update(taken)
            self._dropped.clear()
            self._by_topic[topic] = before - taken
            assign(topic, before - taken)
            await self._dropped.wait()
        self._by_topic[topic] = queues
        await self._notify(given, taken)
        if given:
            assign(topic, queues)

    async def _notify(self, given: Queues, taken: Queues) -> None:
        if self._listener is None:
            return
        self._is_notifying = True
        try:
            call = partial(self._listener, self._names(given))
            await self._user_code.call(call, self._names(taken))
        except Exception:
            log.exception("the listener of assignments raised an error; its queues are read anyway")
        finally:
            self._is_notifying = False
