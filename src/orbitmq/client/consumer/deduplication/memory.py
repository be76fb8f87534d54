"""States of messages in memory: for the handlers of one process, and forgotten when it ends."""

from collections import OrderedDict
from collections.abc import Sequence

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.clock import Clock
from orbitmq.threads import Lock

__all__ = ["MemoryClaims"]


class MemoryClaims:
    """Two tables of key → when its time ends, the earliest first."""

    is_shared = False

    def __init__(self, clock: Clock, *, window_ms: int, lease_ms: int, entries_max: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._lease_ms = lease_ms
        self._entries_max = entries_max
        self._guard = Lock()
        self._claimed: OrderedDict[str, int] = OrderedDict()
        self._done: OrderedDict[str, int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<MemoryClaims {len(self._claimed)} claimed, {len(self._done)} done>"

    def claim(self, keys: Sequence[str]) -> list[Found]:
        """Claim the unknown ones; return what was found, in the order of the keys."""
        with self._guard:
            now_ms = self._clock.monotonic_ms()
            _drop_ended(self._claimed, now_ms)
            _drop_ended(self._done, now_ms)
            return [self._claim(key, now_ms + self._lease_ms) for key in keys]

    def _claim(self, key: str, until_ms: int) -> Found:
        if key in self._done:
            return Found.DONE
        if key in self._claimed:
            return Found.CLAIMED
        self._claimed[key] = until_ms
        return Found.NEW

    def finish(self, keys: Sequence[str]) -> None:
        """Make them done, claimed or not."""
        with self._guard:
            until_ms = self._clock.monotonic_ms() + self._window_ms
            for key in keys:
                self._claimed.pop(key, None)
                self._done[key] = until_ms
                self._done.move_to_end(key)
            while len(self._done) > self._entries_max:
                self._done.popitem(last=False)

    def release(self, keys: Sequence[str]) -> None:
        """Make those that are claimed unknown."""
        with self._guard:
            for key in keys:
                self._claimed.pop(key, None)

    def renew(self, keys: Sequence[str]) -> None:
        """Begin the leases of claims again."""
        with self._guard:
            until_ms = self._clock.monotonic_ms() + self._lease_ms
            for key in keys:
                if key in self._claimed:
                    self._claimed[key] = until_ms
                    self._claimed.move_to_end(key)

    def close(self) -> None:
        """Do nothing: there is no file."""


def _drop_ended(table: OrderedDict[str, int], now_ms: int) -> None:
    while table and next(iter(table.values())) <= now_ms:
        table.popitem(last=False)
