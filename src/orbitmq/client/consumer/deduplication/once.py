"""Hands a message over once, though it is delivered again: after a retry, a rebalance, a crash.

``claims`` draws the states of a message. What is guaranteed:

- Work that has returned is not done again within the window, while its entry has room.
- Two handlers don't work on a message at the same time. The later one raises RetryLater, so that
  the message comes back: the first may fail yet.
- A message is marked after its work. If the process crashes in between, the work is done twice.
  Effects that must happen exactly once belong in one transaction with the mark: let your own
  database refuse a second row with the same message id (docs/deduplication.md).
"""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from orbitmq.client.consumer.deduplication.claims import Claims, Found
from orbitmq.client.consumer.deduplication.delivery import OneDelivery
from orbitmq.client.consumer.deduplication.in_hand import InHand
from orbitmq.client.consumer.deduplication.memory import MemoryClaims
from orbitmq.client.consumer.deduplication.sqlite import SqliteClaims
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.user_code import is_async
from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.model import StoredMessage
from orbitmq.randomness import Randomness, SystemRandomness
from orbitmq.threads import Future, ThreadWorkers

__all__ = ["Key", "Once"]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])
Key: TypeAlias = str | Callable[[StoredMessage], str | None]

_DAY_MS: Final = 24 * 60 * 60 * 1000
_LEASE_MS: Final = 30_000
_ENTRIES_MAX: Final = 1_000_000


class Once:
    """What the async and the blocking deduplicator share; the first documents the arguments."""

    def __init__(
        self,
        path: str | None = None,
        *,
        key: Key | None = None,
        window_ms: int = _DAY_MS,
        lease_ms: int = _LEASE_MS,
        entries_max: int = _ENTRIES_MAX,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        limits = {"window_ms": window_ms, "lease_ms": lease_ms, "entries_max": entries_max}
        for name, value in limits.items():
            if type(value) is not int or value < 1:
                raise InvalidInput(f"{name} is {value!r}; it must be at least 1", field=name)
        if path == "":  # SQLite would open a file of its own, and remove it at the end
            raise InvalidInput("path is empty; leave it out to use memory", field="path")
        self._key = key
        clock = clock or SystemClock()
        self._claims: Claims
        self._worker: ThreadWorkers | None = None
        if path is None:
            self._claims = MemoryClaims(clock, **limits)
        else:
            owner = (randomness or SystemRandomness()).uuid4()
            self._claims = SqliteClaims(path, clock, owner=owner, **limits)
            # One: what is submitted first is done first.
            self._worker = ThreadWorkers(1, name="orbitmq-deduplicator")
        self._in_hand = InHand(self._claims, lease_ms=lease_ms)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._claims!r}>"

    def once(self, handler: H) -> H:
        """Return a handler that gets each message once: for ``on_message``.

        ``handler`` is a function or a coroutine function, of one message or a list. Messages whose
        work is done are left out; if none is left, it is not called. Messages are marked when it
        has returned, and released if it raises an error; RetryLater with ``messages`` releases
        those alone.

        Raises:
            RetryLater: by the returned handler, for messages that another handler works on.
            StoreError: by the returned handler, if a message could not be claimed or marked.
        """
        wrapped = self._once_async(handler) if is_async(handler) else self._once(handler)
        return cast("H", wraps(handler)(wrapped))

    def _once(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def call(delivered: StoredMessage | list[StoredMessage]) -> object:
            delivery = OneDelivery(delivered, self._key_of)
            delivery.found(self._in_hand.take(delivery.keys))
            result = None
            if delivery.claimed:
                try:
                    result = _result(handler(delivery.given))
                except BaseException as error:
                    self._settle(*delivery.failed(error))
                    if later := delivery.later(error):
                        raise later from error
                    raise
                self._in_hand.finish(delivery.claimed)
            delivery.check_none_is_busy()
            return result

        return call

    def _once_async(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def call(delivered: StoredMessage | list[StoredMessage]) -> object:
            delivery = OneDelivery(delivered, self._key_of)
            delivery.found(await self._take(delivery.keys))
            result = None
            if delivery.claimed:
                try:
                    result = await handler(delivery.given)
                except BaseException as error:
                    await self._do(self._settle, *delivery.failed(error))
                    if later := delivery.later(error):
                        raise later from error
                    raise
                await self._do(self._in_hand.finish, delivery.claimed)
            delivery.check_none_is_busy()
            return result

        return call

    def _settle(self, done: list[str], unknown: list[str]) -> None:
        if done:
            self._in_hand.finish(done)
        if unknown:
            self._in_hand.release(unknown)

    def _shut(self) -> None:
        self._in_hand.close()
        self._claims.close()

    def _check_new(self, key: str) -> bool:
        """Claim a key; return whether it was unknown, and raise RetryLater if it is claimed."""
        (found,) = self._claims.claim([key])
        if found is Found.CLAIMED:
            raise RetryLater("another handler is working on it")
        return found is Found.NEW

    async def _take(self, keys: list[str]) -> list[Found]:
        if self._worker is None:
            return self._in_hand.take(keys)
        taking = self._worker.submit(self._in_hand.take, keys)
        try:
            return await asyncio.shield(asyncio.wrap_future(taking))
        except asyncio.CancelledError:
            taking.add_done_callback(partial(self._give_back, keys))
            raise

    def _give_back(self, keys: list[str], taking: Future[list[Found]]) -> None:
        """Release what was taken for a call that was cancelled meanwhile."""
        if taking.exception() is None:
            new = [key for key, one in zip(keys, taking.result(), strict=True) if one is Found.NEW]
            self._in_hand.release(new)

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do work that blocks if there is a file; a cancelled caller doesn't stop it."""
        if self._worker is None:
            return work(*args, **kwargs)
        return await asyncio.shield(asyncio.wrap_future(self._worker.submit(work, *args, **kwargs)))

    def _key_of(self, message: StoredMessage) -> str:
        value = None
        if isinstance(self._key, str):
            value = message.properties.get(self._key)
        elif self._key is not None:
            value = self._key(message)
        if value:
            return f"{message.topic}\n{value}"
        # Where a producer sets no unique id, each retry has an offset id of its own.
        unique = message.properties.get(properties.UNIQUE_KEY)
        return unique or message.properties.get(properties.ORIGIN_MESSAGE_ID) or message.message_id


def _result(result: object) -> object:
    """Return what a function returned; an awaitable would be work that hasn't been done."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidInput(
            "a handler of once is a function and returned an awaitable; write it as 'async def'",
            field="handler",
        )
    return result
