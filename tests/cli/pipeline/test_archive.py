"""``orbitmq pipeline archive`` prints what it added, and writes a page."""

import json
from pathlib import Path

import pytest

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.cli.main import main


@pytest.mark.usefixtures("spark")
def test_lines_json_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, to = tmp_path / "report.html", str(tmp_path / "archive")
    with embedded.start() as cluster:
        asked = ["pipeline", "archive", "--nameserver", cluster.nameserver, "--topic", "orders"]
        asked += ["--to", to]
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            producer.send_many(Message("orders", bytes(1_000)) for _ in range(20))
            assert main([*asked, "--report", str(report)]) == 0
            printed = capsys.readouterr().out
            assert main(asked) == 0
            assert capsys.readouterr().out == "Nothing is new.\n"
            producer.send(Message("orders", b"late"))
        assert main([*asked, "--json", "--compression", "none", "--file-mib", "1"]) == 0
        found = json.loads(capsys.readouterr().out)
    assert all(len(line) <= 80 for line in printed.splitlines() if "Report" not in line)
    assert "Archived   run 1: 20 rows" in printed
    assert (found["run"], found["rows"]) == (2, 1)
    assert "Archive of orders" in report.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch", "0"], "--watch must be more than 0"),
        (["--watch", "--from", "1d"], "--from is for a single run"),
        (["--watch", "5", "--report", "x.html"], "--report is for a single run"),
        (["--compression", "lzo"], "there are zstd"),
    ],
)
def test_arguments_are_checked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "archive", "--topic", "orders", "--to", "x", *words]) == 2
    assert said in capsys.readouterr().err
