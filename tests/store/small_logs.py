"""Logs of a few small records, written by hand, so that a test knows every byte."""

from pathlib import Path

from orbitmq.message.host import Host
from orbitmq.message.record import Record, blank, encode

SEGMENT = 4096
NOW = 1_700_000_000_000
_HERE = Host.parse("127.0.0.1:10911")
_THERE = Host.parse("[2001:db8::1]:40000")


def record(
    offset: int,
    number: int = 0,
    *,
    stored_ms: int = NOW,
    body: bytes = b"x" * 100,
    properties: bytes = b"TAGS\x01paid\x02",
    ipv6: bool = False,
) -> bytes:
    """Return the bytes of a record at an offset of the log."""
    fields = Record(
        topic=b"orders",
        body=body,
        properties=properties,
        queue_id=0,
        queue_offset=number,
        commit_log_offset=offset,
        store_timestamp_ms=stored_ms,
        born_timestamp_ms=NOW - 1,
        born_host=_THERE if ipv6 else _HERE,
        store_host=_HERE,
    )
    return bytes(encode(fields))


def segment_of(count: int, base: int = 0, *, ended: bool = False, first_number: int = 0) -> bytes:
    """Return a segment that begins with records, and ends with a blank or with nothing."""
    data = b""
    for number in range(first_number, first_number + count):
        data += record(base + len(data), number, stored_ms=NOW + number)
    if ended:
        data += blank(SEGMENT - len(data))
    return data.ljust(SEGMENT, b"\0")


def write_log(directory: Path, *segments: bytes) -> str:
    """Write segments one behind the other, and return the store's directory."""
    (directory / "commitlog").mkdir()
    for number, segment in enumerate(segments):
        (directory / "commitlog" / f"{number * SEGMENT:020d}").write_bytes(segment)
    return str(directory)
