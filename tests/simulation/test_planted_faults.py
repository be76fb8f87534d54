"""The simulation can find: a fault is planted on purpose for each law, and the law names it.

A seed is one that meets the fault. The function of a fault takes what stands at the place, and
returns what stands there instead.
"""

import asyncio
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from orbitmq.broker.sending.half_messages import Decision
from orbitmq.net.refusal import Refusal
from orbitmq.store.settings import FlushMode
from orbitmq.testing.simulation.laws import LAWS, NOTED, broken_laws
from orbitmq.testing.simulation.plan import GroupPlan, Plan, Replication
from orbitmq.testing.simulation.run import simulate_plan
from orbitmq.wire.codes import ResponseCode

Plant = Callable[[Any], Any]


def nothing(_original: object) -> object:
    return lambda *_args, **_options: None


def always(value: object) -> Plant:
    return lambda _original: lambda *_args, **_options: value


def always_property(value: object) -> Plant:
    return lambda _original: property(lambda _self: value)


def fails(_original: object) -> object:
    def fail(*_args: object) -> None:
        raise RuntimeError("planted")

    return fail


def never_ends(_original: object) -> object:
    async def wait(*_args: object) -> None:
        await asyncio.get_running_loop().create_future()

    return wait


def tells_offset_0(original: Callable[..., Any]) -> object:
    return lambda self, result, *more: original(self, replace(result, queue_offset=0), *more)


def gives_offset_5_again(original: Callable[..., Any]) -> object:
    def parts(one: Any, form: Any, queue_offset: int, *more: Any) -> Any:
        return original(one, form, queue_offset - (queue_offset == 6), *more)

    return parts


def changes_the_flag(original: Callable[..., Any]) -> object:
    return lambda record: replace(original(record), flag=999)


def decides(decision: Decision) -> Plant:
    def plant(original: Callable[..., Any]) -> object:
        return lambda self, half, _decision, on_ended: original(self, half, decision, on_ended)

    return plant


