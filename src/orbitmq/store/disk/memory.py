"""How much memory there is: the machine's, or that of the container where it is less.

A store takes records for being in memory that lie within a part of it behind the end of the log. A
container's limit stands in files of its cgroup or of one above it, under other names in version 1
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

    A limit that can't be read is logged, and counts as none.

    Args:
        disk: reads what the system tells of limits.
        physical: tells the memory of the machine; asked of the system if it is left out.

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
    """Return the files that may limit a process, from what ``/proc/self/cgroup`` says of it.

    Each cgroup is followed by those above it, up to the root. Inside a container the path may be
    that of the host, of which only the root is to be seen: absent files are for the caller to skip.

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
        if ".." in parts:  # a cgroup outside of what this process can see
            parts = []
        paths += ["/".join([root, *parts[:depth], name]) for depth in range(len(parts), -1, -1)]
    return paths


def parse_limit(text: str) -> int | None:
    """Return the limit that a file of a cgroup gives; None for none.

    Version 2 writes ``max`` for none; version 1 a number beyond all memory, which is as good.

    >>> parse_limit("536870912"), parse_limit("max")
    (536870912, None)

    """
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    return int(text) or None  # 0 would leave no process to ask


def _read(disk: Disk, path: str) -> str:
    """Return the text of a file of the system; nothing if it is absent or can't be read."""
    try:
        if not disk.exists(path):
            return ""
        file = disk.open(path, writable=False)
        try:  # such a file says that it has no bytes, and is to be read all the same
            return file.read(_FILE_BYTES_MAX, 0).decode(errors="replace")
        finally:
            file.close()
    except DiskFailed as error:
        log.warning("a limit of memory is not taken into account: %s", error)
        return ""
