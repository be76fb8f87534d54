"""What operators ask of groups, and change: the state in the consensus store, for any broker name.

::

    appoint   state of the group, with another master in sync ──▶ all its brokers change roles
    forget    ids that nobody uses ──▶ marked as removed; an id is never given out again
"""

import logging
from collections.abc import Collection

from msgspec.structs import replace

from orbitmq.errors import InvalidInput
from orbitmq.failover.consensus import Change, ConsensusStore
from orbitmq.failover.election import appointed
from orbitmq.failover.group import GroupKeys, GroupState, GroupView, encode

__all__ = ["Administration"]

log = logging.getLogger("orbitmq.failover")


class Administration:
    """Reads and changes the groups of one cluster.

    Every call raises ConsensusFailed if the store doesn't answer.
    """

    def __init__(self, store: ConsensusStore, *, prefix: str, cluster: str) -> None:
        self.store = store
        self.prefix = prefix
        self.cluster = cluster

    def __repr__(self) -> str:
        return f"<Administration of {self.cluster} in {self.prefix}>"

    async def view(self, name: str) -> GroupView:
        """Return the brokers of a name; without any if there are none."""
        keys = self._keys(name)
        return GroupView.of(keys, await self.store.read(keys.base))

    async def appoint(self, name: str, broker_id: int) -> GroupState:
        """Let a broker be the master, and return the state; it leads within a moment.

        Raise InvalidInput, with the reason, if it can't be.
        """
        keys, view = self._keys(name), await self.view(name)
        state = appointed(broker_id, view)
        if isinstance(state, str):
            raise InvalidInput(state, field="broker_id")
        expected = view.expected([keys.state, keys.alive(broker_id)])
        if not await self.store.change(expected, [Change(keys.state, encode(state))]):
            raise InvalidInput(f"the group {name} has just changed; ask again", field="broker_id")
        log.warning("broker %d of %s is appointed for epoch %d", broker_id, name, state.epoch)
        return state

    async def forget(
        self, name: str, brokers: Collection[int] = (), *, living: bool = False
    ) -> list[int]:
        """Forget brokers that are gone for good, by default all that are not alive.

        Return their ids. One that comes back is known again. Raise InvalidInput, and change
        nothing, if one is unknown, in sync, or alive and ``living`` is False.
        """
        keys, view = self._keys(name), await self.view(name)
        known = [one for one, found in view.registered.items() if not found.is_removed]
        in_sync = () if view.state is None else view.state.in_sync
        spared = {*in_sync, *(() if living else view.alive)}
        chosen = list(brokers) or [one for one in known if one not in spared]
        for one in chosen:
            if one not in known:
                raise InvalidInput(f"{name} has no broker {one}, only {known}", field="brokers")
            if one in in_sync:
                raise InvalidInput(
                    f"broker {one} of {name} is in sync: it may be the only one with messages that "
                    "were acknowledged, so it is not forgotten",
                    field="brokers",
                )
            if one in view.alive and not living:
                raise InvalidInput(f"broker {one} of {name} is alive", field="brokers")
        changes = [
            Change(keys.broker(one), encode(replace(view.registered[one], is_removed=True)))
            for one in chosen
        ]
        touched = [keys.state, *map(keys.broker, chosen), *map(keys.alive, chosen)]
        if changes and not await self.store.change(view.expected(touched), changes):
            raise InvalidInput(f"the group {name} has just changed; ask again", field="brokers")
        return chosen

    def _keys(self, name: str) -> GroupKeys:
        return GroupKeys.of(self.prefix, self.cluster, name)
