"""Errors of the protocol: an invalid frame, header, body or record."""

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
    """A value does not fit the format that it has to be written in, such as a frame too long."""


class RemoteProtocolError(OrbitError):
    """The peer's bytes violate the protocol; the connection is closed.

    Attributes:
        position: the offset of the violation in the stream or buffer, in bytes.
    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class InvalidHeader(RemoteProtocolError):
    """A header field is missing or unreadable; the connection stays open.

    Attributes:
        field: the wire name of the first invalid field; None if the whole header is invalid.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidBody(RemoteProtocolError):
    """A body does not have the format of its request or answer; the connection stays open."""


class CorruptRecord(OrbitError):
    """Bytes that should be a stored message are not one.

    Attributes:
        position: the offset of the record, or of the fault in it, in the buffer.
    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class CompressionFailed(CorruptRecord):
    """A body can't be decompressed, or would be larger than the limit."""
