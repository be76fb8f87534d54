"""Turns by sharding key: of sends with the same key one is on its way, the others wait in line.

A broker may serve requests of one connection side by side, and a try that fails may be followed by
another one: so the order of calls is the order in the queue only if each send ends before the next
one of its key begins. Sends with other keys pass by. A call with many messages joins the lines of
all their keys at once, and leaves them when its last frame is over; with an outbox, when what
failed of it is kept.

>>> import asyncio
>>> async def main() -> list[str]:
...     turns, order = KeyOrder(), []
...     async def send(name: str) -> None:
...         turn = turns.join([("orders", "o-42")])
...         await turn.wait()
...         order.append(name)
...         turn.leave()
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
    """The lines of one producer, by key; it bounds who may join. Belongs to one loop."""

    def __init__(self) -> None:
        self._last: dict[Key, asyncio.Future[None]] = {}
        self._line: dict[KeyPlace, None] = {}  # who has not left yet, first wait first
        self.waiting = 0
        """Sends that wait for their turn now."""

    def __repr__(self) -> str:
        return f"<KeyOrder {len(self._last)} keys, {self.waiting} waiting>"

    def __len__(self) -> int:
        return len(self._last)

    def join(self, keys: Iterable[Key]) -> "KeyPlace":
        """Join the lines of some keys, all at once: so that no two can wait for each other.

        The caller leaves again, whatever happens.
        """
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = []
        for key in dict.fromkeys(keys):
            if (last := self._last.get(key)) is not None:
                before.append(last)
            self._last[key] = over
            over.add_done_callback(partial(self._ended, key))
        turn = KeyPlace(self, before, over)
        self._line[turn] = None
        return turn

    async def drained(self) -> None:
        """Return once nobody is in any line; the caller bounds the time."""
        while pending := [over for over in self._last.values() if not over.done()]:
            await asyncio.wait(pending)

    def close(self) -> None:
        """Take those out who are on their way; who waits behind them comes, one after the other."""
        for turn in list(self._line):
            if not turn.is_waiting:
                turn.leave()

    def forget(self, turn: "KeyPlace") -> None:
        """Count one no more that leaves."""
        self._line.pop(turn, None)

    def _ended(self, key: Key, over: asyncio.Future[None]) -> None:
        if self._last.get(key) is over:
            del self._last[key]


class KeyPlace:
    """One send's place in its lines."""

    __slots__ = ("_before", "_over", "_turns", "_waiting", "has_left")

    def __init__(
        self,
        turns: KeyOrder,
        before: list[asyncio.Future[None]],
        over: asyncio.Future[None],
    ) -> None:
        self._turns = turns
        self._before = before
        self._over = over
        self._waiting = 0
        self.has_left = False
        """Whether those behind it wait for it no longer."""

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for it to wait."""
        return self._waiting > 0

    @property
    def is_first(self) -> bool:
        """Whether all who joined before have left."""
        return all(earlier.done() for earlier in self._before)

    async def wait(self) -> None:
        """Return when all who joined before have left; the caller bounds the time."""
        self._turns.waiting += 1
        self._waiting += 1
        try:
            for earlier in self._before:
                if not earlier.done():
                    await asyncio.shield(earlier)
        finally:
            self._waiting -= 1
            self._turns.waiting -= 1

    def leave(self) -> None:
        """Let the next ones wait; if this one went away while waiting, those before it first.

        Twice is no error: at a close it may have been taken out already.
        """
        if self.has_left:
            return
        self.has_left = True
        self._turns.forget(self)
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
