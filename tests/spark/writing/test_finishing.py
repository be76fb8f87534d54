"""The protocol of the ledger, with a crash between any two of its steps; without Spark."""

from collections import Counter
from pathlib import Path

import pytest

from orbitmq.blocking import TransactionState
from orbitmq.errors import CommitIncomplete, LedgerDamaged
from orbitmq.spark.locations import location
from orbitmq.spark.writing.check_answers import CheckAnswers
from orbitmq.spark.writing.finishing import clean_up, finish, give_up
from orbitmq.spark.writing.ledger import Ledger, LedgerWrite, State, attempt_file
from orbitmq.spark.writing.ledger_files import LedgerFiles
from tests.spark.writing.crashes import Broker, Crash, CrashingFiles, Steps, half_message, send

NAME = "query-q-7"
NOW_MS = 2_000
WINDOW = 2
TASKS = ((0, 1, 2, 3), (4, 5, 6))
ROWS = Counter(dict.fromkeys(range(7), 1))


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes crash here, disks don't; thousands of syncs would take a minute."""
    monkeypatch.setattr(location, "_sync", lambda _path: None)


def run_batch(files: LedgerFiles, broker: Broker, attempt: str) -> None:
    """Do what Spark does for a batch, and again after a restart."""
    write = Ledger(files).write(NAME)
    names = []
    if write.decision() is None:
        for partition, rows in enumerate(TASKS):
            name = attempt_file(partition, attempt)
            send(files, broker, write.path(name), rows)
            names.append(name)
    write.decide(names, NOW_MS)
    finish(write, broker, window=WINDOW)


def crashed(directory: Path, broker: Broker, attempt: str, at: int) -> bool:
    """Run a batch until it crashes at a step; return False if it ended before."""
    broker.steps = Steps(at)
    try:
        run_batch(CrashingFiles(directory, broker.steps), broker, attempt)
    except Crash:
        return True
    return False


def restart(directory: Path, broker: Broker) -> LedgerWrite:
    broker.steps = Steps()
    files = LedgerFiles(str(directory))
    run_batch(files, broker, "last")
    return Ledger(files).write(NAME)


def answer_checks(directory: Path, broker: Broker) -> None:
    """Ask about all open halves, as brokers do, and do as the answers say."""
    answers = CheckAnswers(Ledger(LedgerFiles(str(directory))))
    for message_id, half in list(broker.open.items()):
        state = answers(half)
        if state is not TransactionState.UNKNOWN:
            broker.end(message_id, is_commit=state is TransactionState.COMMIT)


def check_ended(directory: Path, broker: Broker, write: LedgerWrite) -> None:
    assert broker.delivered == ROWS
    assert write.is_committed()
    assert write.attempts() == []
    answer_checks(directory, broker)
    assert broker.open == {}
    assert broker.delivered == ROWS


@pytest.mark.parametrize("checks", [False, True], ids=["silent", "asking"])
def test_a_crash_at_any_step_loses_nothing_and_delivers_nothing_twice(
    tmp_path: Path, *, checks: bool
) -> None:
    at, went_on = 0, True
    while went_on:
        at += 1
        directory, broker = tmp_path / str(at), Broker()
        went_on = crashed(directory, broker, "first", at)
        assert broker.delivered <= ROWS
        if checks:
            answer_checks(directory, broker)
        write = restart(directory, broker)
        check_ended(directory, broker, write)
    assert at > 50  # so many steps were tried


def test_two_crashes_at_any_steps(tmp_path: Path) -> None:
    # Every third, of all pairs of steps.
    for number, pair in enumerate((one, two) for one in range(1, 60, 3) for two in range(1, 60, 3)):
        directory, broker = tmp_path / str(number), Broker()
        crashed(directory, broker, "first", pair[0])
        crashed(directory, broker, "second", pair[1])
        check_ended(directory, broker, restart(directory, broker))


def test_a_broker_that_forgets_repeats_at_most_one_window(tmp_path: Path) -> None:
    worst, at, went_on = 0, 0, True
    while went_on:
        at += 1
        directory, broker = tmp_path / str(at), Broker(forgets=True)
        went_on = crashed(directory, broker, "first", at)
        restart(directory, broker)
        assert set(broker.delivered) == set(ROWS)
        assert max(broker.delivered.values()) <= 2
        worst = max(worst, broker.delivered.total() - ROWS.total())
        answer_checks(directory, broker)  # these add nothing
        assert broker.delivered.total() - ROWS.total() <= WINDOW
    assert worst == WINDOW


