"""What an elected master may do: by its lease, by who is in sync, by what the group agreed on."""

import asyncio
from collections.abc import Collection
from typing import cast

from msgspec.structs import replace

from orbitmq.broker.leadership import Leadership
from orbitmq.errors import ConsensusFailed
from orbitmq.failover.group import GroupState
from orbitmq.failover.member import Member, Standing
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual

STATE = GroupState(master=1, epoch=4, lease=7, in_sync=(1, 2))
SETTINGS = ReplicationSettings(min_in_sync_replicas=2)


class FakeMember:
    """A member whose proposals fail as often as a test wants."""

    def __init__(self) -> None:
        self.standing = Standing(STATE, None, leads=True)
        self.is_held = True
        self.fails = 0
        self.asked: list[set[int]] = []

    def holds(self) -> bool:
        return self.is_held

    async def alter_in_sync(self, brokers: Collection[int], expected: GroupState) -> None:
        assert expected == STATE
        self.asked.append(set(brokers))
        if self.fails:
            self.fails -= 1
            raise ConsensusFailed("no answer in time", address="etcd")


class World:
    def __init__(self) -> None:
        self.member = FakeMember()
        self.end = 1_000
        self.leadership = Leadership(cast(Member, self.member), STATE, lambda: SETTINGS)

    def begin(self) -> InSyncSet:
        in_sync = InSyncSet(
            1,
            members=STATE.in_sync,
            epoch_start=self.end,
            settings=lambda: SETTINGS,
            log_end=lambda: self.end,
            now_ms=0,
        )
        self.leadership.begin(in_sync, self.end)
        return in_sync


def test_before_it_begins_nothing_is_confirmed_and_nothing_accepted() -> None:
    world = World()
    assert world.leadership.confirmed_end() == 0
    assert "in-sync replicas not enough: 0" in world.leadership.why_refused()


def test_it_accepts_messages_while_it_holds_its_lease_in_its_epoch() -> None:
    world = World()
    world.begin()
    assert world.leadership.why_refused() == ""
    world.member.is_held = False
    assert "can't prove" in world.leadership.why_refused()
    world.member.is_held = True
    world.member.standing = Standing(replace(STATE, epoch=5), None, leads=True)
    assert "can't prove" in world.leadership.why_refused()


def test_consumers_wait_until_all_in_sync_have_what_was_there_at_the_election() -> None:
    world = World()
    in_sync = world.begin()
    in_sync.reported(2, 999, 1)
    assert "waits for the brokers in sync" in world.leadership.why_unreadable()
    in_sync.reported(2, 1_000, 2)
    assert world.leadership.why_unreadable() == ""
    world.end = 2_000
    assert world.leadership.why_unreadable() == ""
    assert world.leadership.confirmed_end() == 1_000


def test_a_proposal_is_made_again_until_the_state_of_the_group_is_another() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World()
        in_sync = world.begin()
        world.member.fails = 2
        in_sync.reported(3, 1_000, 1)
        in_sync.reported(2, 1_000, 1)
        in_sync.reported(3, 1_000, 2)
        await clock.sleep(2)
        assert len(world.member.asked) > 3
        assert world.member.asked[0] == {1, 2, 3}
        assert in_sync.members == {1, 2}
        world.leadership.note(replace(STATE, in_sync=(1, 2, 3), in_sync_epoch=2))
        assert in_sync.members == {1, 2, 3}
        asked = len(world.member.asked)
        await clock.sleep(5)
        assert len(world.member.asked) == asked
        await world.leadership.close()

    run_virtual(main)


def test_a_close_ends_a_proposal() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World()
        in_sync = world.begin()
        in_sync.reported(3, 1_000, 1)
        in_sync.reported(3, 1_000, 2)
        in_sync.left(2)
        await clock.sleep(1)
        await world.leadership.close()
        asked = len(world.member.asked)
        await asyncio.sleep(5)
        assert len(world.member.asked) == asked > 0

    run_virtual(main)


def test_once_closed_it_accepts_nothing_though_its_lease_goes_on() -> None:
    async def main(_clock: VirtualClock) -> None:
        world = World()
        world.begin()
        assert world.leadership.holds()
        await world.leadership.close()
        assert world.member.holds()
        assert not world.leadership.holds()
        assert "can't prove" in world.leadership.why_refused()

    run_virtual(main)


def test_connections_that_end_with_it_put_nobody_out_of_sync() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World()
        in_sync = world.begin()
        in_sync.reported(2, 1_000, 1)
        await world.leadership.close()
        in_sync.left(2)
        await clock.sleep(5)
        assert world.member.asked == []

    run_virtual(main)
