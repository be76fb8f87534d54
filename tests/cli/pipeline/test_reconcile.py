"""``orbitmq pipeline reconcile`` says whether all that was sent is stored."""

import json
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from tests.cli.outboxes import message, outbox_file
from tests.store.golden import unpack


@pytest.mark.usefixtures("spark")
def test_a_store_against_receipts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = unpack("normal", tmp_path / "store")
    sends = golden.manifest["sends"]
    receipts = tmp_path / "receipts.csv"
    rows = [
        f"{one['topic']},{one['msgId']},2026-11-15T10:00:00Z,{one['queueId']},{one['queueOffset']}"
        for one in sends
    ]
    heads = "topic,message_id,sent_at,queue_id,queue_offset"
    receipts.write_text("\n".join([heads, *rows]))
    page = tmp_path / "report.html"
    asked = ["pipeline", "reconcile", "--store", str(golden.root), "--receipts", str(receipts)]
    forever = ["--late", "99999999"]
    assert main([*asked, *forever, "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "Equal." in printed.splitlines()
    assert all(len(line) <= 80 for line in printed.splitlines() if "Report" not in line)
    assert "equal" in page.read_text()
    kept = outbox_file(tmp_path, message(sends[0]["topic"], b"kept"))
    more = [f"{sends[0]['topic']},LOST,1794735000000,,", "all-lost,LOST,1794735000000,,"]
    receipts.write_text("\n".join([heads, *rows, *more]))
    assert main([*asked, *forever, "--outbox", str(kept), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["differences"]) == (False, 2)
    counts = {topic["topic"]: topic["counts"] for topic in found["topics"]}[sends[0]["topic"]]
    assert (counts["lost"], counts["waiting"]) == (1, 1)


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["--topic", "orders"], "nothing says what was sent"),
        (["--traces"], "give a --topic"),
        (["--traces", "--archive", "a", "--store", "b"], "give --archive without"),
        (["--traces", "--outbox", str(tmp_path / "no")], "No such file"),
    ):
        assert main(["pipeline", "reconcile", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert text in line
