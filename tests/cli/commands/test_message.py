"""Messages from a shell: golden texts at 80 columns, and what a real cluster answers."""

import io
import json
import sys
from datetime import UTC, datetime

import pytest

from orbitmq.cli.commands.message import as_json, body_lines, message_lines, query_lines
from orbitmq.cli.main import main
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from tests.cli.terminal import utc

STORED_MS = int(datetime(2026, 11, 15, 10, 42, 9, tzinfo=UTC).timestamp() * 1000)

VIEW = """\
Message    0A0000072A9F5F4A0E124CBB7EE10000
Topic      orders
Queue      broker-a/3, offset 1,234,567
Stored     2026-11-15 10:42:09 on 10.0.0.7:10911
Born       2026-11-15 10:42:08 on 10.0.0.9:40000
Retries    2
Tags       paid
Keys       o-42 o-43
Property   colour=blue
Property   note=a long one a long one a long one a long one a long one a long
           one
Body       10 B

  first
  second
"""

QUERY = """\
ID                                STORED          QUEUE         OFFSET      SIZE
0A0000072A9F5F4A0E124CBB7EE10000  11-15 10:42:09  broker-a/3   1234567      10 B
0A0000072A9F5F4A0E124CBB7EE10000  11-15 10:42:09  the-b…er/3  87654321  97.7 KiB
"""


def stored(
    body: bytes = b"first\nsecond", broker_name: str = "broker-a", offset: int = 1_234_567
) -> StoredMessage:
    return StoredMessage(
        topic="orders",
        body=body,
        properties={
            "UNIQ_KEY": "0A0000072A9F5F4A0E124CBB7EE10000",
            "TAGS": "paid",
            "KEYS": "o-42 o-43",
            "note": " ".join(["a long one"] * 6),
            "colour": "blue",
        },
        queue_id=3,
        queue_offset=offset,
        commit_log_offset=4096,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=STORED_MS - 1000,
        born_host=Host.parse("10.0.0.9:40000"),
        store_timestamp_ms=STORED_MS,
        store_host=Host.parse("10.0.0.7:10911"),
        reconsume_times=2,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=300,
        broker_name=broker_name,
    )


def test_one_message() -> None:
    with utc():
        shown = list(message_lines(stored()))
    assert "".join(f"{line}\n" for line in shown) == VIEW.replace("10 B", "12 B")


def test_several_fit_a_terminal() -> None:
    large = stored(b"x" * 100_000, "the-billing-broker", 87_654_321)
    with utc():
        shown = query_lines([stored(b"first\nsec."), large])
    assert "".join(f"{line}\n" for line in shown) == QUERY
    assert max(map(len, shown)) == 80


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"paid", ["  paid"]),
        ("bezahlt \N{EURO SIGN}\ttab".encode(), ["  bezahlt \N{EURO SIGN}       tab"]),
        (b"\xff\xfe", ["  ff fe"]),
        (b"\x1b]0;title\x07", ["  1b 5d 30 3b 74 69 74 6c 65 07"]),
        (b"\x00" * 17, ["  " + " ".join(["00"] * 16), "  00"]),
    ],
)
def test_a_body_is_text_or_bytes(body: bytes, shown: list[str]) -> None:
    assert list(body_lines(body)) == shown


def test_a_long_body_is_cut_even_within_a_character() -> None:
    body = b"x" * 1023 + "\N{EURO SIGN}".encode()
    first, last = body_lines(body)
    assert first == "  " + "x" * 1023
    assert last == "  … 2 more bytes; --body prints the whole body"


def test_a_body_that_is_not_text_is_base64_in_json() -> None:
    shown = as_json(stored(b"\xff"))
    assert shown["body_base64"] == "/w=="
    assert "body" not in shown


@pytest.mark.usefixtures("nameserver")
class TestOnACluster:
    @pytest.fixture
    def message_id(self, nameserver: str, capsys: pytest.CaptureFixture[str]) -> str:
        assert main(["topic", "create", "letters", "--nameserver", nameserver]) == 0
        capsys.readouterr()
        assert main(["send", "letters", "dear all", "--keys", "k-1", "--json"]) == 0
        receipt = json.loads(capsys.readouterr().out)
        assert isinstance(receipt["message_id"], str)
        return receipt["message_id"]

    def test_it_is_viewed(self, message_id: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["message", "view", "letters", message_id]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"Message    {message_id}\nTopic      letters\n")
        assert shown.endswith("Keys       k-1\nBody       8 B\n\n  dear all\n")

    def test_it_is_viewed_by_its_offset_id(
        self, message_id: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["message", "view", "letters", message_id, "--json"]) == 0
        place = json.loads(capsys.readouterr().out)["offset_message_id"]
        assert main(["message", "view", "letters", place, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["message_id"] == message_id

    def test_only_its_body(self, message_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        printed = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(sys, "stdout", printed)
        assert main(["message", "view", "letters", message_id, "--body"]) == 0
        printed.seek(0)
        assert printed.read() == "dear all"

    def test_it_is_found_by_its_key(
        self, message_id: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["message", "query", "letters", "k-1"]) == 0
        assert message_id in capsys.readouterr().out
        assert main(["message", "query", "letters", "k-1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert message_id in {one["message_id"] for one in found}

    @pytest.mark.usefixtures("message_id")
    @pytest.mark.parametrize(
        "arguments",
        [
            ["query", "letters", "no-such-key"],
            ["query", "letters", "k-1", "--end", "2020-01-01"],
            ["view", "letters", "no-such-id"],
        ],
    )
    def test_it_is_not_found(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["message", *arguments]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("orbitmq: topic letters has no message ")

    @pytest.mark.usefixtures("message_id")
    def test_not_found_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["message", "query", "letters", "no-such-key", "--json"]) == 1
        printed = capsys.readouterr()
        assert printed.out == "[]\n"
        assert json.loads(printed.err)["exit_status"] == 1

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["query", "letters", "k-1", "--begin", "yesterday"], "'yesterday' is not a time"),
            (["query", "letters", "k-1", "--max", "65"], "from 1 to 64"),
            (["view", "no-such-topic", "id"], "topic no-such-topic is missing"),
        ],
    )
    def test_invalid_arguments(
        self, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["message", *arguments]) == 2
        assert words in capsys.readouterr().err
