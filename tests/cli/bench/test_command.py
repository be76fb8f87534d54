"""Load on a small cluster: what is sent is stored, and what is stored is read."""

import json
import re
import signal
import subprocess
import sys

import pytest

from orbitmq.blocking import Admin
from orbitmq.cli.main import main
from tests.interop.waiting import until

pytestmark = pytest.mark.usefixtures("nameserver")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["bench", *arguments]) == status
    return capsys.readouterr().out


def test_what_is_sent_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "create", "load"]) == 0
    capsys.readouterr()
    load = ("--count", "300", "--size", "100", "--in-flight", "8")
    sent = json.loads(printed(capsys, "send", "load", *load, "--json"))
    assert (sent["topic"], sent["messages"], sent["bytes"]) == ("load", 300, 30_000)
    assert set(sent["latency_ms"]) == {"p50", "p90", "p99", "p999", "max"}
    read = json.loads(printed(capsys, "consume", "load", "--json"))
    assert (read["messages"], read["bytes"], read["latency_ms"]) == (300, 30_000, {})
    assert printed(capsys, "consume", "load", "--count", "10").startswith("Received   ")


def test_new_messages_until_the_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "create", "quiet"]) == 0
    capsys.readouterr()
    arguments = ("consume", "quiet", "--from", "end", "--seconds", "0.2", "--json")
    assert json.loads(printed(capsys, *arguments, status=1))["messages"] == 0


def test_both_at_once_through_a_topic_that_is_gone_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(printed(capsys, "broker", "--count", "200", "--queues", "2", "--json"))
    assert (found["sent"]["messages"], found["received"]["messages"]) == (200, 200)
    assert found["received"]["latency_ms"]["max"] >= 0
    assert main(["topic", "list"]) == 0
    assert "orbitmq-bench" not in capsys.readouterr().out


def test_an_interrupt_ends_it_with_the_figures(cluster: str) -> None:
    assert main(["topic", "create", "interrupted"]) == 0
    command = [sys.executable, "-m", "orbitmq", "bench", "send", "interrupted", "--seconds", "600"]
    with (
        Admin() as admin,
        subprocess.Popen(
            [*command, "--rate", "100", "--nameserver", cluster],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as load,
    ):
        until(lambda: admin.topic_stats("interrupted").messages > 0, what="a message is stored")
        load.send_signal(signal.SIGINT)
        printed, errors = load.communicate()
    assert (load.returncode, errors) == (130, "")
    assert re.match(r"Sent +[1-9]\d* messages in .*\nRate ", printed)


def test_a_load_of_which_nothing_arrives_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = ["--count", "5", "--nameserver", "127.0.0.1:1"]
    assert main(["bench", "send", "load", *nowhere]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no nameserver answers: no connection to 127.0.0.1:1" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["send", "load", "--in-flight", "0"], "--in-flight is 0; it must be from 1 to 1000"),
        (["send", "load", "--size", "0"], "--size is 0; it must be more than 0"),
        (["send", "load", "--rate", "-1"], "--rate is -1; it must be 0 or more"),
        (["send", "load", "--seconds", "nan"], "--seconds is nan; it must be more than 0"),
        (["broker", "--queues", "5000"], "--queues is 5000; it must be from 1 to 1024"),
        (["consume", "no-such-topic"], "no-such-topic"),
        (["send", "load", "--nameserver", "127.0.0.1:1"], "no nameserver answers"),
    ],
)
def test_what_is_wrong_takes_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
