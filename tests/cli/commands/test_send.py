"""Sending from a shell: one message, or the lines of standard input."""

import argparse
import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.cli.commands.send import (
    Rate,
    add_arguments,
    message_of,
    receipt_lines,
    total_line,
)
from orbitmq.cli.main import main
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from tests.cli.terminal import Terminal, on_a_terminal

LESS_SAFE = SendReceipt(
    status=SendStatus.FLUSH_DISK_TIMEOUT,
    message_id="0A0000072A9F5F4A0E124CBB7EE10000",
    offset_message_id="",
    queue=MessageQueue("orders", "broker-a", 3),
    queue_offset=1_234_567,
)


def send_lines(text: bytes, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "orbitmq.cli.main", "send", *arguments]
    return subprocess.run(command, input=text, capture_output=True, check=False)


def bodies(topic: str, key: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["message", "query", topic, key, "--json"]) == 0
    return sorted(one["body"] for one in json.loads(capsys.readouterr().out))


class TestOneMessage:
    pytestmark = pytest.mark.usefixtures("nameserver")

    def test_what_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["send", "one-message", "paid"]) == 0
        shown = capsys.readouterr().out
        assert re.fullmatch(
            r"Message    [0-9A-F]{32}\nStatus     SEND_OK\nQueue      broker-a/\d, offset 0\n",
            shown,
        )

    def test_all_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        options = ["--tags", "paid", "--keys", "a-1 a-2", "--property", "colour=blue"]
        options += ["--property", "formula=a=b", "--sharding-key", "o-42"]
        assert main(["topic", "create", "with-options"]) == 0
        capsys.readouterr()
        assert main(["send", "with-options", "total: 5 \N{EURO SIGN}", *options, "--json"]) == 0
        receipt = json.loads(capsys.readouterr().out)
        assert receipt["status"] == "SEND_OK"
        assert main(["message", "view", "with-options", receipt["message_id"], "--json"]) == 0
        stored = json.loads(capsys.readouterr().out)
        assert (stored["body"], stored["tags"]) == ("total: 5 \N{EURO SIGN}", "paid")
        assert stored["keys"] == ["a-1", "a-2"]
        assert {
            "colour": "blue",
            "formula": "a=b",
            "__SHARDINGKEY": "o-42",
        }.items() <= stored["properties"].items()

    def test_a_file_a_queue_and_a_header(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "body").write_bytes(b"two\nlines\xff")
        assert main(["topic", "create", "from-files", "--queues", "4"]) == 0
        capsys.readouterr()
        options = ["-f", str(tmp_path / "body"), "--queue", "broker-a/2", "-H", "colour=blue"]
        assert main(["send", "from-files", *options, "--json"]) == 0
        receipt = json.loads(capsys.readouterr().out)
        assert (receipt["topic"], receipt["queue_id"]) == ("from-files", 2)
        assert main(["message", "view", "from-files", receipt["message_id"], "--json"]) == 0
        stored = json.loads(capsys.readouterr().out)
        assert base64.b64decode(stored["body_base64"]) == b"two\nlines\xff"
        assert stored["properties"]["colour"] == "blue"

    @pytest.mark.parametrize("queue", ["broker-b/0", "broker-a/4"])
    def test_a_queue_that_the_topic_lacks(
        self, queue: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["topic", "create", "of-four", "--queues", "4"]) == 0
        capsys.readouterr()
        said = f"orbitmq: topic of-four has no queue {queue} to write to; name one as broker-a/0\n"
        assert main(["send", "of-four", "x", "--queue", queue]) == 2
        assert capsys.readouterr().err == said
        lines = send_lines(b"1\n2\n", "of-four", "--queue", queue)
        assert (lines.returncode, lines.stderr.decode()) == (2, said)

    def test_a_body_from_standard_input(self, capsys: pytest.CaptureFixture[str]) -> None:
        sent = send_lines(b"two\nlines", "from-input", "--file", "-", "--json")
        assert sent.returncode == 0
        assert main(["message", "view", "from-input", json.loads(sent.stdout)["message_id"]]) == 0
        assert "two\n  lines" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "properties"),
        [
            (["--delay", "30m"], {"TIMER_DELAY_MS": "1800000"}),
            (["--deliver-at", "2020-11-15T09:30+00:00"], {"TIMER_DELIVER_MS": "1605432600000"}),
            (["--delay-level", "3"], {"DELAY": "3"}),
        ],
    )
    def test_a_message_for_later(self, arguments: list[str], properties: dict[str, str]) -> None:
        of_command = argparse.ArgumentParser()
        add_arguments(of_command)
        message = message_of(of_command.parse_args(["later", *arguments]), b"paid")
        assert properties.items() <= message.wire_properties().items()

    def test_it_arrives_later(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topic", "create", "later"]) == 0
        assert main(["send", "later", "paid", "--delay", "1s"]) == 0
        assert "offset" not in capsys.readouterr().out  # it has none in its topic yet
        assert main(["consume", "later", "--from", "beginning", "--count", "1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["body"] == "paid"
        assert found["store_timestamp_ms"] - found["born_timestamp_ms"] >= 1_000

    @pytest.mark.parametrize(
        ("arguments", "body"),
        [
            (["late", "--tags", "t"], "late"),
            (["--tags", "t", "late"], "late"),
            (["--tags", "t", "--", "--late"], "--late"),
            (["--", "--late"], "--late"),
        ],
    )
    def test_the_body_may_come_before_or_after_options(
        self, arguments: list[str], body: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["topic", "create", "anywhere"]) == 0
        capsys.readouterr()
        assert main(["send", "anywhere", "--json", *arguments]) == 0
        message_id = json.loads(capsys.readouterr().out)["message_id"]
        assert main(["message", "view", "anywhere", message_id, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["body"] == body

    @pytest.mark.parametrize(
        "arguments", [["a", "b"], ["a", "--tags", "t", "b"], ["--tgas"], ["--tags", "t", "a", "b"]]
    )
    def test_unknown_arguments(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["send", "orders", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("orbitmq: unrecognized arguments: ")
        assert ("in quotes" in error) == (not arguments[-1].startswith("-"))
        assert error.lower().endswith(" see orbitmq send --help\n")

    def test_keys_are_one_argument(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["send", "orders", "--keys", "a", "b", "c"]) == 2
        told = capsys.readouterr().err
        assert told.startswith(
            "orbitmq: unrecognized arguments: b c; several keys are one argument: --keys 'a b'; see"
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["bad topic", "x"], "topic 'bad topic' holds ' '"),
            (["orders", "x", "--delay", "soon"], "'soon' is not a duration; write it as 30s"),
            (["orders", "x", "--queue", "3"], "'3' is not a queue; write it as BROKER/ID"),
            (["orders", "x", "--queue", "b/3", "--sharding-key", "k"], "leave one out"),
            (["orders", "x", "--file", "body"], "BODY and --file are both given; leave one out"),
            (
                ["orders", "--file", "/no/such/file"],
                "--file /no/such/file can't be read: No such file",
            ),
            (["orders", "x", "--delay", "1s", "--delay-level", "1"], "not allowed with argument"),
            (["orders", ""], "body is empty"),
            (["orders", "x", "--property", "colour"], "--property 'colour' is not KEY=VALUE"),
            (["orders", "x", "--group", "bad group"], "group"),
        ],
    )
    def test_invalid_messages(
        self, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["send", *arguments]) == 2
        options = capsys.readouterr()
        assert options.out == ""
        assert words in options.err
        assert options.err.count("\n") == 1

    def test_a_message_stored_but_not_flushed_in_time(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def send(*_: object, **__: object) -> SendReceipt:
            return LESS_SAFE

        monkeypatch.setattr("orbitmq.client.producer.producer.Producer.send", send)
        assert main(["send", "orders", "paid"]) == 1
        assert "Status     FLUSH_DISK_TIMEOUT\n" in capsys.readouterr().out


class TestLines:
    pytestmark = pytest.mark.usefixtures("nameserver")

    def test_one_message_for_each(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topic", "create", "lines"]) == 0
        capsys.readouterr()
        sent = send_lines(b"one\n\ntwo\r\nthree", "lines", "-", "--keys", "l-1")
        assert (sent.returncode, sent.stderr) == (0, b"")
        assert sent.stdout.startswith(b"3 messages sent to lines")
        assert bodies("lines", "l-1", capsys) == ["one", "three", "two"]

    def test_more_than_are_sent_at_once(self) -> None:
        text = b"".join(b"%d\n" % number for number in range(1500))
        sent = send_lines(text, "many-lines", "--json")
        receipts = [json.loads(line) for line in sent.stdout.splitlines()]
        assert sent.returncode == 0
        places = {(one["queue_id"], one["queue_offset"]) for one in receipts}
        assert len(places) == len(receipts) == 1500
        assert {queue for queue, _ in places} == {0, 1, 2, 3}

    def test_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "input"
        path.write_text("from a file\n")
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert main(["send", "from-a-file"]) == 0
        assert capsys.readouterr().out == "1 message sent to from-a-file\n"

    def test_a_terminal_says_how_lines_are_sent(self) -> None:
        with on_a_terminal("send", "typed") as command:
            command.shown("each line is a message; ^D ends")
            command.type("first\nsecond\n\x04")
            assert command.process.stdout is not None
            assert command.process.stdout.read().startswith(b"2 messages sent to typed")
            assert command.process.wait(timeout=60) == 0

    def test_a_line_that_no_broker_takes_ends_it(self) -> None:
        options = (
            "--json",
            "--set",
            "maxMessageSize=1024",
            "--set",
            "compressMsgBodyOverHowmuch=1024",
        )
        sent = send_lines(b"small\n" + b"x" * 1025 + b"\nsmall too\n", "too-large", *options)
        assert sent.returncode == 2
        assert len(sent.stdout.splitlines()) == 2  # those in flight with it
        assert json.loads(sent.stderr)["message"].startswith(
            "line 2 could not be sent, and lines after 3 were not tried: "
        )
        assert sent.stderr.count(b"\n") == 1

    def test_lines_of_a_key_go_one_by_one(self) -> None:
        options = ["--sharding-key", "o-42", "--json", "--set", "maxMessageSize=1024"]
        options += ["--set", "compressMsgBodyOverHowmuch=1024"]
        sent = send_lines(b"small\n" + b"x" * 1025 + b"\nsmall too\n", "one-by-one", *options)
        assert sent.returncode == 2
        assert len(sent.stdout.splitlines()) == 1
        assert b"line 2 could not be sent, and lines after 2 were not tried: " in sent.stderr

    def test_no_cluster_at_all(self) -> None:
        sent = send_lines(b"a\nb\n", "orders", "--nameserver", "127.0.0.1:1")
        assert (sent.returncode, sent.stdout) == (2, b"0 messages sent to orders\n")
        assert (
            b"line 1 and 1 more could not be sent, and lines after 2 were not tried: "
            in sent.stderr
        )
        assert sent.stderr.count(b"\n") == 1

    def test_a_reader_that_has_seen_enough(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as closed:
            finished = subprocess.run(
                [sys.executable, "-m", "orbitmq.cli.main", "send", "orders", "--json"],
                input=b"one\n",
                stdout=closed,
                stderr=subprocess.PIPE,
                check=False,
            )
        assert (finished.stderr, finished.returncode) == (b"", 141)

    def test_input_that_is_closed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        assert main(["send", "orders"]) == 2
        assert "standard input is closed" in capsys.readouterr().err


def test_a_receipt() -> None:
    assert list(receipt_lines(LESS_SAFE)) == [
        "Message    0A0000072A9F5F4A0E124CBB7EE10000",
        "Status     FLUSH_DISK_TIMEOUT",
        "Queue      broker-a/3, offset 1,234,567",
    ]
    assert list(receipt_lines(LESS_SAFE, has_place=False))[2] == "Queue      broker-a/3"


def test_the_total_fits_a_terminal() -> None:
    line = total_line(123_456_789, "%RETRY%" + "billing" * 20, 3_600_000)
    shown = "%RETRY%bi…gbilling in 3,600.0 s, 34,293 per second"
    assert line == f"123,456,789 messages sent to {shown}"
    assert len(line) <= 80


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


def test_the_rate_is_drawn_now_and_then() -> None:
    clock, terminal = HandClock(), Terminal()
    rate = Rate(clock, terminal)
    rate.add(100)
    clock.time_ms += 200
    rate.add(1000)
    clock.time_ms += 100
    rate.add(1)
    rate.clear()
    assert terminal.getvalue() == "\r1,100 sent, 5,500 per second\x1b[K\r\x1b[K"
    assert (rate.count, rate.took_ms) == (1101, 300)


def test_no_rate_without_a_terminal() -> None:
    clock, stream = HandClock(), io.StringIO()
    rate = Rate(clock, stream)
    clock.time_ms += 1000
    rate.add(1000)
    rate.clear()
    assert stream.getvalue() == ""
