"""What a broker does about the state of its group: pure decisions, the same for everybody.

========================================== =====================================================
the group, as a broker sees it             what it does
========================================== =====================================================
no state yet                               bids for the first epoch; when time is up, the best
                                           of all that are alive claims it
it is the master, by this process          leads
another process has its id                 stops: two processes share an identity
another is the master, and alive           follows it
the master's port for slaves is closed     takes its sign of life away (`is_gone`)
the master is gone:
  it is in sync                            bids with the end of its log, which grows no more
  all in sync that are alive have bid, or  the best of them claims the next epoch; in sync are
  time is up                               it and the others in sync that are alive
  it is not in sync                        waits; if nobody in sync is alive and it is allowed,
                                           it is elected among all
========================================== =====================================================

Why nothing acknowledged is lost: a send is acknowledged when all in sync have it. A broker leaves
that set by a change of the state, which the master makes before it acknowledges without it; and it
enters it when it has everything, which the master waits for from before the change on. A master
that was replaced fails at both: the revision of the state is another.
"""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from orbitmq.failover.group import Alive, GroupState, GroupView

__all__ = [
    "ClosedPort",
    "Decision",
    "Step",
    "altered",
    "appointed",
    "decide",
    "is_gone",
    "next_epoch",
]


class Step(Enum):
    """What to do."""

    CLAIM = "claim"
    LEAD = "lead"
    FOLLOW = "follow"
    BID = "bid"
    WAIT = "wait"
    STOP = "stop"


class Decision(NamedTuple):
    """What to do, and why; a claim has the state to write, the others have the present one."""

    step: Step
    state: GroupState | None
    why: str = ""


def decide(me: int, lease: int, view: GroupView, *, in_time: bool, unclean: bool) -> Decision:
    """Return what broker ``me`` does, whose process has ``lease`` and is alive.

    ``in_time`` tells whether there is still time to wait for bids, ``unclean`` whether a broker
    may be elected that is not in sync.
    """
    state = view.state
    own = view.alive.get(me)
    if own is None or own.lease != lease:
        return Decision(Step.STOP, state, f"another process runs with the id {me} of this broker")
    if view.master is not None and state is not None:
        return Decision(Step.LEAD if state.master == me else Step.FOLLOW, state)
    return _succeed(me, own, view, in_time=in_time, unclean=unclean)


def _succeed(me: int, own: Alive, view: GroupView, *, in_time: bool, unclean: bool) -> Decision:
    """Return what to do while there is no master."""
    state, alive = view.state, view.alive
    in_sync = [one for one in state.in_sync if one in alive] if state is not None else []
    may_all = unclean or state is None
    candidates = in_sync or (list(alive) if may_all else [])
    if me not in candidates:
        assert state is not None
        missed = f"none in sync is alive; in sync are brokers {state.in_sync}"
        why = "it is not in sync" if candidates else missed
        return Decision(Step.WAIT, state, why)
    epoch = next_epoch(view)
    if own.bid < epoch:
        return Decision(Step.BID, state, f"for epoch {epoch}")
    bidders = [one for one in candidates if alive[one].bid >= epoch]
    # Of a new group nobody knows who else there is.
    if in_time and (state is None or len(bidders) < len(candidates)):
        return Decision(Step.WAIT, state, "others may bid yet")
    best = max(bidders, key=lambda one: _worth(one, alive[one]))
    if best != me:
        return Decision(Step.WAIT, state, f"broker {best} comes first")
    claimed = GroupState(
        master=me,
        epoch=epoch,
        lease=own.lease,
        in_sync=tuple(sorted({me, *in_sync})),
        in_sync_epoch=1 if state is None else state.in_sync_epoch + 1,
    )
    if state is None:
        return Decision(Step.CLAIM, claimed, "the group is new")
    return Decision(
        Step.CLAIM, claimed, "its master is gone" if in_sync else "unclean: none in sync is alive"
    )


class ClosedPort(NamedTuple):
    """What says that the process of a master is gone: nothing listens any more where it did."""

    epoch: int
    """The epoch that it was the master of, as it said over the connection that ended then."""
    ha_address: str
    """Where it listened for its slaves; the host is there, and refuses connections now."""


def is_gone(me: int, lease: int, view: GroupView, closed: ClosedPort) -> bool:
    """Return whether broker ``me`` may take the master's sign of life away, before its lease ends.

    The change has to name the revisions of the state and of both signs of life in ``view``.
    """
    # The master may be alive all the same, such as behind a firewall that rejects. Nothing that it
    # acknowledges is lost even then, and even if it never hears of this:
    #
    # - It acknowledges what all in sync have. So whichever of them is elected has all of that,
    #   since it reports nothing more to a former master once its own epoch has begun.
    # - It can't go on without them: to leave a broker out is a change of the state, which fails
    #   once another has claimed it. If this broker was left out before, it is not in sync, and may
    #   not do this. So a master that is alone in sync stays what it is.
    # - When it hears of it, it accepts nothing until it has given another sign of life and is still
    #   the master. Claims of its place that were decided on before that sign fail.
    #
    # Without `all_ack` the first of these is not so, and the end of its lease is waited for. A
    # master that is elected again closes its port for a while, and this broker then has no
    # connection of the new epoch that could have ended.
    state, master, own = view.state, view.master, view.alive.get(me)
    if state is None or master is None or own is None or own.lease != lease:
        return False
    return (
        state.master != me
        and me in state.in_sync
        and master.all_ack
        and closed == (state.epoch, master.ha_address)
    )


def next_epoch(view: GroupView) -> int:
    """Return the epoch of the next master: no log that is alive has one as high."""
    known = 0 if view.state is None else view.state.epoch
    return max([known, *(one.log_epoch for one in view.alive.values())]) + 1


def _worth(broker_id: int, bid: Alive) -> tuple[int, int, int, int]:
    return bid.log_epoch, bid.log_end, -bid.priority, -broker_id


def altered(state: GroupState, in_sync: Collection[int]) -> GroupState:
    """Return the state with another in-sync set, which has the master in any case."""
    members = tuple(sorted({state.master, *in_sync}))
    return replace(state, in_sync=members, in_sync_epoch=state.in_sync_epoch + 1)


def appointed(broker_id: int, view: GroupView) -> GroupState | str:
    """Return the state with the master that an operator names, or why it can't be.

    It has to be in sync: the present master then acknowledges nothing more without it, and it
    refuses the present master from the moment it leads.
    """
    state, named = view.state, view.alive.get(broker_id)
    if state is None:
        return "no broker of this name was ever elected"
    if named is None:
        return f"broker {broker_id} is not alive"
    if state.master == broker_id and view.master is not None:
        return f"broker {broker_id} is the master"
    if broker_id not in state.in_sync:
        return f"broker {broker_id} is not in sync; in sync are {_ids(state.in_sync)}"
    return replace(state, master=broker_id, epoch=next_epoch(view), lease=named.lease)


def _ids(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
