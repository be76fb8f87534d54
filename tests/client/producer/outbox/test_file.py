"""The file of an outbox: what a crash leaves of it, who may use it, what a bad disk does to it."""

import contextlib
import errno
import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from orbitmq.client.producer.outbox.file import OutboxFile, read_contents
from orbitmq.client.producer.outbox.records import MARK, Kept, Kind, encode
from orbitmq.errors import CorruptRecord, DiskFailed, StoreDamaged, StoreLocked
from orbitmq.message.model import Message


def a_kept(number: int) -> Kept:
    message = Message("orders", b"paid %d" % number, message_id=f"id-{number}")
    return Kept(number, None, "no broker", message)


def a_record(number: int) -> tuple[Kind, int, bytes]:
    return Kind.KEPT, number, encode(Kind.KEPT, number, a_kept(number))


def done(number: int) -> tuple[Kind, int, bytes]:
    return Kind.DONE, number, encode(Kind.DONE, number)


def refused(number: int, why: str) -> tuple[Kind, int, bytes]:
    return Kind.REFUSED, number, encode(Kind.REFUSED, number, why)


def waiting(path: Path) -> list[int]:
    return [entry.sequence for entry in read_contents(str(path)).waiting]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


def test_what_was_appended_is_there_at_the_next_start(path: Path) -> None:
    file = OutboxFile(str(path))
    assert file.open().waiting == ()
    file.append([a_record(1), a_record(2), a_record(3)], sync=True)
    file.append([done(2), refused(3, "too large")], sync=False)
    assert file.read(1) == a_kept(1)
    file.close()
    again = OutboxFile(str(path))
    contents = again.open()
    assert [entry.message_id for entry in contents.waiting] == ["id-1"]
    assert [(entry.sequence, entry.reason) for entry in contents.refused] == [(3, "too large")]
    assert contents.next_sequence == 4
    assert again.read(3) == a_kept(3)
    again.close()


def test_other_users_can_not_read_the_file(path: Path) -> None:
    file = OutboxFile(str(path))
    file.open()
    assert path.stat().st_mode & 0o777 == 0o600
    file.close()


def test_it_stays_where_it_is_if_the_program_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    file = OutboxFile("outbox")
    file.open()
    file.append([a_record(1), a_record(2), done(1)], sync=True)
    monkeypatch.chdir(elsewhere)
    file.rewrite([])
    file.append([a_record(3)], sync=True)
    file.close()
    assert waiting(tmp_path / "outbox") == [2, 3]
    assert list(elsewhere.iterdir()) == []


def test_a_forked_child_does_not_keep_the_lock(path: Path) -> None:
    file = OutboxFile(str(path))
    file.open()
    held, leave = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: meant here
        child = os.fork()
    if not child:
        os.close(leave)
        os.read(held, 1)  # until the parent has done
        os._exit(0)
    try:
        file.close()
        file.open()
        file.close()
    finally:
        os.close(leave)
        os.close(held)
        os.waitpid(child, 0)


def test_a_crash_at_any_byte_leaves_what_was_synced_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _fd: None)  # a thousand of them take a minute
    monkeypatch.setattr("os.fdatasync", lambda _fd: None)
    file = OutboxFile(str(path))
    file.open()
    sizes = [file.size]
    for number in (1, 2, 3):
        file.append([a_record(number)], sync=True)
        sizes.append(file.size)
    file.close()
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        restarted = OutboxFile(str(path))
        contents = restarted.open()
        survived = [number for number in (1, 2, 3) if sizes[number] <= cut]
        assert [entry.sequence for entry in contents.waiting] == survived
        restarted.append([a_record(9)], sync=True)
        restarted.close()
        assert waiting(path) == [*survived, 9]


def test_damage_in_the_middle_is_skipped_and_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1), a_record(2), a_record(3)], sync=True)
    file.close()
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"paid 2")] ^= 1
    path.write_bytes(raw)
    assert waiting(path) == [1, 3]
    file.open()
    file.close()
    assert "skipped 1 damaged stretches" in caplog.text


def test_a_record_that_breaks_while_in_use_is_an_error(path: Path) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1)], sync=True)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    with path.open("r+b") as other:
        other.write(raw)
    with pytest.raises(CorruptRecord, match="is damaged"):
        file.read(1)
    file.close()


def test_a_rewrite_leaves_behind_what_was_sent(path: Path) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(number) for number in range(1, 10)], sync=True)
    file.append([done(number) for number in range(1, 8)] + [refused(8, "no")], sync=False)
    before = file.size
    contents = read_contents(str(path))
    file.rewrite(contents.refused)
    assert file.size == path.stat().st_size < before
    assert file.read(9) == a_kept(9)
    file.append([a_record(10)], sync=True)
    file.close()
    after = read_contents(str(path))
    assert [entry.sequence for entry in after.waiting] == [9, 10]
    assert after.refused == contents.refused
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["outbox", "outbox.lock"]


