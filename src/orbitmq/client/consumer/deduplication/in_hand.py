"""The messages that handlers of this process are working on."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from orbitmq.client.consumer.deduplication.claims import Claims, Found
from orbitmq.errors import OrbitError
from orbitmq.threads import Event, Lock, Thread, start_thread

__all__ = ["InHand"]

log = logging.getLogger("orbitmq.client")

_RENEWALS_PER_LEASE: Final = 3


class InHand:
    """Claims for handlers: they last until the handler has ended, however long that takes.

    While there are any, a thread renews their leases, if other processes may see them.
    """

    def __init__(self, claims: Claims, *, lease_ms: int) -> None:
        self._claims = claims
        self._every_s = lease_ms / 1000 / _RENEWALS_PER_LEASE
        self._guard = Lock()
        self._keys: set[str] = set()
        self._renewing: Thread | None = None
        self._ended = Event()

    def __repr__(self) -> str:
        return f"<InHand {len(self._keys)} keys>"

    def take(self, keys: Sequence[str]) -> list[Found]:
        """Claim the unknown ones; return what was found, in the order of the keys."""
        found = self._claims.claim(keys)
        new = [key for key, one in zip(keys, found, strict=True) if one is Found.NEW]
        with self._guard:
            # A lease may end although its handler runs, such as while a laptop sleeps.
            twice = self._keys.intersection(new)
            self._keys.update(new)
            if new and self._claims.is_shared and self._renewing is None:
                self._renewing = start_thread(self._renew, name="orbitmq-leases", daemon=True)
        return [
            Found.CLAIMED if key in twice else one for key, one in zip(keys, found, strict=True)
        ]

    def finish(self, keys: Sequence[str]) -> None:
        """Make them done."""
        try:
            self._claims.finish(keys)
        finally:
            self._drop(keys)

    def release(self, keys: Sequence[str]) -> None:
        """Make them unknown."""
        try:
            self._claims.release(keys)
        finally:
            self._drop(keys)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def renew(self) -> bool:
        """Renew the leases; return whether there were any. A failure is logged."""
        with self._guard:
            keys = list(self._keys)
            if not keys:
                self._renewing = None
                return False
        try:
            self._claims.renew(keys)
        except OrbitError as error:
            log.warning("the leases of %d messages were not renewed: %s", len(keys), error)
        return True

    def _renew(self) -> None:
        while not self._ended.wait(self._every_s) and self.renew():
            pass

    def _drop(self, keys: Iterable[str]) -> None:
        with self._guard:
            self._keys.difference_update(keys)
