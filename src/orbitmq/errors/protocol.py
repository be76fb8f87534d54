"""Errors of bytes: a frame, a header, a body or a record that breaks its format."""

from orbitmq.errors.base import OrbitError

__all__ = [
    "CompressionFailed",
    "CorruptRecord",
    "InvalidBody",
    "InvalidHeader",
    "LocalProtocolError",
    "RemoteProtocolError",
]


class LocalProtocolError(OrbitError):
    """We were asked to write something that the format can't hold, such as too long a frame."""


class RemoteProtocolError(OrbitError):
    """The peer's bytes break the protocol; the connection can't go on.

    Attributes:
        position: the byte of the stream (or of the buffer given) at which it went wrong.

    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class InvalidHeader(RemoteProtocolError):
    """A header field is missing or unreadable; frames after it are fine.

    Attributes:
        field: the name on the wire of the first field at fault, or None if all of them are.

    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidBody(RemoteProtocolError):
    """A body is not what its request or answer promises; frames after it are fine."""


class CorruptRecord(OrbitError):
    """Bytes that should be a stored message and are not.

    Attributes:
        position: where in the buffer the record, or the fault in it, begins.

    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class CompressionFailed(CorruptRecord):
    """A body that can't be opened, or that would grow past the bound."""