def test_what_is_delivered_is_not_committed_again_by_a_check(tmp_path: Path) -> None:
    directory, broker = tmp_path, Broker(forgets=True)
    files = LedgerFiles(str(directory))
    write = Ledger(files).write(NAME)
    name = attempt_file(0, "a")
    send(files, broker, write.path(name), range(5))
    halves = list(broker.open.items())
    answers = CheckAnswers(Ledger(files))
    assert answers(halves[0][1]) is TransactionState.UNKNOWN
    write.decide([name], NOW_MS)
    assert answers(halves[0][1]) is TransactionState.COMMIT

    def stop_after(count: int) -> None:
        broker.is_down = True

    with pytest.raises(CommitIncomplete, match="2 transactions and those after them are left"):
        finish(write, broker, window=2, progress=stop_after)
    states = [answers(half) for _, half in halves]
    assert states == [TransactionState.ROLLBACK] * 2 + [TransactionState.COMMIT] * 3
    stray = half_message("F" * 32, write.path(name))  # its send was repeated under another id
    assert answers(stray) is TransactionState.ROLLBACK
    broker.is_down = False
    assert finish(write, broker, window=2) == 3
    assert {answers(half) for _, half in halves} == {TransactionState.ROLLBACK}
    assert answers.given.total() == 1 + 1 + 5 + 1 + 5


def test_nothing_of_an_aborted_write_is_delivered(tmp_path: Path) -> None:
    broker, files = Broker(), LedgerFiles(str(tmp_path))
    write = Ledger(files).write("write-1")
    send(files, broker, write.path(attempt_file(0, "a")), range(3))
    lost = broker.prepare(9, write.path(attempt_file(1, "killed")))  # its task has no list
    decision = write.abort(NOW_MS)
    assert decision.state is State.ABORTED
    clean_up(write, decision, broker)
    assert list(broker.open) == [lost.message_id]
    answer_checks(tmp_path, broker)
    assert broker.open == {}
    assert not broker.delivered.total()
    assert write.decide([attempt_file(0, "a")], NOW_MS).state is State.ABORTED


def test_an_abort_does_nothing_once_a_commit_stands(tmp_path: Path) -> None:
    broker, files = Broker(), LedgerFiles(str(tmp_path))
    write, name = Ledger(files).write("write-1"), attempt_file(0, "a")
    send(files, broker, write.path(name), range(3))
    write.decide([name], NOW_MS)
    assert write.abort(NOW_MS).state is State.COMMITTING
    give_up(write, [name], broker)
    assert len(broker.open) == 3
    assert finish(write, broker) == 3
    assert broker.delivered == Counter(range(3))


def test_an_attempt_that_was_given_up_is_rolled_back_by_checks_too(tmp_path: Path) -> None:
    broker, files = Broker(), LedgerFiles(str(tmp_path))
    write, name = Ledger(files).write(NAME), attempt_file(0, "a")
    send(files, broker, write.path(name), range(3))
    broker.is_down = True
    give_up(write, [name], broker)
    assert write.decision() is None  # the batch will be replayed
    assert write.attempts() == []
    answer_checks(tmp_path, broker)
    assert broker.open == {}
    assert not broker.delivered.total()


def test_a_committed_list_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    broker, files = Broker(), LedgerFiles(str(tmp_path))
    write, name = Ledger(files).write(NAME), attempt_file(0, "a")
    send(files, broker, write.path(name), range(3))
    write.decide([name], NOW_MS)
    files.delete(write.path(name))
    with pytest.raises(LedgerDamaged, match=name):
        finish(write, broker)


def test_two_may_finish_the_same_write(tmp_path: Path) -> None:
    broker, files = Broker(), LedgerFiles(str(tmp_path))
    write, names = Ledger(files).write(NAME), [attempt_file(n, "a") for n in range(3)]
    for number, name in enumerate(names):
        send(files, broker, write.path(name), [number])
    write.decide(names, NOW_MS)

    def the_other_is_faster(_count: int) -> None:
        if not write.is_committed():
            finish(Ledger(files).write(NAME), broker)

    finish(write, broker, progress=the_other_is_faster)
    assert broker.delivered == Counter(range(3))
    assert write.attempts() == []


def test_an_undecided_write_is_not_finished(tmp_path: Path) -> None:
    files = LedgerFiles(str(tmp_path))
    assert finish(Ledger(files).write(NAME), Broker()) == 0
    assert files.names() == []
