"""The states of a ledger; with crashes: ``test_finishing.py``."""

from pathlib import Path

import pytest

from orbitmq.errors import CommitTooLate, LedgerDamaged
from orbitmq.spark.writing.ledger import (
    Ledger,
    Progress,
    State,
    attempt_file,
    batch_write_name,
    stream_write_name,
)
from orbitmq.spark.writing.ledger_files import LedgerFiles
from tests.spark.writing.crashes import HEAD, Broker, send

NAME = stream_write_name("q", 7)
FILE = attempt_file(0, "a")
OTHER = attempt_file(1, "b")
HOUR_MS = 3_600_000


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(LedgerFiles(str(tmp_path)))
    for file in (FILE, OTHER):
        send(found.files, Broker(), f"{NAME}/{file}", range(2))
    return found


def test_an_attempt_goes_from_open_to_committed(ledger: Ledger) -> None:
    write = ledger.write(NAME)
    assert write.attempts() == [FILE, OTHER]
    assert write.head(FILE) == HEAD
    assert len(list(write.halves(FILE))) == 2
    assert write.state_of(FILE) is State.OPEN
    decision = write.decide([FILE], HEAD.expires_ms - 1)
    assert (decision.state, decision.files) == (State.COMMITTING, (FILE,))
    assert write.state_of(FILE) is State.COMMITTING
    assert write.state_of(OTHER) is State.ABORTED
    assert write.progress() == Progress()
    write.note_progress(Progress(0, 1))
    assert write.progress() == Progress(0, 1)
    write.complete()
    assert write.state_of(FILE) is State.COMMITTED
    write.drop_lists()
    assert write.state_of(FILE) is State.COMMITTED
    assert write.attempts() == []


def test_there_is_one_decision(ledger: Ledger) -> None:
    write = ledger.write(NAME)
    first = write.decide([FILE], 2_000)
    assert write.decide([OTHER], 3_000) == first
    assert write.abort(3_000) == first
    assert not write.give_up(FILE)
    assert write.decide([], HEAD.expires_ms + HOUR_MS) == first  # late, but decided in time


def test_an_abort_holds_against_a_commit(ledger: Ledger) -> None:
    write = ledger.write(NAME)
    aborted = write.abort(2_000)
    assert aborted.state is State.ABORTED
    assert write.decide([FILE], 2_000) == aborted
    assert write.state_of(FILE) is State.ABORTED


def test_a_late_commit_leaves_no_decision(ledger: Ledger) -> None:
    write = ledger.write(NAME)
    with pytest.raises(CommitTooLate, match="query-q-7 began 60 s ago.*transactionTimeout is 60 s"):
        write.decide([FILE], HEAD.expires_ms)
    assert write.decision() is None


def test_an_attempt_that_was_given_up_is_not_committed(ledger: Ledger) -> None:
    write = ledger.write(NAME)
    assert write.give_up(FILE)
    assert write.give_up(FILE)
    assert write.state_of(FILE) is State.ABORTED
    with pytest.raises(CommitTooLate, match=f"was given up: {FILE}"):
        write.decide([FILE], 2_000)
    assert write.decide([OTHER], 2_000).files == (OTHER,)


def test_a_list_that_the_driver_cannot_see_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(LedgerDamaged, match="driver and all executors must reach the same"):
        ledger.write(NAME).decide([attempt_file(9, "c")], 2_000)


def test_a_damaged_decision_is_an_error(ledger: Ledger) -> None:
    ledger.files.create(f"{NAME}/DECISION", b"{}")
    with pytest.raises(LedgerDamaged, match=f"{NAME}/DECISION"):
        ledger.write(NAME).decision()


def test_ended_writes_are_forgotten_when_nobody_asks_any_more(tmp_path: Path) -> None:
    ledger = Ledger(LedgerFiles(str(tmp_path)))
    names = [stream_write_name("q", batch) for batch in (8, 9, 10, 11)]
    names += [batch_write_name("1"), batch_write_name("2"), batch_write_name("3")]
    for name in names:
        send(ledger.files, Broker(), f"{name}/{FILE}", range(2))
    for name in names[:5]:
        ledger.write(name).decide([FILE], 2_000)
        ledger.write(name).complete()
    ledger.write(names[5]).abort(2_000)  # and the last one is open
    ledger.files.create("notes/x", b"of somebody else")
    soon = HEAD.expires_ms + HOUR_MS - 1
    assert ledger.forget(soon) == 0
    assert ledger.forget(soon + 1) == 4
    assert [write.name for write in ledger.writes()] == sorted([names[2], names[3], names[6]])
    assert ledger.files.names("notes") == ["x"]


def test_a_decision_that_is_not_delivered_is_never_forgotten(ledger: Ledger) -> None:
    for batch in (8, 9):
        send(ledger.files, Broker(), f"{stream_write_name('q', batch)}/{FILE}", range(1))
    ledger.write(NAME).decide([FILE], 2_000)
    assert ledger.forget(10**15) == 0
