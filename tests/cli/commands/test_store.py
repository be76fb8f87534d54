"""What the commands print: golden texts at 80 columns, JSON, and exit statuses."""

import json
from pathlib import Path

import pytest

from orbitmq.cli.commands.store import summary_lines, verdict_lines
from orbitmq.cli.main import main
from orbitmq.store.damage import Damage
from orbitmq.store.reader.inspect import DiskUse, QueueTotals, Summary
from orbitmq.store.reader.verify import Verdict
from tests.cli.terminal import utc
from tests.store.unpacked import NAMES, flip, unpacked

INSPECT_TORN = """\
Store      DIR
State      in use, or not stopped cleanly
Messages   734 in 1 topic, 4 queues, 971.4 KiB
Stored     2026-11-15 10:42:09 to 2026-11-15 10:42:14
Log        0 to 996,400 in 5 files
Files      1.2 MiB log, 15.6 KiB queues, 50.3 KiB index, 11.7 KiB other

TOPIC        QUEUE  MESSAGES       SIZE  OFFSETS       LAST STORED
GoldenCrash      0       184  243.3 KiB   0..184  2026-11-15 10:42
                 1       183  244.1 KiB   0..183  2026-11-15 10:42
                 2       184  240.8 KiB   0..184  2026-11-15 10:42
                 3       183  243.3 KiB   0..183  2026-11-15 10:42

DAMAGED    1 place
  × commitlog at byte 996,400: not a record; its size field is 582, which isn't
    the sum of its parts; nothing readable follows (291 B skipped)
"""

VERIFY_TORN = """\
Store      DIR
Log        734 messages read, checksums compared
Queues     735 entries of 4 queues compared with the log
Index      8 files of 2,205 entries compared with the log

DAMAGED    3 places
  × commitlog at byte 996,400: not a record; its size field is 582, which isn't
    the sum of its parts; nothing readable follows (291 B skipped)
  × consumequeue/GoldenCrash/1 at byte 3,660: offset 183 points to byte 996400
    of the log, where no record of 582 bytes can be read (20 B skipped)
  × index/20261115104213862 at byte 2,640: entry 110 points to byte 996400 of
    the log, where no record can be read (20 B skipped)
"""

VERIFY_NORMAL = """\
Store      DIR
Log        200 messages read, checksums compared
Queues     200 entries of 8 queues compared with the log
Index      2 files of 567 entries compared with the log

The store is sound.
"""


@pytest.mark.parametrize(
    ("command", "name", "text", "status"),
    [
        ("inspect", "crash-torn", INSPECT_TORN, 1),
        ("verify", "crash-torn", VERIFY_TORN, 1),
        ("verify", "normal", VERIFY_NORMAL, 0),
    ],
)
def test_what_is_printed(
    command: str,
    name: str,
    text: str,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = unpacked(name, tmp_path)
    with utc():
        assert main(["store", command, directory]) == status
    printed = capsys.readouterr()
    assert printed.out.replace(directory, "DIR") == text
    assert printed.err == ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_every_store_fits_a_terminal(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = unpacked(name, tmp_path)
    assert main(["store", command, directory]) == (1 if name == "crash-torn" else 0)
    lines = capsys.readouterr().out.replace(directory, "DIR").splitlines()
    assert max(map(len, lines)) <= 80


def test_a_large_store_fits_a_terminal() -> None:
    size, count, moment = 987_654_321_000, 123_456_789, 1_794_739_329_000
    queue = QueueTotals(
        topic="%RETRY%" + "billing" * 20, queue_id=1023, messages=count, bytes=size,
        first_stored_ms=moment, last_stored_ms=moment, min_offset=count, max_offset=2 * count,
    )  # fmt: skip
    summary = Summary(
        directory="DIR", stopped_cleanly=True, log_start=0, log_end=10**13, messages=count,
        bytes=size, first_stored_ms=moment, last_stored_ms=moment, queues=[queue] * 3,
        disk=dict.fromkeys(("commitlog", "consumequeue", "index", "other"), DiskUse(9999, size)),
        damage_count=0, damages=[],
    )  # fmt: skip
    lines = list(summary_lines(summary))
    assert max(map(len, lines)) <= 80
    assert sum("%RET…" in line for line in lines) == 1  # a topic is named once


def test_many_damages_are_cut_short_and_counted() -> None:
    damages = [Damage(position, "broken", 1) for position in range(1000)]
    verdict = Verdict(
        directory="DIR", messages=1, queues=1, queue_entries=1, index_files=1, index_entries=1,
        damage_count=4321, damages=damages,
    )  # fmt: skip
    lines = list(verdict_lines(verdict))
    assert "DAMAGED    4,321 places" in lines
    assert lines[-1] == "  … and more; --json shows the first 1,000"
    assert len(lines) == 5 + 1 + 20 + 1


def test_harmless_damage_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = unpacked("normal", tmp_path)
    # A byte behind the end of the log, as a recovery may leave it.
    flip(f"{directory}/commitlog/{262144:020d}", 402855 - 262144 + 4)
    assert main(["store", "verify", directory]) == 0
    printed = capsys.readouterr().out
    assert "The store is sound.\n  note: commitlog at byte 402,855: not a record" in printed


@pytest.mark.parametrize(("command", "key"), [("inspect", "queues"), ("verify", "queue_entries")])
def test_json(command: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", command, "--json", unpacked("crash-torn", tmp_path)]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["messages"] == 734
    assert printed["damages"][0]["position"] == 996400
    assert key in printed


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "inspect", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"orbitmq: {tmp_path} is not a store directory")
    assert printed.err.count("\n") == 1


def test_a_store_without_damage_names_what_was_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = unpacked("normal", tmp_path)
    assert main(["store", "inspect", directory]) == 0
    assert capsys.readouterr().out.endswith(
        "\nNo damage seen. orbitmq store verify also checks checksums, queues and index.\n"
    )


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_queue_without_its_first_file_is_damaged(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = unpacked("normal", tmp_path)
    Path(directory, "consumequeue", "GoldenB", "2", f"{0:020d}").unlink()
    assert main(["store", command, directory]) == 1
    assert capsys.readouterr().out.endswith(
        "DAMAGED    1 place\n"
        "  × consumequeue/GoldenB/2 at byte 0: the log has messages from 0 on, but the\n"
        "    queue begins at 20\n"
    )


def test_the_log_may_be_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = unpacked("normal", tmp_path / "store")
    (Path(directory) / "commitlog").rename(tmp_path / "log")
    assert main(["store", "verify", directory, "--commit-log", str(tmp_path / "log")]) == 0
    assert "The store is sound." in capsys.readouterr().out
