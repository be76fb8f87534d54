"""``orbitmq pipeline replay`` counts, sends, and goes on where it was."""

import json
from pathlib import Path

import pytest

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.cli.main import main


@pytest.mark.usefixtures("spark")
def test_a_dry_run_and_two_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with embedded.start() as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            producer.send_many(Message("orders", b"x", tags="paid") for _ in range(20))
            producer.send_many(Message("orders", b"x") for _ in range(5))
        asked = ["pipeline", "replay", "--nameserver", cluster.nameserver, "--topic", "orders"]
        asked += ["--to-topic", "again", "--where", "tags = 'paid'"]
        assert main([*asked, "--dry-run"]) == 0
        dry = capsys.readouterr().out
        assert main([*asked, "--rate", "1000", "--rate-mib", "5"]) == 0
        real = capsys.readouterr().out
        assert main([*asked, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["messages"] == 0
        assert main([*asked[:-1], "tags = 'late'"]) == 2
        assert "another replay" in capsys.readouterr().err
        assert len(cluster.messages("again")) == 20
    assert dry.startswith("To send    20 messages of 1 queues\n")
    assert real.startswith("Sent       20 messages, ")
    assert all(len(line) <= 80 for line in (dry + real).splitlines())
    assert (tmp_path / "orbitmq-replays" / "again" / "replay.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--archive", "a", "--store", "b"], "--archive or --store"),
        (["--archive", "a", "--option", "tls=true"], "--archive or --option"),
        (["--topic", "a", "--rate", "0"], "more than 0"),
        ([], "--topic"),
    ],
)
def test_arguments_are_checked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "replay", "--to-topic", "again", *words]) == 2
    assert said in capsys.readouterr().err
