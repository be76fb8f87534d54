"""The order of sends with the same sharding key: one is in flight, the others wait in line.

A broker may serve requests of one connection concurrently, and a failed attempt may be retried: so
messages are stored in the order of the calls only if each send ends before the next one of its key
begins. Sends with other keys don't wait. A call with many messages joins the lines of all their
keys at once, and leaves them when its last frame has ended; with an outbox, when those that failed
are kept.

>>> import asyncio
>>> async def main() -> list[str]:
...     key_order, order = KeyOrder(), []
...     async def send(name: str) -> None:
...         place = key_order.join([("orders", "o-42")])
...         await place.wait()
...         order.append(name)
...         place.leave()
...     await asyncio.gather(send("created"), send("paid"), send("shipped"))
...     return order
>>> asyncio.run(main())
['created', 'paid', 'shipped']
"""

import asyncio
from collections.abc import Iterable
from functools import partial

__all__ = ["Key", "KeyOrder", "KeyPlace"]

Key = tuple[str, str]
"""A topic and a sharding key."""


class KeyOrder:
    """The lines of one producer, by key; the producer limits their length. Belongs to one loop."""

    def __init__(self) -> None:
        self._last: dict[Key, asyncio.Future[None]] = {}
        self._line: dict[KeyPlace, None] = {}  # all that have not left, in their order
        self.waiting = 0
        """Sends that wait for their turn."""

    def __repr__(self) -> str:
        return f"<KeyOrder {len(self._last)} keys, {self.waiting} waiting>"

    def __len__(self) -> int:
        return len(self._last)

    def join(self, keys: Iterable[Key]) -> "KeyPlace":
        """Join the lines of some keys, all at once, so that no two calls wait for each other.

        The caller leaves in the end, whatever happens.
        """
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = []
        for key in dict.fromkeys(keys):
            if (last := self._last.get(key)) is not None:
                before.append(last)
            self._last[key] = over
            over.add_done_callback(partial(self._ended, key))
        place = KeyPlace(self, before, over)
        self._line[place] = None
        return place

    async def drained(self) -> None:
        """Return when all lines are empty; the caller limits the time."""
        while pending := [over for over in self._last.values() if not over.done()]:
            await asyncio.wait(pending)

    def close(self) -> None:
        """Remove the sends in flight, so that those behind them continue, one after the other."""
        for place in list(self._line):
            if not place.is_waiting:
                place.leave()

    def forget(self, place: "KeyPlace") -> None:
        """Remove a place that has left."""
        self._line.pop(place, None)

    def _ended(self, key: Key, over: asyncio.Future[None]) -> None:
        if self._last.get(key) is over:
            del self._last[key]


class KeyPlace:
    """The place of a send, or of a call, in the lines of its keys."""

    __slots__ = ("_before", "_order", "_over", "_waiting", "has_left")

    def __init__(
        self,
        order: KeyOrder,
        before: list[asyncio.Future[None]],
        over: asyncio.Future[None],
    ) -> None:
        self._order = order
        self._before = before
        self._over = over
        self._waiting = 0
        self.has_left = False
        """Whether those behind it no longer wait for it."""

    @property
    def is_waiting(self) -> bool:
        """Whether a send waits for its turn here."""
        return self._waiting > 0

    @property
    def is_first(self) -> bool:
        """Whether all that joined before have left."""
        return all(earlier.done() for earlier in self._before)

    async def wait(self) -> None:
        """Return when all that joined before have left; the caller limits the time."""
        self._order.waiting += 1
        self._waiting += 1
        try:
            for earlier in self._before:
                if not earlier.done():
                    await asyncio.shield(earlier)
        finally:
            self._waiting -= 1
            self._order.waiting -= 1

    def leave(self) -> None:
        """Let the next ones continue, as soon as those before this one have left too.

        A second call does nothing: a close may have removed it already.
        """
        if self.has_left:
            return
        self.has_left = True
        self._order.forget(self)
        waiting = [earlier for earlier in self._before if not earlier.done()]
        if not waiting:
            self._over.set_result(None)
            return
        left = len(waiting)

        def one_less(_done: asyncio.Future[None]) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._over.set_result(None)

        for earlier in waiting:
            earlier.add_done_callback(one_less)
