"""Errors of a store directory."""

from orbitmq.errors.base import OrbitError

__all__ = ["DiskFailed", "LogsDiverged", "StoreDamaged", "StoreError", "StoreLocked"]


class StoreError(OrbitError):
    """A store directory can't be used.

    Attributes:
        path: the file or directory.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StoreLocked(StoreError):
    """Another process uses the store directory.

    Attributes:
        pid: that process; None if it is unknown.
    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{path} is locked by {holder}; stop that process, or use another path", path=path
        )
        self.pid = pid


class StoreDamaged(StoreError):
    """Files of the store contradict each other, or have the wrong contents.

    Attributes:
        position: the offset of the damage in the log or file, in bytes.
    """

    def __init__(self, message: str, *, path: str, position: int = 0) -> None:
        super().__init__(message, path=path)
        self.position = position


class DiskFailed(StoreError):
    """A file call failed: no space, no permission, a device error.

    Attributes:
        errno: the system's error number.
        of_sync: whether a sync failed; nobody knows then what is on disk, and a second sync may
            succeed without writing it.
    """

    def __init__(self, message: str, *, path: str, errno: int, of_sync: bool = False) -> None:
        super().__init__(message, path=path)
        self.errno = errno
        self.of_sync = of_sync


class LogsDiverged(OrbitError):
    """The logs of a primary and a replica went different ways; neither is changed.

    Attributes:
        own: where the log of this broker ends.
        other: the offset that the other broker named.
    """

    def __init__(self, message: str, *, own: int, other: int) -> None:
        super().__init__(message)
        self.own = own
        self.other = other
