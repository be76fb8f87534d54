"""The states of a message that is handed over once.

::

               claim                    finish
    unknown ───────────▶ claimed ────────────────────▶ done
       ▲                    │                            │
       ├── release ─────────┤                            │
       ├── its lease ends ──┘                            │
       └── its window ends, or newer ones take its room ─┘

A claim belongs to one owner, so no other handler works on the message meanwhile. It lasts for a
lease, which the owner renews while it works: if the owner crashes, the message is unknown again
when the lease ends. Only what is done counts as a repetition.
"""

import enum
from collections.abc import Sequence
from typing import Protocol

__all__ = ["Claims", "Found"]


class Found(enum.Enum):
    """What a claim found."""

    NEW = "new"
    """It was unknown; it is claimed now, by us."""
    CLAIMED = "claimed"
    """Someone is working on it."""
    DONE = "done"
    """Its work has succeeded, within the window."""


class Claims(Protocol):
    """The states of messages, by key; safe to use from threads. Each call is one step for all keys.

    Raises:
        StoreError: the file can't be used; nothing was changed.
    """

    is_shared: bool
    """Whether other processes may see the claims, so that leases have to be renewed."""

    def claim(self, keys: Sequence[str]) -> list[Found]:
        """Claim the unknown ones; return what was found, in the order of the keys."""
        ...

    def finish(self, keys: Sequence[str]) -> None:
        """Make them done, claimed or not."""
        ...

    def release(self, keys: Sequence[str]) -> None:
        """Make those that we claimed unknown."""
        ...

    def renew(self, keys: Sequence[str]) -> None:
        """Begin the leases of our claims again."""
        ...

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        ...
