"""The lock of a directory, between processes and as Java takes it."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreLocked
from orbitmq.store.disk.disk import RealDisk

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that locks the file as Java does: the first byte, by a record lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate("")


def test_a_lock_of_another_process_is_told_with_its_pid(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    path = str(tmp_path / "lock")
    with pytest.raises(StoreLocked) as caught:
        RealDisk().lock(path, "lock")
    assert caught.value.pid == holder.pid
    assert f"locked by process {holder.pid}; stop that process" in str(caught.value)
    holder.communicate("")
    RealDisk().lock(path, "lock").release()


def lock_from_elsewhere(path: Path, length: int, start: int) -> str:
    """Return what another process gets when it asks for a range of the file."""
    text = (
        "import fcntl, sys\n"
        "try:\n"
        "    file = open(sys.argv[1], 'r+')\n"
        f"    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, {length}, {start})\n"
        "    print('granted')\n"
        "except OSError:\n"
        "    print('refused')\n"
    )
    command = [sys.executable, "-c", text, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_exactly_the_first_byte_is_locked(tmp_path: Path) -> None:
    held = RealDisk().lock(str(tmp_path / "lock"), "lock")
    assert lock_from_elsewhere(tmp_path / "lock", 1, 0) == "refused"
    assert lock_from_elsewhere(tmp_path / "lock", 1, 1) == "granted"
    with pytest.raises(StoreLocked):
        RealDisk().lock(str(tmp_path / "lock"), "lock")
    assert lock_from_elsewhere(tmp_path / "lock", 1, 0) == "refused"
    held.release()
    assert lock_from_elsewhere(tmp_path / "lock", 1, 0) == "granted"


FORK = """
import os, sys
from orbitmq.errors import StoreLocked
from orbitmq.store.disk.disk import RealDisk
held = RealDisk().lock(sys.argv[1], "lock")
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    RealDisk().lock(sys.argv[1], "lock")
except StoreLocked as error:
    print("held by the parent" if error.pid == os.getppid() else f"held by {error.pid}")
else:
    print("taken twice")
"""


def test_a_child_of_the_holder_does_not_hold_it(tmp_path: Path) -> None:
    # In a process of its own: this one has threads, and should not fork.
    command = [sys.executable, "-c", FORK, str(tmp_path / "lock")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "held by the parent\n"


def test_a_lock_without_a_table_of_locks_tells_no_pid(
    tmp_path: Path, holder: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise PermissionError

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(StoreLocked, match="another process") as caught:
        RealDisk().lock(str(tmp_path / "lock"), "lock")
    assert caught.value.pid is None


def test_a_file_system_without_locks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(DiskFailed, match="can't lock .*: No locks available"):
        RealDisk().lock(str(tmp_path / "lock"), "lock")
