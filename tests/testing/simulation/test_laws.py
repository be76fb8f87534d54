from collections.abc import Callable

import pytest

from orbitmq.testing.simulation.histories import (
    Attempt,
    Delivery,
    History,
    Kind,
    Progress,
    Reader,
    Reign,
    Stored,
)
from orbitmq.testing.simulation.laws import LAWS, NOTED, broken_laws
from orbitmq.testing.simulation.plan import GroupPlan
from tests.architecture.sources import ROOT


def group(name: str, *, ordered: bool = False, tag: str = "") -> GroupPlan:
    return GroupPlan(name=name, ordered=ordered, tag=tag, members=1, changes=0)


def delivery(
    group: str, key: str, attempt: int, offset: int, *, succeeded: bool = True
) -> Delivery:
    return Delivery(group, key, attempt, 0, offset, succeeded, is_retry=False)


def sound() -> History:
    """A run in which all was well: of three attempts at two messages one has no answer."""
    return History(
        groups=(group("ordered", ordered=True), group("blue", tag="blue")),
        deliveries=[
            delivery("ordered", "s0-000", 0, 0),
            delivery("blue", "s0-001", 0, 2, succeeded=False),
            delivery("ordered", "s0-000", 1, 1, succeeded=False),
            delivery("ordered", "s0-000", 1, 1),
            delivery("blue", "s0-001", 0, 0),
            delivery("ordered", "s0-000", 0, 0),
            delivery("ordered", "s0-001", 0, 2),
        ],
        progress=[
            Progress("ordered", "orders", 0, 0, 1),
            Progress("ordered", "orders", 0, 0, 3),
            Progress("ordered", "orders", 0, 1, 2),
            Progress("blue", "orders", 0, 1, 0),
        ],
        reigns=[Reign(10, ((1, "a"),)), Reign(50, ()), Reign(80, ((2, "b"),)), Reign(90, ())],
        logs={"master": b"one two", "slave": b"one two"},
        queues={"master": {"orders/0": b"12"}, "slave": {"orders/0": b"12"}},
        attempts=[
            Attempt("s0-000", 0, queue_id=0, tag="red"),
            Attempt("s0-000", 1, queue_id=0, tag="red", acked_at=1),
            Attempt("s0-001", 0, queue_id=0, tag="blue", acked_at=2),
        ],
        read={
            Reader("all", 0): [
                Stored(0, "s0-000", 0, "red"),
                Stored(1, "s0-000", 1, "red"),
                Stored(2, "s0-001", 0, "blue"),
            ],
            Reader("some", 0, "blue"): [Stored(2, "s0-001", 0, "blue")],
        },
        stored={
            0: [
                Stored(0, "s0-000", 0, "red"),
                Stored(1, "s0-000", 1, "red"),
                Stored(2, "s0-001", 0, "blue"),
            ]
        },
    )


def test_a_sound_run_breaks_no_law() -> None:
    assert broken_laws(sound()) == []


def test_an_attempt_without_an_answer_may_be_stored_or_not() -> None:
    history = sound()
    history.attempts.append(Attempt("s0-002", 0, queue_id=0, tag="red"))
    assert broken_laws(history) == []


def test_messages_that_are_delivered_later_are_at_other_offsets() -> None:
    history = sound()
    for kind in (Kind.DELAYED, Kind.TIMED, Kind.COMMITTED):
        history.attempts[2] = Attempt("s0-001", 0, queue_id=0, tag="blue", acked_at=9, kind=kind)
        assert broken_laws(history) == []


def test_a_rolled_back_message_is_not_missed() -> None:
    history = sound()
    aborted = Attempt("s0-002", 0, queue_id=0, tag="red", acked_at=9, kind=Kind.ABORTED)
    history.attempts.append(aborted)
    assert broken_laws(history) == []


def gap(history: History) -> None:
    history.stored[0][2] = history.stored[0][2]._replace(offset=3)


def loss(history: History) -> None:
    del history.stored[0][2]


def stray(history: History) -> None:
    history.attempts[2].acked_at = 1


def repeat(history: History) -> None:
    history.stored[0].append(Stored(3, "s0-001", 0, "blue"))


def abortion(history: History) -> None:
    history.attempts[1].kind = history.attempts[0].kind = Kind.ABORTED


