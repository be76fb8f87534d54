"""What a group of brokers has agreed on, and its keys in the consensus store.

::

    PREFIX/CLUSTER/NAME/state          master, its epoch and lease, the in-sync set
    PREFIX/CLUSTER/NAME/brokers/ID     who has a broker id, for ever
    PREFIX/CLUSTER/NAME/alive/ID       a broker that runs, as long as its lease

A change of the state names the revision of the state that it was decided on. So there is one state
after the other, and one master for each epoch.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from orbitmq.errors import InvalidBody
from orbitmq.failover.consensus import ABSENT, Snapshot

__all__ = ["Alive", "GroupKeys", "GroupState", "GroupView", "Registered", "encode"]

T = TypeVar("T", bound=msgspec.Struct)


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, and who has everything that was acknowledged."""

    master: int
    """The broker id of the master."""
    epoch: int
    """How many masters there were; each has a higher one."""
    lease: int
    """The lease of the process that leads: another process with its id does not."""
    in_sync: tuple[int, ...]
    """The brokers that have every acknowledged message, in order of their ids."""
    in_sync_epoch: int = 1
    """How often the in-sync set changed."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that has an id."""

    check_code: str
    """What it chose itself when it applied, to recognize that it succeeded."""
    address: str = ""
    """Where clients reached it last."""
    is_removed: bool = False
    """Whether an operator said that it is gone for good; the id stays its own."""


class Alive(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that runs."""

    lease: int
    """Its process."""
    address: str
    """Where clients reach it."""
    ha_address: str
    """Where its slaves reach it."""
    log_epoch: int
    """The newest epoch in its log."""
    log_end: int
    """Where its log ends: when the master was gone, or when it began."""
    bid: int = 0
    """The epoch that these are a bid for: its log doesn't grow until then."""
    priority: int = 0
    all_ack: bool = False
    """Whether its sends wait for all in sync; older versions don't say so."""


class GroupKeys(NamedTuple):
    """The keys of one group."""

    base: str

    @classmethod
    def of(cls, prefix: str, cluster: str, name: str) -> "GroupKeys":
        """Return the keys of a group.

        >>> GroupKeys.of("/orbitmq", "shop", "orders").alive(2)
        '/orbitmq/shop/orders/alive/2'
        """
        return cls(f"{prefix}/{cluster}/{name}/")

    @property
    def state(self) -> str:
        """The key of the state."""
        return f"{self.base}state"

    def broker(self, broker_id: int) -> str:
        """Return the key of a broker id."""
        return f"{self.base}brokers/{broker_id}"

    def alive(self, broker_id: int) -> str:
        """Return the key of a broker that runs."""
        return f"{self.base}alive/{broker_id}"


class GroupView(NamedTuple):
    """A group at one revision of the store."""

    revision: int
    state: GroupState | None
    state_revision: int
    registered: Mapping[int, Registered]
    alive: Mapping[int, Alive]
    revisions: Mapping[str, int]
    """The revision of each key."""

    @classmethod
    def of(cls, keys: GroupKeys, found: Snapshot) -> "GroupView":
        """Read a group; raise InvalidBody if a value is not ours."""
        values = {key: one.value for key, one in found.values.items()}
        state = values.get(keys.state)
        revisions = {key: one.revision for key, one in found.values.items()}
        return cls(
            revision=found.revision,
            state=None if state is None else _read(keys.state, state, GroupState),
            state_revision=revisions.get(keys.state, ABSENT),
            registered=_by_id(f"{keys.base}brokers/", values, Registered),
            alive=_by_id(f"{keys.base}alive/", values, Alive),
            revisions=revisions,
        )

    @property
    def master(self) -> Alive | None:
        """The master, if the process that was elected is alive."""
        if self.state is None:
            return None
        found = self.alive.get(self.state.master)
        return found if found is not None and found.lease == self.state.lease else None

    @property
    def next_id(self) -> int:
        """The broker id that nobody has; 0 is none, since it means master in routes."""
        return max(self.registered, default=0) + 1

    def expected(self, keys: Iterable[str]) -> Mapping[str, int]:
        """Return the revisions of some keys, for a change."""
        return {key: self.revisions.get(key, ABSENT) for key in keys}


def encode(value: msgspec.Struct) -> bytes:
    """Return the bytes of a value."""
    return msgspec.json.encode(value)


def _by_id(prefix: str, values: Mapping[str, bytes], kind: type[T]) -> dict[int, T]:
    numbers = {key: key.removeprefix(prefix) for key in values if key.startswith(prefix)}
    found = {
        int(number): _read(key, values[key], kind)
        for key, number in numbers.items()
        if number.isascii() and number.isdigit()
    }
    return dict(sorted(found.items()))


def _read(key: str, value: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except (ValueError, RecursionError) as error:
        raise InvalidBody(
            f"{key} in the consensus store is not ours: {error}; remove it, or choose another "
            "etcdKeyPrefix"
        ) from error
