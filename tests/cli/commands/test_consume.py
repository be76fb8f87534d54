"""Printing the messages of a topic, in this process and through pipes."""

import json
import subprocess
import sys

import pytest

from orbitmq import Message
from orbitmq.blocking import Admin, Producer
from orbitmq.cli.main import main
from tests.cli.terminal import on_a_terminal

pytestmark = pytest.mark.usefixtures("nameserver")

CAUGHT_UP = ["--from", "beginning", "--until-caught-up"]


@pytest.fixture(scope="module")
def topic() -> str:
    return "to-consume"


@pytest.fixture(autouse=True)
def sent(topic: str, nameserver: object, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Send five messages to one queue, once."""
    if main(["topic", "route", topic]) != 0:
        assert main(["topic", "create", topic, "--queues", "1"]) == 0
        for number in range(5):
            tag = "even" if number % 2 == 0 else "odd"
            options = ["--tags", tag, "--keys", f"k-{number}", "--property", f"number={number}"]
            assert main(["send", topic, f"body {number}", *options]) == 0
    capfdbinary.readouterr()


def consumed(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str, status: int = 0) -> bytes:
    assert main(["consume", *arguments]) == status
    printed = capfdbinary.readouterr()
    assert printed.err.count(b"\n") == status
    return printed.out


def test_places_counts_and_filters(topic: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def numbers(*arguments: str, status: int = 0) -> bytes:
        form = ["--format", "%o"]
        return consumed(capfdbinary, topic, *form, *arguments, status=status)

    assert numbers(*CAUGHT_UP) == b"01234"
    assert numbers("--from", "beginning", "--count", "2") == b"01"
    assert numbers("--from", "3", "--until-caught-up") == b"34"
    assert numbers("--from", "-2", "--until-caught-up") == b"34"
    assert numbers("--from=-9", "--count", "5") == b"01234"
    assert numbers("--from", "99", "--until-caught-up", status=1) == b""
    assert numbers("--until-caught-up", status=1) == b""
    assert numbers("--from", "1h", "--until-caught-up") == b"01234"
    assert numbers("--from", "2020-01-01T00:00Z", "--count", "5") == b"01234"
    assert numbers(*CAUGHT_UP, "--tags", "odd") == b"13"
    assert numbers(*CAUGHT_UP, "--sql", "number > 2") == b"34"
    assert numbers(*CAUGHT_UP, "--key", "k-3") == b"3"
    assert numbers(*CAUGHT_UP, "--key", "k-9", status=1) == b""
    assert numbers(*CAUGHT_UP, "--queue", "0", "--queue", "broker-a/0") == b"01234"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tags", "nosuch"], "no message of topic {} from end to its end has --tags 'nosuch'"),
        ([], "topic {} has no message from end on; --from beginning prints those that it has"),
        (["--from", "7"], "topic {} has no message from 7 on"),
    ],
)
def test_the_end_without_a_message_is_told(
    topic: str, arguments: list[str], told: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["consume", topic, "--until-caught-up", *arguments]) == 1
    assert capfdbinary.readouterr().err.decode() == f"orbitmq: {told.format(topic)}\n"


def test_the_last_are_counted_in_each_queue(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with Admin() as admin, Producer("shop") as producer:
        admin.create_topic("to-end", queues=2)
        for queue in admin.queues("to-end"):
            for number in range(3 * queue.queue_id):  # the first one has none
                producer.send(Message("to-end", b"%d" % number), queue=queue)
    last = ["to-end", "--from", "-2", "--until-caught-up"]
    assert consumed(capfdbinary, *last) == b"1\n2\n"


def test_a_member_of_a_group_commits_what_it_printed(
    topic: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    member = [topic, "--group", "readers", "--from", "beginning", "--format", "%o"]
    assert consumed(capfdbinary, *member, "--count", "2") == b"01"
    assert consumed(capfdbinary, *member, "--until-caught-up") == b"234"
    assert main(["consume", *member, "--until-caught-up"]) == 1
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert printed.err == b"orbitmq: group readers has consumed topic %b to its end\n" % (
        topic.encode()
    )


def test_a_member_does_not_commit_what_was_not_printed(
    topic: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    member = [topic, "--group", "broken-pipe", *CAUGHT_UP, "--format", "%o"]
    command = f"{sys.executable} -m orbitmq.cli.main consume {' '.join(member)}"
    subprocess.run(["sh", "-c", f"{command} | exec true"], check=False, timeout=60)
    assert consumed(capfdbinary, *member) == b"01234"


def test_formats(topic: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    one = [topic, "--from", "2", "--count", "1"]
    assert consumed(capfdbinary, *one) == b"body 2\n"
    assert consumed(capfdbinary, *one, "--format", "raw") == b"body 2"
    assert consumed(capfdbinary, *one, "--format", "hex") == b"62 6f 64 79 20 32\n"
    line = consumed(capfdbinary, *one, "--json")
    assert json.loads(line)["keys"] == ["k-2"]
    assert consumed(capfdbinary, *one, "--format", "json") == line


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--queue", "7"], "has no queue '7'; name one as broker-a/0"),
        (["--from", "yesterday"], "--from 'yesterday' is not beginning, end, an offset, -N"),
        (["--from", "9" * 5_000], "9' is not beginning, end"),
        (["--from", "99999999999999d"], "--from '99999999999999d' is not beginning, end"),
        (["--count", "0"], "'0' is not a number of messages"),
        (["--count", "9" * 5_000], "9' is not a number of messages"),
        (["--format", "csv"], "format 'csv' is not text, json, hex, raw"),
        (["--group", "g", "--queue", "0"], "--group shares all queues; leave out --queue"),
        (["--group", "g", "--from", "-7"], "--from is an offset, and --group shares all queues"),
        (["--group", "g", "--from", "7"], "--from is an offset, and --group shares all queues"),
        (["--tags", "a", "--sql", "b = 1"], "not allowed with argument"),
        (["--sql", "number >"], "orbitmq:"),
        (["--tags", "||"], "orbitmq:"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    topic: str, arguments: list[str], error: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["consume", topic, *arguments]) == 2
    printed = capfdbinary.readouterr()
    assert error in printed.err.decode()
    assert (printed.out, printed.err.count(b"\n")) == (b"", 1)


def test_an_unknown_topic_is_an_error(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["consume", "no-such-topic"]) == 2
    assert b"no-such-topic" in capfdbinary.readouterr().err


def test_queues_that_take_no_writes_are_read_too(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    with Admin() as admin, Producer("shop") as producer:
        admin.create_topic("to-retire", queues=2)
        for queue in admin.queues("to-retire"):
            producer.send(Message("to-retire", b"%d" % queue.queue_id), queue=queue)
        for perm, write_queues in ((6, 1), (4, 1)):
            admin.update_topic("to-retire", perm=perm, write_queues=write_queues)
            printed = consumed(capfdbinary, "to-retire", *CAUGHT_UP)
            assert sorted(printed.split()) == [b"0", b"1"]
        admin.update_topic("to-retire", perm=2)
        assert main(["consume", "to-retire", *CAUGHT_UP]) == 2
        assert b"has no queue to read" in capfdbinary.readouterr().err


def test_a_reader_that_has_seen_enough_ends_it_quietly(topic: str) -> None:
    command = f"{sys.executable} -m orbitmq.cli.main consume {topic} {' '.join(CAUGHT_UP)}"
    ran = subprocess.run(
        ["sh", "-c", f"{command} | head -1"], capture_output=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"body 0\n", b"")


def test_a_reader_that_has_gone_ends_it_without_another_message(topic: str) -> None:
    command = [sys.executable, "-m", "orbitmq.cli.main", "consume", topic, "--from", "beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert tail.stdout.readline() == b"body 0\n"
        tail.stdout.close()
        assert tail.wait(timeout=60) == 141
        assert tail.stderr.read() == b""


def test_new_messages_are_printed_as_they_arrive() -> None:
    assert main(["topic", "create", "to-tail", "--queues", "1"]) == 0
    assert main(["send", "to-tail", "old"]) == 0
    command = [sys.executable, "-m", "orbitmq.cli.main", "consume", "to-tail", "--from", "0"]
    with subprocess.Popen([*command, "--count", "2"], stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == b"old\n"
        assert main(["send", "to-tail", "new"]) == 0
        assert tail.stdout.readline() == b"new\n"
        assert tail.wait() == 0


def test_the_help_fits_a_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["consume", "--help"])
    assert max(map(len, capfdbinary.readouterr().out.decode().splitlines())) <= 80


def test_a_terminal_says_what_it_waits_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["topic", "create", "awaited", "--queues", "1"]) == 0
    assert main(["send", "awaited", "before"]) == 0
    with on_a_terminal("consume", "awaited", "--count", "1") as command:
        command.shown("new messages, until ^C; --from beginning prints those that are there")
        assert main(["send", "awaited", "after"]) == 0
        assert command.process.communicate(timeout=60)[0] == b"after\n"
    with on_a_terminal("consume", "awaited", *CAUGHT_UP) as command:
        assert command.process.communicate(timeout=60)[0] == b"before\nafter\n"
        with pytest.raises(EOFError, match="^$"):
            command.shown("new messages")
