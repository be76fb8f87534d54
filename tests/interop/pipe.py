"""The pipe between a test process and a Java host: a length, then that many bytes of msgpack."""

import struct
from typing import IO

import msgspec

LENGTH = struct.Struct(
    ">I"  # bytes that follow
)
PACKET_BYTES_MAX = 256 * 1024 * 1024
"""More than any batch of cases needs; a larger length means that something else wrote here."""


class Request(msgspec.Struct, frozen=True):
    """An operation and its inputs, which only the operation itself knows how to read."""

    do: str
    inputs: msgspec.Raw


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What came of one input: what Java threw, or else the output, packed."""

    thrown: str | None
    output: msgspec.Raw = msgspec.Raw(msgspec.msgpack.encode(None))


def write_packet(stream: IO[bytes], payload: bytes) -> None:
    """Write one packet, whole."""
    stream.write(LENGTH.pack(len(payload)) + payload)
    stream.flush()


def read_packet(stream: IO[bytes]) -> bytes | None:
    """Return the next packet, None when the other side has closed the pipe between two.

    Raises:
        EOFError: the pipe ended inside a packet, or what came is no packet of ours.

    """
    head = stream.read(LENGTH.size)
    if not head:
        return None
    if len(head) < LENGTH.size:
        raise EOFError("the pipe closed inside the length of a packet")
    (length,) = LENGTH.unpack(head)
    if length > PACKET_BYTES_MAX:
        raise EOFError(f"a packet of {length} bytes: something else wrote to the pipe")
    payload = stream.read(length)
    if len(payload) < length:
        raise EOFError(f"the pipe closed {length - len(payload)} bytes before a packet's end")
    return payload
