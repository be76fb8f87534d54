"""What a seed decides of a run before it begins."""

import enum
from typing import Final

import msgspec
from msgspec.structs import replace

from orbitmq.randomness import Randomness, SeededRandomness
from orbitmq.store.settings import FlushMode

__all__ = ["GroupPlan", "Plan", "Replication"]


class Replication(enum.Enum):
    """Who has the log, and what an acknowledged send waits for besides the master's disk."""

    NONE = "a master alone"
    ASYNC = "an ASYNC_MASTER and a slave"
    SYNC = "a SYNC_MASTER and a slave, which has what is acknowledged"
    ELECTED = "brokers that elect their master, of which those in sync have what is acknowledged"

    @property
    def has_slave(self) -> bool:
        """Whether there are slaves."""
        return self is not Replication.NONE


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group: an empty ``tag`` means all messages."""

    name: str
    ordered: bool
    tag: str
    members: int
    changes: int
    """How often a member joins, leaves or dies."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run."""

    seed: int
    replication: Replication
    flush_mode: FlushMode
    queues: int
    senders: int
    messages: int
    groups: tuple[GroupPlan, ...]
    pause_s: float
    delay_s: float
    loss: int
    sync_s: float
    troubles: int
    """How many befall the servers; as many befall the network."""
    kinds: tuple[str, ...] = ()
    """The names of those that may befall the servers; empty: all."""
    brokers: int = 2
    """How many brokers elect their master."""
    min_in_sync: int = 1
    """With fewer brokers in sync, an elected master refuses messages."""

    @classmethod
    def from_seed(cls, seed: int) -> "Plan":
        """Return the parameters of a seed.

        >>> Plan.from_seed(3) == Plan.from_seed(3)
        True
        """
        chance = SeededRandomness(seed)
        plan = cls(
            seed=seed,
            replication=chance.choice((*[Replication.SYNC] * 2, *_BY_HAND)),
            flush_mode=chance.choice((FlushMode.ASYNC, FlushMode.SYNC, FlushMode.SYNC)),
            queues=1 + chance.below(4),
            senders=1 + chance.below(3),
            messages=15 + chance.below(40),
            groups=tuple(_group(name, chance) for name in chance.choice(_GROUPS)),
            pause_s=chance.choice((0.0, 0.1, 0.5)),
            delay_s=chance.choice((0.0, 0.001, 0.05)),
            loss=chance.choice((0, 0, 300, 60)),
            sync_s=chance.choice((0.0, 0.004, 0.3)),
            troubles=chance.below(7),
        )
        # Drawn apart, so that the other seeds stay what they were before there were elections.
        elections = SeededRandomness(seed + _ELECTIONS)
        if elections.below(5):
            return plan
        return replace(
            plan,
            replication=Replication.ELECTED,
            brokers=2 + elections.below(2),
            min_in_sync=elections.choice((1, 1, 2)),
        )


_ELECTIONS: Final = 7_000_000
_BY_HAND: Final = (Replication.NONE, Replication.ASYNC, Replication.SYNC)
_GROUPS: Final = ((), ("any-order",), ("in-order",), ("any-order", "in-order"))


def _group(name: str, chance: Randomness) -> GroupPlan:
    ordered = name == "in-order"
    return GroupPlan(
        name=name,
        ordered=ordered,
        tag="" if ordered else chance.choice(("", "red")),
        members=1 + chance.below(3),
        changes=chance.below(6),
    )
