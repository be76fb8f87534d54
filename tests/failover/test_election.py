"""Who becomes master, and when: by the table, and by what must hold in every group."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.failover.election import (
    ClosedPort,
    Decision,
    Step,
    altered,
    appointed,
    decide,
    is_gone,
    next_epoch,
)
from orbitmq.failover.group import Alive, GroupState, GroupView


def alive(
    lease: int,
    *,
    end: int = 0,
    epoch: int = 1,
    bid: int = 0,
    priority: int = 5,
    all_ack: bool = True,
) -> Alive:
    return Alive(
        lease=lease,
        address=f"host-{lease}:1",
        ha_address=f"host-{lease}:2",
        log_epoch=epoch,
        log_end=end,
        bid=bid,
        priority=priority,
        all_ack=all_ack,
    )


def view(state: GroupState | None, running: Mapping[int, Alive]) -> GroupView:
    return GroupView(9, state, 4 if state else 0, {}, running, {})


def led_by(master: int, *in_sync: int, epoch: int = 1) -> GroupState:
    return GroupState(master=master, epoch=epoch, lease=master * 10, in_sync=in_sync)


def decided(
    me: int, seen: GroupView, *, in_time: bool = True, unclean: bool = False, lease: int = 0
) -> Decision:
    return decide(me, lease or me * 10, seen, in_time=in_time, unclean=unclean)


def test_a_master_that_is_alive_leads_and_the_others_follow() -> None:
    seen = view(led_by(1, 1, 2), {1: alive(10), 2: alive(20), 3: alive(30)})
    assert [decided(one, seen).step for one in (1, 2, 3)] == [Step.LEAD, Step.FOLLOW, Step.FOLLOW]


def test_a_process_whose_identity_another_has_stops() -> None:
    seen = view(led_by(1, 1, 2), {1: alive(10), 2: alive(21)})
    assert decided(2, seen).step is Step.STOP


def test_brokers_in_sync_bid_and_the_one_with_most_of_the_log_claims() -> None:
    state = led_by(1, 1, 2, 3)
    running = {2: alive(20, end=70), 3: alive(30, end=90), 4: alive(40, end=200)}
    assert [decided(one, view(state, running)).step for one in (2, 3, 4)] == [
        *(Step.BID, Step.BID, Step.WAIT),
    ]
    running |= {2: alive(20, end=70, bid=2)}
    assert decided(2, view(state, running)).step is Step.WAIT  # 3 has not bid yet
    running |= {3: alive(30, end=90, bid=2)}
    assert decided(2, view(state, running)).step is Step.WAIT
    claim = decided(3, view(state, running))
    assert claim.step is Step.CLAIM
    assert claim.state == GroupState(master=3, epoch=2, lease=30, in_sync=(2, 3), in_sync_epoch=2)


def test_a_newer_epoch_counts_more_than_a_longer_log_then_priority_then_the_id() -> None:
    state = led_by(1, 1, 2, 3, epoch=4)
    older = alive(20, end=900, epoch=3, bid=5)
    newer = alive(30, end=100, epoch=4, bid=5)
    assert decided(3, view(state, {2: older, 3: newer})).step is Step.CLAIM
    first = alive(30, end=100, epoch=4, bid=5, priority=1)
    assert decided(3, view(state, {2: alive(20, end=100, epoch=4, bid=5), 3: first})).step is (
        Step.CLAIM
    )
    assert decided(2, view(state, {2: alive(20, epoch=4, bid=5), 3: alive(30, epoch=4, bid=5)})
                   ).step is Step.CLAIM  # fmt: skip


def test_who_does_not_bid_is_not_waited_for_for_ever() -> None:
    running = {2: alive(20, bid=2), 3: alive(30)}
    seen = view(led_by(1, 1, 2, 3), running)
    assert decided(2, seen).step is Step.WAIT
    claim = decided(2, seen, in_time=False)
    assert claim.step is Step.CLAIM
    assert claim.state is not None
    assert claim.state.in_sync == (2, 3)  # it has everything, and the master waits for it


def test_a_master_s_new_process_has_to_be_elected_again() -> None:
    state = led_by(1, 1, 2)
    running = {1: alive(11, end=50), 2: alive(20, end=60)}
    assert decided(1, view(state, running), lease=11).step is Step.BID
    running = {1: alive(11, end=50, bid=2), 2: alive(20, end=60, bid=2)}
    assert decided(1, view(state, running), lease=11).step is Step.WAIT
    assert decided(2, view(state, running)).step is Step.CLAIM


def test_who_is_not_in_sync_is_elected_only_if_that_is_allowed_and_nobody_in_sync_is_alive() -> (
    None
):
    state, running = led_by(1, 1), {2: alive(20, bid=2), 3: alive(30, end=5, bid=2)}
    waits = decided(3, view(state, running), in_time=False)
    assert waits.step is Step.WAIT
    assert waits.why == "none in sync is alive; in sync are brokers (1,)"
    claim = decided(3, view(state, running), unclean=True)
    assert claim.step is Step.CLAIM
    assert claim.state is not None
    assert claim.state.in_sync == (3,)
    running[1] = alive(11, bid=2)
    assert decided(3, view(state, running), unclean=True).step is Step.WAIT


def test_a_new_group_waits_for_all_bids_and_begins_above_every_log() -> None:
    running = {1: alive(10, epoch=0, bid=7), 2: alive(20, epoch=6, end=9, bid=7)}
    assert next_epoch(view(None, running)) == 7
    assert decided(2, view(None, running)).step is Step.WAIT
    assert decided(1, view(None, running), in_time=False).step is Step.WAIT
    claim = decided(2, view(None, running), in_time=False)
    assert claim.state == GroupState(master=2, epoch=7, lease=20, in_sync=(2,))


def test_an_in_sync_set_always_has_its_master() -> None:
    state = altered(led_by(2, 1, 2, 3), [3])
    assert state.in_sync == (2, 3)
    assert state.in_sync_epoch == 2


def test_an_operator_appoints_only_who_is_alive_and_in_sync() -> None:
    seen = view(led_by(1, 1, 2), {1: alive(10), 2: alive(20), 3: alive(30)})
    assert appointed(2, seen) == GroupState(master=2, epoch=2, lease=20, in_sync=(1, 2))
    assert "not in sync" in str(appointed(3, seen))
    assert "not alive" in str(appointed(4, seen))
    assert "is the master" in str(appointed(1, seen))
    assert "ever elected" in str(appointed(1, view(None, {1: alive(10)})))


CLOSED = ClosedPort(4, "host-10:2")


def test_a_master_whose_port_is_closed_is_gone_for_who_is_in_sync() -> None:
    running = {1: alive(10), 2: alive(20), 3: alive(30)}
    seen = view(led_by(1, 1, 2, epoch=4), running)
    assert [is_gone(one, one * 10, seen, CLOSED) for one in (1, 2, 3)] == [False, True, False]


@pytest.mark.parametrize(
    ("seen", "closed", "lease"),
    [
        # It is alone in sync: no other could be elected.
        (view(led_by(1, 1, epoch=4), {1: alive(10), 2: alive(20)}), CLOSED, 20),
        # The connection that ended was of an epoch before: it may be changing its role.
        (view(led_by(1, 1, 2, epoch=5), {1: alive(10), 2: alive(20)}), CLOSED, 20),
        # Another process of it runs, or none.
        (view(led_by(1, 1, 2, epoch=4), {1: alive(11), 2: alive(20)}), CLOSED, 20),
        (view(led_by(1, 1, 2, epoch=4), {2: alive(20)}), CLOSED, 20),
        # It listens elsewhere.
        (view(led_by(1, 1, 2, epoch=4), {1: alive(10), 2: alive(20)}), ClosedPort(4, "b:2"), 20),
        # Its sends don't wait for all in sync, or it is too old to say so.
        (
            view(led_by(1, 1, 2, epoch=4), {1: alive(10, all_ack=False), 2: alive(20)}),
            *(CLOSED, 20),
        ),
        # This process does not count as alive, so it could not take over.
        (view(led_by(1, 1, 2, epoch=4), {1: alive(10), 2: alive(21)}), CLOSED, 20),
        (view(led_by(1, 1, 2, epoch=4), {1: alive(10)}), CLOSED, 20),
        (view(None, {1: alive(10), 2: alive(20)}), CLOSED, 20),
    ],
)
def test_a_master_is_left_alone_where_that_proves_nothing_or_is_not_safe(
    seen: GroupView, closed: ClosedPort, lease: int
) -> None:
    assert not is_gone(2, lease, seen, closed)


@given(st.data())
def test_at_most_one_broker_claims_an_epoch_and_it_has_what_was_acknowledged(
    data: st.DataObject,
) -> None:
    ids = range(1, 6)
    in_sync = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    master = data.draw(st.sampled_from(sorted(in_sync)))
    running = {
        one: alive(
            one * 10 + data.draw(st.integers(0, 1)),
            end=data.draw(st.integers(0, 9)),
            bid=data.draw(st.integers(0, 2)),
        )
        for one in data.draw(st.sets(st.sampled_from(ids)))
    }
    seen = view(led_by(master, *sorted(in_sync)), running)
    in_time = data.draw(st.booleans())
    steps = {
        one: decide(one, known.lease, seen, in_time=in_time, unclean=False)
        for one, known in running.items()
    }
    claims = {one: step for one, step in steps.items() if step.step is Step.CLAIM}
    assert len(claims) <= 1
    assert set(claims) <= in_sync
    for step in claims.values():
        assert step.state is not None
        assert set(step.state.in_sync) <= in_sync
        assert step.state.epoch == 2
    if seen.master is not None:
        assert not claims


@pytest.mark.parametrize("unclean", [False, True])
def test_somebody_always_acts_while_a_broker_in_sync_is_alive(unclean: bool) -> None:
    for bids in ((0, 0), (2, 0), (0, 2), (2, 2)):
        running = {2: alive(20, bid=bids[0]), 3: alive(30, bid=bids[1])}
        seen = view(led_by(1, 1, 2, 3), running)
        steps = [decided(one, seen, in_time=False, unclean=unclean).step for one in (2, 3)]
        assert set(steps) & {Step.BID, Step.CLAIM}
