"""``orbitmq pipeline settle`` says what it did, and by its exit status whether all is settled."""

import json
from pathlib import Path

import pytest

from orbitmq import embedded
from orbitmq.cli.main import main
from orbitmq.cli.pipeline.settle import settled_lines
from orbitmq.spark.jobs.settle import Settled
from orbitmq.spark.writing.ledger import Ledger, attempt_file
from orbitmq.spark.writing.ledger_files import LedgerFiles
from tests.spark.writing.crashes import Broker, send


def test_lines_json_and_statuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    with embedded.start() as cluster:
        asked = ["pipeline", "settle", "--nameserver", cluster.nameserver, "--ledger", str(ledger)]
        assert main(asked) == 0
        assert "Writes       0 in the ledger" in capsys.readouterr().out
        files = LedgerFiles(str(ledger))
        file = attempt_file(0, "a")
        send(files, Broker(), f"write-1/{file}", range(2))  # which no broker knows
        Ledger(files).write("write-1").decide([file], 2_000)
        assert main([*asked, "--option", "sendTimeoutMs=1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["writes"] == 1
    assert list(found["failed"]) == ["write-1"]


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["pipeline", "settle", "--ledger", str(tmp_path), "--option", "delivery=nonsense"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "delivery is 'nonsense'" in line


def test_all_figures_have_a_line() -> None:
    found = Settled(
        writes=1_234,
        finished=("query-q-1",),
        messages=5_678,
        rolled_back=("write-1/00000-a.halves",),
        open=("write-2",),
        failed={"write-3": "it can't be read"},
        forgotten=7,
        answered={"COMMIT": 3, "UNKNOWN": 1},
    )
    assert list(settled_lines(found)) == [
        "Writes       1,234 in the ledger",
        "Finished     1, which made 5,678 messages visible",
        "Rolled back  1 attempts of tasks, too old to be committed",
        "Forgotten    7 old writes",
        "Answered     3 COMMIT, 1 UNKNOWN",
        "Open         write-2",
        "Failed       write-3: it can't be read",
    ]
