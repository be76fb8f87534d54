"""The interface to a consensus store: keys with revisions, leases, and comparisons before a change.

Elections stand on it, and on nothing else: it must be linearizable, as etcd is. A key's revision
grows with each change of it; a key that isn't there has revision 0.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["ABSENT", "Change", "ConsensusStore", "Snapshot", "StoredValue"]

ABSENT: Final = 0
"""The revision of a key that isn't there."""


class StoredValue(NamedTuple):
    """The value of a key, and the revision of its last change."""

    value: bytes
    revision: int


class Snapshot(NamedTuple):
    """All keys with a prefix at one revision of the store."""

    revision: int
    values: Mapping[str, StoredValue]


class Change(NamedTuple):
    """A value to put, which ends with a lease if there is one; None removes the key."""

    key: str
    value: bytes | None
    lease: int = 0


class ConsensusStore(Protocol):
    """Where a group keeps what it agreed on.

    Every call raises ConsensusFailed if the store doesn't answer. A change may have been made all
    the same: read again.
    """

    async def grant(self, ttl_s: int) -> int:
        """Begin a lease, and return its id; it ends ``ttl_s`` after it was last kept alive."""
        ...

    async def keep_alive(self, lease: int) -> bool:
        """Keep a lease alive; return False if it has ended."""
        ...

    async def revoke(self, lease: int) -> None:
        """End a lease and remove its keys."""
        ...

    async def read(self, prefix: str) -> Snapshot:
        """Return the keys that begin with ``prefix``, as of now."""
        ...

    async def change(self, expected: Mapping[str, int], changes: Sequence[Change]) -> bool:
        """Make all changes if each expected key still has its revision; return whether it has.

        Nothing is changed either if one names a lease that has ended.
        """
        ...

    async def wait(self, prefix: str, revision: int, timeout_s: float) -> None:
        """Return when a key with ``prefix`` may have changed after ``revision``, or time is up.

        It may return early, such as when the history since then is gone.
        """
        ...

    async def close(self) -> None:
        """Close the connection; leases go on until they end."""
        ...
