"""Notifies listeners when topics get or lose queues."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from orbitmq.client.consumer.polling.assignments import Queues
from orbitmq.client.user_code import UserCode
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue

__all__ = ["QueueWatch", "QueuesListener"]

log = logging.getLogger("orbitmq.client")

QueuesListener = Callable[[str, Queues], Awaitable[None] | None]
"""Gets a topic and its queues; a function runs on a thread, a coroutine on the loop."""


class QueueWatch:
    """Compares the queues of topics with those of the last check.

    ``queues`` looks up the readable queues of a topic.
    """

    def __init__(
        self, queues: Callable[[str], Awaitable[Iterable[MessageQueue]]], user_code: UserCode
    ) -> None:
        self._queues = queues
        self._user_code = user_code
        self._listeners: dict[str, QueuesListener] = {}
        self._known: dict[str, Queues] = {}

    async def add(self, topic: str, listener: QueuesListener) -> None:
        """Call a listener when the queues of a topic change, in place of an earlier one.

        Raise OrbitError if the topic can't be looked up.
        """
        self._known[topic] = frozenset(await self._queues(topic))
        self._listeners[topic] = listener

    async def check(self) -> None:
        """Look up all topics, and call the listeners of those that changed."""
        for topic, listener in list(self._listeners.items()):
            try:
                queues = frozenset(await self._queues(topic))
            except OrbitError as error:
                log.warning("the queues of %s can't be checked for changes: %s", topic, error)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                try:
                    await self._user_code.call(partial(listener, topic), queues)
                except Exception:
                    log.exception("the listener of the queues of %s raised an error", topic)
