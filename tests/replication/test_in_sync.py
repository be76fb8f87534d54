from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings

OWN = 1
SETTINGS = ReplicationSettings(not_caught_up_ms_max=15_000)


class World:
    """An elected primary whose log has ``end`` bytes, and what it proposed."""

    def __init__(self, *members: int, epoch_start: int = 0, confirmed: int = 0) -> None:
        self.end = 1000
        self.proposals: list[set[int]] = []
        self.confirmed: list[int] = []
        self.set = InSyncSet(
            OWN,
            members=members,
            epoch_start=epoch_start,
            settings=lambda: SETTINGS,
            log_end=lambda: self.end,
            now_ms=0,
            confirmed=confirmed,
        )
        self.set.on_proposed = lambda proposed: self.proposals.append(set(proposed))
        self.set.on_confirmed = self.confirmed.append


def test_a_primary_alone_confirms_what_it_has() -> None:
    world = World()
    assert world.set.confirmed == 1000
    world.end = 1300
    assert world.set.confirmed == 1300
    assert world.confirmed == [1300]


def test_a_replica_that_has_caught_up_is_proposed_and_waited_for() -> None:
    world = World()
    world.set.reported(2, 800, now_ms=0)
    assert world.proposals == []
    world.end = 1100
    world.set.reported(2, 1000, now_ms=10)  # all that there was before
    assert world.proposals == []  # 1000 were confirmed before the log grew, and are less now
    world.set.reported(2, 1100, now_ms=20)
    assert world.proposals == [{1, 2}]
    assert world.set.awaited == {1, 2}
    assert world.set.members == {1}
    world.end = 1200
    assert world.set.confirmed == 1100  # the proposal may be taken any moment
    world.set.agreed({1, 2})
    world.set.reported(2, 1200, now_ms=30)
    assert world.set.confirmed == 1200


def test_confirmed_is_the_least_that_a_member_has_and_never_decreases() -> None:
    world = World(2, 3, confirmed=500)
    assert world.set.confirmed == 500  # none has reported
    world.set.reported(2, 1000, now_ms=0)
    assert world.set.confirmed == 500
    world.set.reported(3, 700, now_ms=0)
    assert world.set.confirmed == 700
    world.set.left(3)
    assert world.set.confirmed == 700
    world.set.reported(3, 600, now_ms=0)
    assert world.set.confirmed == 700
    assert world.confirmed == [700]


def test_a_replica_of_an_older_epoch_is_not_in_sync() -> None:
    world = World(3, epoch_start=900, confirmed=500)
    world.set.reported(2, 800, now_ms=0)
    world.end = 800  # as far as the replica knows
    world.set.reported(2, 800, now_ms=0)
    assert world.proposals == []
    world.end = 1000
    world.set.reported(2, 1000, now_ms=0)
    assert world.proposals == [{1, 2, 3}]


def test_a_learner_is_never_proposed() -> None:
    world = World()
    world.set.reported(2, 1000, now_ms=0, is_learner=True)
    assert world.proposals == []


def test_who_does_not_catch_up_is_left_out() -> None:
    world = World(2, 3)
    for now_ms in range(0, 20_000, 4_000):
        world.end += 1000
        world.set.reported(2, world.end, now_ms)
        world.set.reported(3, 1000, now_ms)
        world.set.tick(now_ms)
    assert world.proposals == [{1, 2}]
    assert world.set.confirmed == 1000
    world.set.agreed({1, 2})
    assert world.set.confirmed == world.end


def test_who_always_has_what_there_was_a_moment_ago_stays() -> None:
    world = World(2)
    world.set.reported(2, 1000, 0)
    for now_ms in range(1_000, 60_000, 1_000):
        before, world.end = world.end, world.end + 1000
        world.set.reported(2, before, now_ms)
        world.set.tick(now_ms)
    assert world.proposals == []


def test_a_member_that_does_not_connect_is_left_out_after_a_while() -> None:
    world = World(2)
    world.set.tick(15_000)
    assert world.proposals == []
    world.set.tick(15_001)
    assert world.proposals == [{1}]


def test_a_member_that_disconnects_is_left_out_at_once() -> None:
    world = World(2, 3)
    world.set.reported(2, 1000, 0)
    world.set.left(2)
    world.set.left(2)
    assert world.proposals == [{1, 3}]
    world.set.agreed({1, 3})
    world.set.reported(4, 500, 0)
    world.set.left(4)
    assert world.proposals == [{1, 3}]


def test_one_proposal_is_made_at_a_time_and_again_after_a_refusal() -> None:
    world = World()
    world.set.reported(2, 1000, 0)
    world.set.reported(3, 1000, 0)
    assert world.proposals == [{1, 2}]
    world.set.refused()
    assert world.set.awaited == {1}
    world.set.reported(3, 1000, 1)
    assert world.proposals == [{1, 2}, {1, 3}]
    world.set.agreed({1, 3})
    world.set.reported(2, 1000, 2)
    assert world.proposals[2:] == [{1, 2, 3}]
