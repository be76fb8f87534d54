from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import LocalProtocolError, RemoteProtocolError
from orbitmq.wire.replica_stream import (
    CHUNK_BYTES_MAX,
    OFFSET_MAX,
    Chunk,
    ChunkReader,
    Heartbeat,
    Report,
    ReportReader,
    chunk_head,
    report,
)

offsets = st.integers(0, OFFSET_MAX - 64)
chunks = st.lists(st.tuples(offsets, st.binary(max_size=40)), max_size=8)


def cut(stream: bytes, data: st.DataObject) -> Iterable[bytes]:
    """Cut a stream into pieces of any sizes, empty ones among them."""
    at = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    return [stream[start:end] for start, end in zip([0, *at], [*at, len(stream)], strict=True)]


def written(events: Iterable[Chunk | Heartbeat]) -> list[tuple[int, bytes]]:
    return [
        (event.offset, bytes(event.data) if isinstance(event, Chunk) else b"") for event in events
    ]


@given(chunks, st.data())
def test_chunks_arrive_however_the_stream_is_cut(
    sent: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(chunk_head(offset, len(log)) + log for offset, log in sent)
    reader = ChunkReader()
    arrived = [one for piece in cut(stream, data) for one in written(reader.feed(piece))]
    assert arrived == sent


def test_chunks_arrive_byte_by_byte_and_glued() -> None:
    stream = chunk_head(7, 3) + b"abc" + chunk_head(10, 0) + chunk_head(10, 2) + b"de"
    expected = [(7, b"abc"), (10, b""), (10, b"de")]
    reader = ChunkReader()
    by_bytes = [one for byte in stream for one in written(reader.feed(bytes([byte])))]
    assert by_bytes == written(ChunkReader().feed(stream)) == expected


def test_an_empty_chunk_is_a_heartbeat() -> None:
    assert ChunkReader().feed(chunk_head(4096, 0)) == [Heartbeat(4096)]


def test_data_that_came_whole_is_not_copied() -> None:
    stream = chunk_head(0, 4) + b"data"
    (chunk,) = ChunkReader().feed(stream)
    assert isinstance(chunk, Chunk)
    assert chunk.data.obj is stream


def test_the_buffer_may_be_used_again_after_a_call() -> None:
    reader, buffer = ChunkReader(), bytearray(chunk_head(5, 4) + b"lo")
    assert reader.feed(buffer) == []
    buffer[:] = b"XXXXXXXXXXXXXX"
    assert written(reader.feed(b"gs")) == [(5, b"logs")]


@pytest.mark.parametrize(
    ("offset", "size", "position", "what"),
    [
        (0, -1, 8, "size of a chunk is -1"),
        (0, CHUNK_BYTES_MAX + 1, 8, "size of a chunk is"),
        (-1, 0, 0, "offset of a chunk is -1"),
        (-(2**63), 7, 0, "offset of a chunk"),
        (OFFSET_MAX, 1, 0, "offset of a chunk"),
    ],
)
def test_an_impossible_head_is_refused_before_its_data_comes(
    offset: int, size: int, position: int, what: str
) -> None:
    reader = ChunkReader()
    reader.feed(chunk_head(0, 3) + b"abc")
    with pytest.raises(RemoteProtocolError, match=what) as caught:
        reader.feed(offset.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big", signed=True))
    assert caught.value.position == 15 + position


def test_a_broken_stream_stays_broken() -> None:
    reader = ChunkReader()
    for data in (b"\xff" * 12, chunk_head(0, 0)):
        with pytest.raises(RemoteProtocolError):
            reader.feed(data)


def test_the_largest_chunk_passes() -> None:
    reader, log = ChunkReader(), bytes(CHUNK_BYTES_MAX)
    assert reader.feed(chunk_head(0, len(log))) == []
    (chunk,) = reader.feed(log)
    assert chunk == Chunk(0, memoryview(log))


def test_only_the_last_complete_report_counts() -> None:
    reader = ReportReader()
    assert reader.feed(report(1) + report(2) + report(3)[:7]) == [Report(2)]
    assert reader.feed(report(3)[7:] + report(4)) == [Report(4)]
    assert reader.feed(b"") == []


@given(st.lists(offsets, max_size=8), st.data())
def test_the_last_report_arrives_however_the_stream_is_cut(
    sent: list[int], data: st.DataObject
) -> None:
    reader = ReportReader()
    pieces = cut(b"".join(map(report, sent)), data)
    arrived = [one.offset for piece in pieces for one in reader.feed(piece)]
    assert arrived[-1:] == sent[-1:]
    assert set(arrived) <= set(sent)


def test_a_negative_report_is_refused_with_its_position() -> None:
    reader = ReportReader()
    with pytest.raises(RemoteProtocolError, match="reported offset is -1") as caught:
        reader.feed(report(5) + b"\xff" * 8)
    assert caught.value.position == 8


@given(st.binary(max_size=200), st.data())
def test_any_bytes_give_events_or_a_remote_error(stream: bytes, data: st.DataObject) -> None:
    for reader in (ChunkReader(), ReportReader()):
        try:
            for piece in cut(stream, data):
                reader.feed(piece)
        except RemoteProtocolError as refused:
            position = refused.position
        else:
            position = 0
        assert 0 <= position <= len(stream)


@pytest.mark.parametrize(
    ("offset", "size", "name"),
    [(-1, 0, "offset"), (OFFSET_MAX, 1, "offset"), (0, -1, "size"), (0, 2**22, "size")],
)
def test_we_write_no_head_that_we_would_refuse(offset: int, size: int, name: str) -> None:
    with pytest.raises(LocalProtocolError, match=name):
        chunk_head(offset, size)


def test_we_write_no_report_that_we_would_refuse() -> None:
    for offset in (-1, OFFSET_MAX + 1):
        with pytest.raises(LocalProtocolError, match="offset"):
            report(offset)
