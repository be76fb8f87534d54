"""Real file systems that are quickly full: for tests of a full disk."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["ballast", "small_disk"]


@contextlib.contextmanager
def small_disk(directory: Path, mib: int) -> Iterator[Path]:
    """Mount a disk of some MiB in memory at a directory.

    Where mounting is not allowed the test is skipped, or fails if ``ORBITMQ_INTEROP=require``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount") or "/bin/mount"
    command = [mount, "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = "" if done.returncode == 0 else done.stderr.strip()
    except OSError as error:
        reason = str(error)
    if reason:
        why = f"a disk of {mib} MiB can't be mounted, which root may do on Linux: {reason}"
        if os.environ.get("ORBITMQ_INTEROP") == "require":
            pytest.fail(why)
        pytest.skip(why)
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
