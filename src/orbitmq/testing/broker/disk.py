"""The disk of a broker under test, which can be full."""

from collections.abc import Callable

from orbitmq.store.disk.disk import RealDisk, Usage

__all__ = ["FillableDisk"]


class FillableDisk(RealDisk):
    """The disk of the machine; while ``is_full`` returns True, its file system is.

    A broker looks at the file system and refuses messages before the last byte is taken, so no call
    has to fail.

    >>> FillableDisk(lambda: True).usage("/").ratio
    1.0
    """

    def __init__(self, is_full: Callable[[], bool]) -> None:
        self._is_full = is_full

    def usage(self, path: str) -> Usage:
        """Return how full the file system of ``path`` is."""
        found = super().usage(path)
        return Usage(found.total, found.total, found.reserved) if self._is_full() else found