def passes_over_one(original: Callable[..., Any]) -> object:
    def get_messages(self: Any, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        result.next_offset += result.count > 0
        return result

    return get_messages


def moves_back_once(original: Callable[..., Any]) -> object:
    moved: list[int] = []

    def get_messages(self: Any, topic: str, queue_id: int, offset: int, **options: Any) -> Any:
        result = original(self, topic, queue_id, offset, **options)
        if offset > 3 and not moved:
            moved.append(offset)
            result.next_offset = offset - 1
        return result

    return get_messages


def commits_all_it_has(_original: object) -> object:
    return property(lambda self: None if self.last_offset is None else self.last_offset + 1)


def takes_failures_for_success(_original: object) -> object:
    def retry(self: Any, batch: Any, failed: Any, _error: object) -> None:
        self._in_hand.finish(batch.inbox, failed, 0)
        self._after(batch)

    return retry


def copies_another_byte(original: Callable[..., Any]) -> object:
    def append_copy(self: Any, data: memoryview, entries: Any) -> None:
        changed = bytearray(data)
        changed[-1] ^= 1
        original(self, memoryview(changed), entries)

    return append_copy


def skips_a_byte(original: Callable[..., Any]) -> object:
    def next_piece(self: Any, now_ms: int) -> Any:
        piece = original(self, now_ms)
        if piece is not None and self.position > 5_000:
            self.position += 1
        return piece

    return next_piece


def refuses_queue_0(original: Callable[..., Any]) -> object:
    def queue_id(self: Any, asked: int, topic: Any, peer: str) -> Any:
        if asked == 0:
            raise Refusal(ResponseCode.NO_PERMISSION, "planted")
        return original(self, asked, topic, peer)

    return queue_id


def elects_a_broker_that_is_not_in_sync(original: Callable[..., Any]) -> object:
    def succeed(me: int, own: Any, view: Any, **options: Any) -> Any:
        if view.state is not None:
            in_sync = tuple({*view.state.in_sync, me})
            view = view._replace(state=replace(view.state, in_sync=in_sync))
        return original(me, own, view, **options)

    return succeed


def leads_as_it_was_elected(_original: object) -> object:
    return lambda self: self.standing.leads


def keeps_no_offsets(_original: object) -> object:
    return lambda _offsets: '{"offsetTable":{}}'


ALONE = Plan(
    seed=1,
    replication=Replication.NONE,
    flush_mode=FlushMode.SYNC,
    queues=1,
    senders=2,
    messages=25,
    groups=(),
    pause_s=0.1,
    delay_s=0.001,
    loss=0,
    sync_s=0.004,
    troubles=0,
)
PAIR = replace(ALONE, replication=Replication.SYNC, queues=2)
GROUP = replace(
    ALONE,
    replication=Replication.ELECTED,
    queues=2,
    messages=40,
    pause_s=0.2,
    troubles=6,
)
TROUBLED = replace(ALONE, troubles=6)
KILLED = replace(ALONE, troubles=8, kinds=("kill master", "kill master midway"))
RESTARTED = replace(ALONE, troubles=8, kinds=("restart master",))
WITHOUT_POWER = replace(ALONE, troubles=8, kinds=("lose power",))
ANY_ORDER = GroupPlan(name="any-order", ordered=False, tag="", members=3, changes=12)
IN_ORDER = GroupPlan(name="in-order", ordered=True, tag="", members=2, changes=0)


class Planted(NamedTuple):
    """A fault, the law that has to name it, and a plan that meets it."""

    law: str
    place: str
    plant: Plant
    plan: Plan = ALONE
    seed: int = 1


SENDING, STORE = "orbitmq.broker.sending", "orbitmq.store"
HALVES = f"{SENDING}.half_messages.HalfMessages"
READS = f"{STORE}.serving.lookup.MessageLookup.get_messages"
ANSWERS = "orbitmq.broker.handlers.client.send.SendHandlers._stored"
CONSUMER = "orbitmq.client.consumer"

FAULTS = {
    "a flush that lies": Planted(
        "lost", f"{STORE}.log.flush._sync", nothing, WITHOUT_POWER, seed=3
    ),
    "an acknowledgement before the slave has it": Planted(
        "lost",
        "orbitmq.broker.durability.Durability._for_replicas",
        always_property(False),
        replace(PAIR, troubles=8, kinds=("lose disk of master",)),
        seed=3,
    ),
    "an elected master that acknowledges what others in sync lack": Planted(
        "lost",
        "orbitmq.broker.durability.Durability._for_replicas",
        always_property(False),
        replace(GROUP, kinds=("kill leader",)),
        seed=2,
    ),
    "a broker that is elected though it is not in sync": Planted(
        "lost",
        "orbitmq.failover.election._succeed",
        elects_a_broker_that_is_not_in_sync,
        replace(GROUP, kinds=("kill leader", "kill follower", "kill all")),
        seed=5,
    ),
    "a master that goes on after its lease": Planted(
        "two masters",
        "orbitmq.failover.member.Member.holds",
        leads_as_it_was_elected,
        replace(GROUP, kinds=("pause leader",)),
    ),
    "a follower that cuts nothing": Planted(
        "replicas differ",
        "orbitmq.replication.epoch_follower.EpochFollower._cut",
        nothing,
        replace(GROUP, kinds=("kill leader", "pause leader")),
    ),
    "offset 0 in the answer": Planted("strayed", ANSWERS, tells_offset_0),
    "offset 0 in the next answer": Planted("out of order", ANSWERS, tells_offset_0),
    "an offset that is given twice": Planted(
        "gap or repeat", f"{STORE}.log.placing.parts", gives_offset_5_again
    ),
    "a delay delivered anew": Planted(
        "repeated", f"{SENDING}.delays.Delays._is_delivered", always(False), KILLED, seed=4
    ),
    "a timer delivered anew": Planted(
        "repeated", f"{SENDING}.timers.Timers._is_done", always(False), KILLED, seed=6
    ),
    "a commit delivered anew": Planted(
        "repeated", f"{HALVES}._is_committed", always(False), KILLED, seed=4
    ),
    "a copy that is another message": Planted(
        "invented", f"{SENDING}.delays.due_message", changes_the_flag
    ),
    "an abort that delivers": Planted("aborted", f"{HALVES}.end", decides(Decision.COMMIT)),
    "a commit that does not": Planted("uncommitted", f"{HALVES}.end", decides(Decision.ROLLBACK)),
    "a delay delivered early": Planted("early", f"{SENDING}.delays.Delays._is_due", always(True)),
    "a pull that passes over a message": Planted("misread", READS, passes_over_one),
    "a consumer that commits too far": Planted(
        "undelivered",
        f"{CONSUMER}.fetching.inbox.Inbox.commit_offset",
        commits_all_it_has,
        replace(ALONE, messages=60, pause_s=0.05, queues=4, groups=(ANY_ORDER,)),
        seed=4,
    ),
    "an ordered consumer that drops what failed": Planted(
        "skipped",
        f"{CONSUMER}.delivery.ordered.OrderedDelivery._retry",
        takes_failures_for_success,
        replace(ALONE, groups=(IN_ORDER,)),
    ),
    "offsets that are not saved": Planted(
        "went back",
        "orbitmq.broker.tables.offsets.ConsumerOffsets.to_json",
        keeps_no_offsets,
        RESTARTED,
    ),
    "an elected master that begins without the offsets it took over": Planted(
        "went back",
        "orbitmq.broker.tables.offsets.ConsumerOffsets.load_json",
        nothing,
        replace(GROUP, kinds=("kill leader",)),
    ),
    "a slave that writes another byte": Planted(
        "replicas differ",
        f"{STORE}.log.commit_log.CommitLog.append_copy",
        copies_another_byte,
        replace(PAIR, replication=Replication.ASYNC),
    ),
    "a pull that is held for ever": Planted(
        "no answer", "orbitmq.broker.pulling.held_pulls.HeldPulls.due", always([])
    ),
    "a refusal for no reason": Planted(
        "odd answer",
        f"{SENDING}.send_checks.SendChecks.queue_id",
        refuses_queue_0,
        replace(ALONE, queues=3),
    ),
    "a slave that copies nothing": Planted(
        "stuck",
        "orbitmq.replication.replica.Replica.run",
        never_ends,
        replace(PAIR, replication=Replication.ASYNC),
    ),
    "a pull that is sent back": Planted("moved back", READS, moves_back_once),
    "a master that skips a byte": Planted(
        "diverged",
        "orbitmq.replication.feed.Feed.next_piece",
        skips_a_byte,
        replace(PAIR, replication=Replication.ASYNC),
    ),
    "a queue that does not agree with the log": Planted(
        "damage", f"{STORE}.log.placing.parts", gives_offset_5_again
    ),
    "a job that fails": Planted(
        "logged", "orbitmq.broker.persistence.Persistence.save_changed", fails
    ),
    "a callback that fails": Planted(
        "unhandled",
        "orbitmq.replication.primary.ReplicaPort._send_all",
        fails,
        replace(PAIR, replication=Replication.ASYNC),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = FAULTS[fault]
    monkeypatch.setattr(planted.place, planted.plant(original(planted.place)))
    history = simulate_plan(replace(planted.plan, seed=planted.seed))
    assert planted.law in {found.partition(":")[0] for found in broken_laws(history)}


def test_each_law_is_broken_on_purpose() -> None:
    assert {planted.law for planted in FAULTS.values()} == LAWS.keys() | NOTED.keys()


@pytest.mark.parametrize("plan", [ALONE, TROUBLED, PAIR, replace(PAIR, troubles=6), GROUP])
def test_without_a_fault_these_plans_keep_all_laws(plan: Plan) -> None:
    groups = (ANY_ORDER, IN_ORDER)
    assert broken_laws(simulate_plan(replace(plan, groups=groups))) == []


def original(place: str) -> Any:
    """Return what stands at a place, properties and functions of a class as they are."""
    owner, _, name = place.rpartition(".")
    return vars(pkgutil.resolve_name(owner))[name]