def test_only_one_may_use_it_and_anyone_may_look(path: Path) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1)], sync=True)
    with pytest.raises(StoreLocked) as raised:
        OutboxFile(str(path)).open()
    assert raised.value.pid == os.getpid()
    assert waiting(path) == [1]
    file.close()
    file.close()
    again = OutboxFile(str(path))
    again.open()
    again.close()


def test_a_file_that_is_not_an_outbox_is_not_touched(path: Path) -> None:
    path.write_bytes(b"%PDF-1.4 and more")
    with pytest.raises(StoreDamaged, match="give another file"):
        OutboxFile(str(path)).open()
    assert path.read_bytes() == b"%PDF-1.4 and more"
    with pytest.raises(StoreDamaged):
        read_contents(str(path))


def test_a_missing_directory_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match="nowhere") as raised:
        OutboxFile(str(tmp_path / "nowhere" / "outbox")).open()
    assert raised.value.errno == errno.ENOENT
    with pytest.raises(DiskFailed):
        read_contents(str(tmp_path / "outbox"))
    with pytest.raises(DiskFailed, match="Is a directory"):
        read_contents(str(tmp_path))


# A bad disk


class BadDisk:
    """Lets some bytes be written, then refuses; or refuses to sync."""

    def __init__(self, *, room: int | None = None) -> None:
        self._room = room
        self._pwrite = os.pwrite

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self._room is None:
            return self._pwrite(fd, data, offset)
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._pwrite(fd, data[: self._room], offset)
        self._room -= written
        return written

    def fdatasync(self, fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_a_full_disk_costs_the_new_records_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1)], sync=True)
    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", BadDisk(room=20).pwrite)
        with pytest.raises(DiskFailed, match="No space left"):
            file.append([a_record(2)], sync=True)
    assert path.stat().st_size == file.size
    file.append([a_record(3)], sync=True)
    file.close()
    assert waiting(path) == [1, 3]


def test_after_a_failed_sync_no_message_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OutboxFile(str(path))
    file.open()
    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", BadDisk().fdatasync)
        with pytest.raises(DiskFailed, match="Input/output error"):
            file.append([a_record(1)], sync=True)
    with pytest.raises(DiskFailed, match="an earlier sync failed"):
        file.append([a_record(2)], sync=True)
    with pytest.raises(DiskFailed, match="an earlier sync failed"):
        file.rewrite([])
    file.close()


def test_no_message_is_kept_after_a_failed_directory_sync(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1)], sync=True)

    def refuse(_path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("orbitmq.client.producer.outbox.file._sync_directory", refuse)
        with pytest.raises(DiskFailed, match="Input/output error"):
            file.rewrite([])
    with pytest.raises(DiskFailed, match="an earlier sync failed"):
        file.append([a_record(2)], sync=True)
    assert file.read(1) == a_kept(1)
    file.close()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename"])
@pytest.mark.parametrize("nth", range(4))
def test_a_crash_at_any_call_of_a_rewrite_leaves_what_was_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    file = OutboxFile(str(path))
    file.open()
    file.append([a_record(1), a_record(2), done(1), a_record(3)], sync=True)
    calls = itertools.count()
    real = getattr(os, call)

    def end_at_the_nth(*arguments: object) -> object:
        if next(calls) == nth:
            raise Killed
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(f"os.{call}", end_at_the_nth)
        with contextlib.suppress(Killed):
            file.rewrite([])
    assert waiting(path) == [2, 3]
    file.close()
    again = OutboxFile(str(path))
    assert [entry.sequence for entry in again.open().waiting] == [2, 3]
    again.close()


def test_an_empty_file_begins_with_its_mark(path: Path) -> None:
    path.touch()
    file = OutboxFile(str(path))
    file.open()
    file.close()
    assert path.read_bytes() == MARK


# A process that is killed

KEEPER = """
import sys
from orbitmq.client.producer.outbox.file import OutboxFile
from tests.client.producer.outbox.test_file import a_record
file = OutboxFile(sys.argv[1])
contents = file.open()
number = contents.next_sequence
while True:
    file.append([a_record(number)], sync=True)
    print(number, flush=True)
    number += 1
"""
ROOT = Path(__file__).parents[4]
KILLS = 100 if os.environ.get("ORBITMQ_SOAK") == "1" else 2


def test_messages_reported_as_kept_are_there_after_a_kill(path: Path) -> None:
    for _ in range(KILLS):
        command = [sys.executable, "-c", KEEPER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as keeper:
            assert keeper.stdout is not None
            told = [int(line) for line in itertools.islice(keeper.stdout, 20)]
            keeper.kill()
            told += [int(line) for line in keeper.stdout if line.endswith("\n")]
        assert set(told) <= set(waiting(path))
