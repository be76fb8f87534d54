"""Errors of a store directory."""

from orbitmq.errors.base import OrbitError

__all__ = ["DiskFailed", "StoreDamaged", "StoreError", "StoreLocked"]


class StoreError(OrbitError):
    """A store directory can't be used, or not any more.

    Attributes:
        path: the file or directory at fault.

    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StoreLocked(StoreError):
    """Another process uses the store directory.

    Attributes:
        pid: that process, None if the system doesn't tell.

    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{path} is locked by {holder}; stop it first, or use another place", path=path
        )
        self.pid = pid


class StoreDamaged(StoreError):
    """Files of the store contradict each other, or are not what their names say.

    Attributes:
        position: the byte of the stream or file at which it shows.

    """

    def __init__(self, message: str, *, path: str, position: int = 0) -> None:
        super().__init__(message, path=path)
        self.position = position


class DiskFailed(StoreError):
    """The system refused a file call: no space, no permission, an error of the device.

    Attributes:
        errno: the system's number of the reason.

    """

    def __init__(self, message: str, *, path: str, errno: int) -> None:
        super().__init__(message, path=path)
        self.errno = errno
