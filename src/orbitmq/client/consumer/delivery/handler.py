"""The user's function that gets messages, and how it asks for a retry."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import itemgetter
from typing import Any, Final

from orbitmq.client.user_code import is_async
from orbitmq.errors import InvalidInput
from orbitmq.message.model import StoredMessage
from orbitmq.threads import Workers

__all__ = ["Handler", "MessageHandler", "RetryLater"]

MessageHandler = Callable[[Any], object]
"""A function or coroutine function; it gets one message, or a list of them."""

_LEVEL_MAX: Final = 2**31 - 1
_of_thread: ContextVar["Handler | None"] = ContextVar("orbitmq_handler", default=None)


class RetryLater(Exception):
    """Raised by a handler to get messages again later, without a traceback in the log.

    Args:
        reason: for the log.
        delay_level: how long the broker waits, 1 to 18 of its table; 0: longer each time, from 10 s
            to 2 h; below 0: no retry, the message becomes a dead letter at once.
        messages: those of a batch to retry; all by default. An ordered consumer retries the first
            of them and all that follow it.
        suspend_ms: for an ordered consumer: how long the queue waits, 10 to 30,000.

    >>> raise RetryLater("the bank is closed", delay_level=5)
    Traceback (most recent call last):
    orbitmq.client.consumer.delivery.handler.RetryLater: the bank is closed
    """

    def __init__(
        self,
        reason: str = "",
        *,
        delay_level: int = 0,
        messages: Sequence[StoredMessage] | None = None,
        suspend_ms: int | None = None,
    ) -> None:
        super().__init__(reason)
        if type(delay_level) is not int or abs(delay_level) > _LEVEL_MAX:
            raise InvalidInput(
                f"delay_level is {delay_level!r:.40}; it must be a whole number, 0 to let the "
                "broker choose",
                field="delay_level",
            )
        self.delay_level = delay_level
        self.messages = messages
        self.suspend_ms = suspend_ms


class Handler:
    """The user's function.

    ``workers`` are the threads that a plain function runs on; a coroutine function runs on the
    loop. ``takes_list``: it gets a list of messages, even of one.
    """

    def __init__(self, function: MessageHandler, *, takes_list: bool, workers: Workers) -> None:
        self.function = function
        self.takes_list = takes_list
        self.workers = workers
        self.is_async = is_async(function)
        self.is_closing = False
        """Whether it has closed its own consumer, on a thread: it gets no more messages."""
        self.argument: Callable[[Sequence[StoredMessage]], object]
        """Returns what the function is called with."""
        self.argument = list if takes_list else itemgetter(0)

    def __repr__(self) -> str:
        kind = "a coroutine" if self.is_async else "a function"
        return f"<Handler {getattr(self.function, '__qualname__', self.function)}, {kind}>"

    def take_thread(self) -> None:
        """Note that the calling thread runs this handler only, from now on."""
        _of_thread.set(self)

    @property
    def has_thread(self) -> bool:
        """Whether the calling thread is one of this handler."""
        return _of_thread.get() is self

    async def call(self, messages: Sequence[StoredMessage]) -> None:
        """Call it once, outside of any delivery, as operators ask for; its errors pass."""
        argument = self.argument(messages)
        if self.is_async:
            outcome = self.function(argument)
        else:
            outcome = await asyncio.wrap_future(self.workers.submit(self.function, argument))
        if inspect.isawaitable(outcome):
            await outcome
