"""The outbox from a shell: what is left in it, and sending that."""

import json
import sys
from pathlib import Path

import pytest

from orbitmq.cli.commands.outbox import contents_lines
from orbitmq.cli.main import main
from orbitmq.client.producer.outbox.file import Contents, OutboxFile
from orbitmq.client.producer.outbox.ledger import Entry
from tests.cli.outboxes import KEPT_MS, REASON, message, outbox_file
from tests.cli.terminal import Terminal, utc

SHOWN = """\
Outbox     FILE
Messages   2 waiting, 1 refused
File       938 B

Waiting:
NUMBER  KEPT            TOPIC   SIZE  REASON
1       11-15 10:42:09  orders  4 B   3 tries failed, the last one on broker-a:…
2       11-15 10:42:09  orders  12 B  3 tries failed, the last one on broker-a:…

Refused:
NUMBER  KEPT            TOPIC  SIZE  REASON
3       11-15 10:42:09  audit  3 B   NO_PERMISSION: the topic is read-only
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    kept = [message("orders", b"paid"), message("orders", b"paid as well", 2)]
    refused = message("audit", b"log", 3)
    return outbox_file(tmp_path, *kept, refused, refused="NO_PERMISSION: the topic is read-only")


def test_its_messages(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with utc():
        assert main(["outbox", "show", path]) == 1
    shown = capsys.readouterr().out.replace(path, "FILE")
    assert shown == SHOWN
    assert max(map(len, shown.splitlines())) <= 80


def test_its_messages_as_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", "show", path, "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [one["sequence"] for one in shown["waiting"]] == [1, 2]
    assert shown["waiting"][0]["reason"] == REASON
    assert shown["refused"][0]["topic"] == "audit"


def test_an_empty_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", "show", outbox_file(tmp_path)]) == 0
    assert "Messages   0 waiting, 0 refused" in capsys.readouterr().out


def test_a_long_list_is_cut_and_damage_is_shown() -> None:
    entries = tuple(
        Entry(number, 300, f"#{number}", "billing" * 20, "", KEPT_MS, 10**6, "because\n" * 20)
        for number in range(1, 54)
    )
    contents = Contents(entries, (), 54, 10**6, 17, 2)
    lines = list(contents_lines("FILE", contents))
    assert lines[-1] == "… and 3 more; --json shows all"
    assert "Torn       17 B at the end, left by a crash" in lines
    assert "DAMAGED    can't be read in 2 places" in lines
    assert max(map(len, lines)) == 80


def test_it_is_drained(path: str, nameserver: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "create", "orders"]) == 0
    capsys.readouterr()
    assert main(["outbox", "drain", path, "--nameserver", nameserver]) == 1
    summary, *reasons = capsys.readouterr().out.splitlines()
    assert summary == "2 sent, 0 left, 1 refused"
    assert reasons[:2] == ["", "Refused:"]
    assert reasons[-1].endswith("NO_PERMISSION: the topic is read-only")
    assert main(["message", "view", "orders", f"{message('x', b'x', 2).message_id}"]) == 0
    assert capsys.readouterr().out.endswith("\n  paid as well\n")
    assert main(["outbox", "drain", path, "--refused", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "sent": 1,
        "left": 0,
        "refused": 0,
        "left_messages": [],
        "refused_messages": [],
    }
    assert main(["outbox", "show", path]) == 0


def test_a_terminal_shows_the_progress(
    path: str, nameserver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["outbox", "drain", path, "--nameserver", nameserver]) == 1
    assert terminal.getvalue().endswith("\r2 sent, 0 left\x1b[K\r\x1b[K")


def test_no_broker_takes_it(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    drain = ("outbox", "drain", path, "--wait", "1", "--nameserver", "127.0.0.1:1")
    assert main(drain) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("0 sent, 2 left, 1 refused\n\nLeft:\n")
    assert max(map(len, printed.splitlines())) <= 80
    assert main([*drain, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["topic"] for one in found["left_messages"]] == ["orders", "orders"]
    assert found["refused_messages"][0]["reason"]


def test_its_producer_runs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    used = OutboxFile(path)
    used.open()
    try:
        assert main(["outbox", "show", path]) == 1
        assert main(["outbox", "drain", path]) == 2
    finally:
        used.close()
    assert f"{path}.lock" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "drain"])
def test_a_mistyped_path_makes_no_outbox(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["outbox", command, str(tmp_path / "mistyped")]) == 2
    assert capsys.readouterr().err.endswith("mistyped: No such file or directory\n")
    assert list(tmp_path.iterdir()) == []


def test_a_time_out_of_range(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", "drain", path, "--wait", "0"]) == 2
    assert "--wait is 0; it must be from 1 to 86400 seconds" in capsys.readouterr().err
