"""Which settings are tried, which faults they meet, and in which order: decided by a seed."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orbitmq.randomness import Randomness

__all__ = ["CONFIGURATIONS", "DISK_FAULTS", "ELECTED", "LOSING", "Configuration", "Fault", "faults"]


class Fault(StrEnum):
    """What happens to a pair of brokers and its clients."""

    MASTER_KILLED = "master killed, restarted"
    SLAVE_KILLED = "slave killed, restarted"
    BOTH_KILLED = "master and slave killed, restarted"
    NAMESERVERS_KILLED = "both nameservers killed, restarted"
    MASTER_PAUSED = "master stopped for a while (SIGSTOP)"
    SLAVE_PAUSED = "slave stopped for a while (SIGSTOP)"
    CLIENTS_CUT = "no byte between clients and master for a while"
    CLIENTS_RESET = "connections of clients reset"
    CLIENTS_SLOW = "slow link between clients and master"
    SLAVE_CUT = "no byte between master and slave for a while"
    SLAVE_SLOW = "slow link between master and slave"
    DISK_LOST = "master and its disk lost, slave promoted by hand"
    DISK_LOST_WHILE_CUT = "the same while no byte passes to the slave"
    MASTER_DISK_FULL = "master's disk full for a while"
    SLAVE_DISK_FULL = "slave's disk full for a while"
    LEADER_KILLED = "master killed, restarted when another leads"
    LEADER_PAUSED = "master stopped (SIGSTOP) until another leads"
    LEADER_LOST = "master and its disk lost, empty when another leads"
    CLOCK_AHEAD = "master's clock an hour ahead for a while"
    CLOCK_BEHIND = "master's clock an hour behind for a while"
    CLOCK_OF_SLAVE = "slave's clock an hour ahead for a while"
    CLOCK_KILLED = "master killed an hour ahead, restarted with the clock set right"
    CLOCK_LOST = "master and its disk lost, slave promoted by hand an hour behind"
    CLOCK_LEADER_KILLED = "master killed an hour ahead, restarted when another leads"


ELECTED: Final = "elected"
"""The role of brokers that elect their master."""
LOSING: Final = frozenset({Fault.DISK_LOST, Fault.DISK_LOST_WHILE_CUT, Fault.CLOCK_LOST})
"""Faults that a message on the master alone does not survive."""
DISK_FAULTS: Final = (
    Fault.MASTER_DISK_FULL,
    Fault.SLAVE_DISK_FULL,
    Fault.MASTER_KILLED,
    Fault.SLAVE_KILLED,
)
ELECTION_FAULTS: Final = (
    Fault.LEADER_KILLED,
    Fault.LEADER_PAUSED,
    Fault.LEADER_LOST,
    Fault.SLAVE_KILLED,
    Fault.SLAVE_PAUSED,
    Fault.CLIENTS_CUT,
    Fault.NAMESERVERS_KILLED,
)
_OF_CLOCKS: Final = "CLOCK_"
CLOCK_FAULTS: Final = (
    Fault.CLOCK_AHEAD,
    Fault.CLOCK_BEHIND,
    Fault.CLOCK_OF_SLAVE,
    Fault.CLOCK_KILLED,
    Fault.CLOCK_LOST,
)
ELECTION_CLOCK_FAULTS: Final = (
    Fault.CLOCK_AHEAD,
    Fault.CLOCK_BEHIND,
    Fault.CLOCK_OF_SLAVE,
    Fault.CLOCK_LEADER_KILLED,
)
_FAULTS: Final = tuple(
    one
    for one in Fault
    if not one.name.endswith("_FULL") and not one.name.startswith(("LEADER_", _OF_CLOCKS))
)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a pair, and what it goes through."""

    name: str
    flush: str
    role: str
    faults: tuple[Fault, ...] = _FAULTS
    has_small_disks: bool = False

    @property
    def is_elected(self) -> bool:
        """Whether the brokers elect their master."""
        return self.role == ELECTED

    @property
    def is_replicated(self) -> bool:
        """Whether SEND_OK says that a slave has the message."""
        return self.role == "SYNC_MASTER" or self.is_elected

    @property
    def has_own_clocks(self) -> bool:
        """Whether each broker has a clock of its own, which can be set."""
        return any(one.name.startswith(_OF_CLOCKS) for one in self.faults)

    def may_lose(self, fault: str) -> bool:
        """Return whether a message acknowledged with SEND_OK may be lost by a fault."""
        return fault in LOSING and not self.is_replicated


CONFIGURATIONS: Final = {
    one.name: one
    for one in (
        Configuration(name="async", flush="ASYNC_FLUSH", role="ASYNC_MASTER"),
        Configuration(name="flushed", flush="SYNC_FLUSH", role="ASYNC_MASTER"),
        Configuration(name="replicated", flush="ASYNC_FLUSH", role="SYNC_MASTER"),
        Configuration(name="both", flush="SYNC_FLUSH", role="SYNC_MASTER"),
        Configuration(
            name="small-disk",
            flush="SYNC_FLUSH",
            role="SYNC_MASTER",
            faults=DISK_FAULTS,
            has_small_disks=True,
        ),
        Configuration(name="elected", flush="ASYNC_FLUSH", role=ELECTED, faults=ELECTION_FAULTS),
        Configuration(name="clocks", flush="SYNC_FLUSH", role="SYNC_MASTER", faults=CLOCK_FAULTS),
        Configuration(
            name="elected-clocks", flush="ASYNC_FLUSH", role=ELECTED, faults=ELECTION_CLOCK_FAULTS
        ),
    )
}


def faults(of: Sequence[Fault], chance: Randomness) -> Iterator[Fault]:
    """Yield faults without end: all of them in a random order, and again in another.

    >>> from itertools import islice
    >>> from orbitmq.randomness import SeededRandomness
    >>> both = (Fault.MASTER_KILLED, Fault.SLAVE_KILLED)
    >>> sorted(one.name for one in islice(faults(both, SeededRandomness(1)), 4))
    ['MASTER_KILLED', 'MASTER_KILLED', 'SLAVE_KILLED', 'SLAVE_KILLED']
    """
    while True:
        left = list(of)
        while left:
            yield left.pop(chance.below(len(left)))
