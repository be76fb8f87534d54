import sys
import tracemalloc
import zlib
from collections.abc import Callable
from typing import TypedDict

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CompressionFailed, InvalidInput, MissingExtra
from orbitmq.message.compression import CompressionType, compress, decompress
from tests.golden_files import golden

MIB = 1024 * 1024
KINDS = list(CompressionType)
FRAMED = [CompressionType.LZ4, CompressionType.ZSTD]


class GoldenBody(TypedDict):
    type: str
    type_value: int
    sys_flag_bits: int
    level: int
    plain_hex: str
    compressed_hex: str


CASES: list[GoldenBody] = golden("compression")["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['type']}-{case['level']}")
def test_opens_what_java_compressed(case: GoldenBody) -> None:
    kind = CompressionType[case["type"]]
    plain = bytes.fromhex(case["plain_hex"])

    assert (kind.value, kind.sys_flag) == (case["type_value"], case["sys_flag_bits"])
    assert CompressionType.of(case["sys_flag_bits"]) is kind
    assert decompress(bytes.fromhex(case["compressed_hex"]), kind) == plain
    assert decompress(compress(plain, kind, level=case["level"]), kind) == plain


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=4096), repeats=st.integers(1, 64))
def test_opens_what_it_compressed(kind: CompressionType, body: bytes, repeats: int) -> None:
    plain = body * repeats

    assert decompress(compress(plain, kind), kind) == plain
    assert decompress(compress(memoryview(plain), kind), kind, limit=len(plain)) == plain


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_opened_or_refused(kind: CompressionType, body: bytes) -> None:
    try:
        opened = decompress(body, kind, limit=1000)
    except CompressionFailed:
        return
    assert len(opened) <= 1000


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_damaged_body_is_opened_or_refused(kind: CompressionType, data: st.DataObject) -> None:
    body = bytearray(compress(b"orbit" * 300, kind))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] ^= data.draw(st.integers(1, 255))
    try:
        opened = decompress(bytes(body), kind, limit=2000)
    except CompressionFailed:
        return
    assert len(opened) <= 2000


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_body_is_refused(kind: CompressionType) -> None:
    body = compress(bytes(range(256)) * 4, kind)
    for length in range(len(body)):
        with pytest.raises(CompressionFailed):
            decompress(body[:length], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_may_open_to_the_limit_and_no_further(kind: CompressionType) -> None:
    body = compress(bytes(100_000), kind)

    assert len(decompress(body, kind, limit=100_000)) == 100_000
    with pytest.raises(CompressionFailed, match="more than 99999 bytes"):
        decompress(body, kind, limit=99_999)


def zlib_bomb() -> bytes:
    return zlib.compress(bytes(256 * MIB), 9)


def lz4_bomb() -> bytes:
    bomb: bytes = lz4.frame.compress(bytes(256 * MIB))
    return bomb


def zstd_bomb() -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(bytes(256 * MIB))


@pytest.mark.parametrize(
    ("kind", "bomb"),
    [
        (CompressionType.ZLIB, zlib_bomb),
        (CompressionType.LZ4, lz4_bomb),
        (CompressionType.ZSTD, zstd_bomb),
    ],
)
def test_a_bomb_costs_no_more_than_its_limit_allows(
    kind: CompressionType, bomb: Callable[[], bytes]
) -> None:
    body = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(CompressionFailed, match=f"{len(body)} bytes decompresses to more than"):
            decompress(body, kind, limit=4 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What came in, what was opened, and one copy of each on the way.
    assert peak < 2 * (len(body) + 4 * MIB) + MIB


@pytest.mark.parametrize("kind", FRAMED)
def test_frames_in_a_row_are_joined_as_in_java(kind: CompressionType) -> None:
    body = compress(b"one ", kind) + compress(b"two", kind)

    assert decompress(body, kind) == b"one two"
    with pytest.raises(CompressionFailed):
        decompress(body[:-1], kind)


@pytest.mark.parametrize("kind", FRAMED)
def test_a_body_of_countless_frames_is_refused(kind: CompressionType) -> None:
    with pytest.raises(CompressionFailed, match="more than 100 frames"):
        decompress(compress(b"", kind) * 1000, kind)


@pytest.mark.parametrize("kind", FRAMED)
@pytest.mark.parametrize("tail", [b"x", b"garbage!!"])
def test_other_bytes_after_a_frame_are_refused(kind: CompressionType, tail: bytes) -> None:
    with pytest.raises(CompressionFailed):
        decompress(compress(b"one", kind) + tail, kind)


def test_bytes_after_a_zlib_stream_are_ignored_as_in_java() -> None:
    body = compress(b"one", CompressionType.ZLIB)

    assert decompress(body + b"garbage!!", CompressionType.ZLIB) == b"one"


def test_lz4_blocks_do_not_refer_to_each_other() -> None:
    # lz4-java opens no other frames.
    body = compress(bytes(9 * MIB), CompressionType.LZ4)

    assert lz4.frame.get_frame_info(body)["block_linked"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_limit_is_refused(kind: CompressionType) -> None:
    with pytest.raises(InvalidInput, match="not -1"):
        decompress(compress(b"body", kind), kind, limit=-1)


def test_unknown_type_bits_are_refused() -> None:
    with pytest.raises(CompressionFailed, match="compression type 4"):
        CompressionType.of(0x401)


@pytest.mark.parametrize(
    ("kind", "level"), [(CompressionType.ZLIB, 10), (CompressionType.ZSTD, 23)]
)
def test_a_level_the_type_does_not_have_is_refused(kind: CompressionType, level: int) -> None:
    with pytest.raises(InvalidInput, match=f"not {level}") as caught:
        compress(b"body", kind, level=level)
    assert caught.value.field == "level"


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [(CompressionType.LZ4, "lz4.frame", "lz4"), (CompressionType.ZSTD, "zstandard", "zstd")],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: CompressionType, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    for use in (compress, decompress):
        with pytest.raises(MissingExtra, match=rf"orbitmq\[{extra}\]") as caught:
            use(b"body", kind)
        assert caught.value.extra == extra