def unacknowledged_commit(history: History) -> None:
    history.attempts[0].kind = Kind.COMMITTED


def haste(history: History) -> None:
    history.attempts[2].due_ms = 1


def invention(history: History) -> None:
    history.stored[0].append(Stored(3, "s9-999", 0, "red"))


def disorder(history: History) -> None:
    history.attempts.append(Attempt("s0-002", 0, queue_id=0, tag="red", acked_at=0))


def skipped(history: History) -> None:
    del history.read[Reader("all", 0)][1]


def given_twice(history: History) -> None:
    given = history.read[Reader("all", 0)]
    given.append(given[-1])


def unwanted(history: History) -> None:
    history.read[Reader("some", 0, "blue")].insert(0, Stored(0, "s0-000", 0, "red"))


def committed_and_missing(history: History) -> None:
    history.attempts[2].kind = Kind.COMMITTED
    del history.stored[0][2]


def passed_over(history: History) -> None:
    history.deliveries.insert(0, delivery("ordered", "s0-001", 0, 2))


def failed_for_good(history: History) -> None:
    history.deliveries[4] = history.deliveries[4]._replace(succeeded=False)


def back(history: History) -> None:
    history.progress.append(Progress("ordered", "orders", 0, 1, 1))


def shorter_log(history: History) -> None:
    history.logs["slave"] = b"one"


def other_log(history: History) -> None:
    history.logs["slave"] = b"one tow"


def other_entries(history: History) -> None:
    history.queues["slave"] = {}


def another_master(history: History) -> None:
    history.reigns.append(Reign(99, ((2, "b"), (3, "a"))))


def another_master_of_an_epoch(history: History) -> None:
    history.reigns.append(Reign(99, ((1, "b"),)))


def other_queue(history: History) -> None:
    history.attempts[2].kind = Kind.DELAYED
    history.attempts[2].queue_id = 1


@pytest.mark.parametrize(
    ("breach", "law"),
    [
        (gap, "gap or repeat"),
        (loss, "lost"),
        (stray, "strayed"),
        (other_queue, "strayed"),
        (repeat, "repeated"),
        (abortion, "aborted"),
        (unacknowledged_commit, "aborted"),
        (haste, "early"),
        (invention, "invented"),
        (disorder, "out of order"),
        (skipped, "misread"),
        (given_twice, "misread"),
        (unwanted, "misread"),
        (committed_and_missing, "uncommitted"),
        (passed_over, "skipped"),
        (failed_for_good, "undelivered"),
        (back, "went back"),
        (shorter_log, "replicas differ"),
        (other_log, "replicas differ"),
        (other_entries, "replicas differ"),
        (another_master, "two masters"),
        (another_master_of_an_epoch, "two masters"),
    ],
)
def test_each_breach_is_found(breach: Callable[[History], None], law: str) -> None:
    history = sound()
    breach(history)
    assert law in LAWS
    assert any(fault.startswith(f"{law}: ") for fault in broken_laws(history))


def test_what_was_lost_with_a_disk_without_being_acknowledged_is_no_breach() -> None:
    history = sound()
    history.promotions = 1
    history.reused = {0}
    for breach in (given_twice, passed_over, failed_for_good, back):
        breach(history)
    assert broken_laws(history) == []


def test_a_promoted_slave_may_deliver_timed_messages_anew() -> None:
    history = sound()
    history.attempts[2] = Attempt("s0-001", 0, queue_id=0, tag="blue", acked_at=9, kind=Kind.TIMED)
    repeat(history)
    history.reused = {0}
    assert any(fault.startswith("repeated: ") for fault in broken_laws(history))
    history.promotions = 1
    assert broken_laws(history) == []


def test_the_masters_that_were_elected_are_counted() -> None:
    assert sound().elections == 2


def test_each_law_is_broken_above() -> None:
    (mark,) = test_each_breach_is_found.pytestmark  # type: ignore[attr-defined]
    assert {law for _, law in mark.args[1]} == LAWS.keys()


def test_faults_noted_during_the_run_come_first() -> None:
    history = sound()
    history.faults.append("no answer: at all")
    loss(history)
    assert broken_laws(history)[0] == "no answer: at all"


def test_the_documents_have_all_laws() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    for name, demand in [*((name, law.demand) for name, law in LAWS.items()), *NOTED.items()]:
        assert f"| `{name}` | {demand} |" in text
