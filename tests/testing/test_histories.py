from collections.abc import Callable

import pytest

from orbitmq.testing.histories import Attempt, History, Kind, Reader, Stored, broken_laws


def sound() -> History:
    """A run in which all was well: of three attempts at two messages one has no answer."""
    return History(
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
    ],
)
def test_each_breach_is_found(breach: Callable[[History], None], law: str) -> None:
    history = sound()
    breach(history)
    assert any(fault.startswith(law) for fault in broken_laws(history))


def test_faults_noted_during_the_run_come_first() -> None:
    history = sound()
    history.faults.append("no response, although nothing was lost")
    loss(history)
    assert broken_laws(history)[0] == "no response, although nothing was lost"
