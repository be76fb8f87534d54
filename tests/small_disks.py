"""Real file systems that are quickly full: for tests of a full disk."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["CannotMount", "ballast", "mounting", "small_disk"]


class CannotMount(Exception):
    """This process may not mount a disk."""


@contextlib.contextmanager
def mounting() -> Iterator[None]:
    """Skip a test where mounting is not allowed, but fail it if ``ORBITMQ_INTEROP=require``."""
    try:
        yield
    except CannotMount as error:
        if os.environ.get("ORBITMQ_INTEROP") == "require":
            raise
        pytest.skip(str(error))


@contextlib.contextmanager
def small_disk(directory: Path, mib: int) -> Iterator[Path]:
    """Mount a disk of some MiB in memory at a directory; raise CannotMount if that's refused."""
    directory.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount") or "/bin/mount"
    command = [mount, "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = "" if done.returncode == 0 else done.stderr.strip()
    except OSError as error:
        reason = str(error)
    if reason:
        raise CannotMount(f"a small disk can't be mounted, which root may do on Linux: {reason}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def ballast(directory: Path, *, left: int) -> Path:
    """Fill a disk until about ``left`` bytes are free; return the file, to be removed."""
    found = os.statvfs(directory)
    path = directory / "ballast"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - left)
    return path
