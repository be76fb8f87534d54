"""How much memory this process may use: the machine's, or the container's limit if that is less.

A store assumes that the last part of the log, up to a fraction of this memory, is in memory. The
limit of a container is in files of its cgroup or of a parent of it, with other names in version 1
and version 2 of cgroups; a machine may run both.
"""

import logging
import os
from collections.abc import Callable
from typing import Final

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import Disk

__all__ = ["limit_files", "memory_bytes", "parse_limit", "physical_bytes"]

log = logging.getLogger("orbitmq.store")

_OWN_CGROUPS: Final = "/proc/self/cgroup"
_LIMIT_V1: Final = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
_LIMIT_V2: Final = ("/sys/fs/cgroup", "memory.max")
_FILE_BYTES_MAX: Final = 64 * 1024
_DIGITS_MAX: Final = 19  # of a signed 64-bit number


def memory_bytes(disk: Disk, physical: Callable[[], int] | None = None) -> int:
    """Return the memory that this process may use, in bytes.

    A limit that can't be read is logged and ignored. ``physical`` returns the memory of the
    machine, for tests.
    """
    least = (physical or physical_bytes)()
    for path in limit_files(_read(disk, _OWN_CGROUPS)):
        limit = parse_limit(_read(disk, path))
        if limit is not None:
            least = min(least, limit)
    return least


def physical_bytes() -> int:
    """Return the memory of the machine, in bytes.

    >>> physical_bytes() > 0
    True
    """
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limit_files(cgroups: str) -> list[str]:
    """Return the files that may limit a process, given its ``/proc/self/cgroup``.

    Each cgroup is followed by its parents, up to the root. Inside a container the path may be that
    of the host, of which only the root is visible: the caller skips missing files.

    >>> limit_files("0::/broker.service")
    ['/sys/fs/cgroup/broker.service/memory.max', '/sys/fs/cgroup/memory.max']
    >>> limit_files("4:memory:/")
    ['/sys/fs/cgroup/memory/memory.limit_in_bytes']
    """
    paths = []
    for line in cgroups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            root, name = _LIMIT_V1
        elif number == "0" and not controllers:
            root, name = _LIMIT_V2
        else:
            continue
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # a cgroup that this process can't see
            parts = []
        paths += ["/".join([root, *parts[:depth], name]) for depth in range(len(parts), -1, -1)]
    return paths


def parse_limit(text: str) -> int | None:
    """Return the limit in a file of a cgroup; None if there is none.

    For no limit, version 2 has ``max`` in it, and version 1 a number larger than any memory.

    >>> parse_limit("536870912"), parse_limit("max")
    (536870912, None)
    """
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    return int(text) or None  # with a limit of 0 no process could run


def _read(disk: Disk, path: str) -> str:
    """Return the text of a system file; empty if it is missing or can't be read."""
    try:
        if not disk.exists(path):
            return ""
        file = disk.open(path, writable=False)
        try:  # such a file has a size of 0, but content
            return file.read(_FILE_BYTES_MAX, 0).decode(errors="replace")
        finally:
            file.close()
    except DiskFailed as error:
        log.warning("a memory limit is ignored, since it can't be read: %s", error)
        return ""
