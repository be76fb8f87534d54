"""What ``settle`` does to a ledger, with a broker by script; with a real one: the job's test."""

from collections import Counter
from pathlib import Path

from orbitmq.spark.writing.ledger import Ledger, State, attempt_file
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.settling import ledger_options, settle_ledger
from tests.spark.writing.crashes import HEAD, Broker, send

FILE = attempt_file(0, "a")
MINUTE_MS = 60_000


def begun(tmp_path: Path, *names: str) -> tuple[Ledger, Broker]:
    ledger, broker = Ledger(LedgerFiles(str(tmp_path))), Broker()
    for number, name in enumerate(names):
        send(ledger.files, broker, f"{name}/{FILE}", [number])
    return ledger, broker


def test_what_is_decided_is_finished_and_the_rest_left_to_its_driver(tmp_path: Path) -> None:
    ledger, broker = begun(tmp_path, "query-q-1", "query-q-2", "query-q-3")
    ledger.write("query-q-1").decide([FILE], 2_000)
    ledger.write("query-q-2").abort(2_000)
    shown: list[tuple[int, int]] = []
    found = settle_ledger(ledger, broker, 3_000, lambda *now: shown.append(now))
    assert (found.writes, found.finished, found.messages) == (3, ("query-q-1",), 1)
    assert (found.rolled_back, found.open, found.failed) == ((), ("query-q-3",), {})
    assert not found.is_settled
    assert shown == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert broker.delivered == Counter([0])
    assert [broker.row_of[one] for one in broker.open] == [2]
    again = settle_ledger(ledger, broker, 3_000)
    assert (again.finished, again.messages, again.open) == ((), 0, ("query-q-3",))
    assert broker.delivered == Counter([0])


def test_what_can_no_longer_be_committed_is_rolled_back(tmp_path: Path) -> None:
    ledger, broker = begun(tmp_path, "query-q-1", "write-1")
    over = HEAD.expires_ms + MINUTE_MS
    assert len(settle_ledger(ledger, broker, over - 1).open) == 2
    found = settle_ledger(ledger, broker, over)
    assert found.rolled_back == (f"query-q-1/{FILE}", f"write-1/{FILE}")
    assert found.is_settled
    assert broker.open == {}
    assert not broker.delivered.total()
    assert ledger.write("query-q-1").decision() is None  # the query may repeat the batch
    decision = ledger.write("write-1").decision()
    assert decision is not None
    assert decision.state is State.ABORTED
    assert settle_ledger(ledger, broker, over).is_settled


def test_one_failure_stops_no_other_write(tmp_path: Path) -> None:
    ledger, broker = begun(tmp_path, "query-q-1", "query-q-2")
    for name in ("query-q-1", "query-q-2"):
        ledger.write(name).decide([FILE], 2_000)
    ledger.files.delete(f"query-q-1/{FILE}")
    found = settle_ledger(ledger, broker, 3_000)
    assert list(found.failed) == ["query-q-1"]
    assert found.finished == ("query-q-2",)
    assert not found.is_settled
    broker.is_down = True
    send(ledger.files, broker, f"query-q-3/{FILE}", [3])
    ledger.write("query-q-3").decide([FILE], 2_000)
    failed = settle_ledger(ledger, broker, 3_000).failed
    assert "run 'orbitmq pipeline settle --ledger" in failed["query-q-3"]


def test_the_group_is_that_of_the_write(tmp_path: Path) -> None:
    here = str(tmp_path)
    assert ledger_options(here, "ns:9876", {}).group == ledger_options(here, "x:1", {}).group
    assert ledger_options(here, "ns:9876", {}).group != ledger_options("/x", "ns:9876", {}).group
    assert ledger_options(here, "ns:9876", {"groupId": "etl"}).group == "etl"
