"""Compressing and decompressing bodies: zlib, LZ4 frames, Zstandard.

The sys flag says that a body is compressed (bit 0) and how (bits 8 to 10). Bodies are decompressed
piece by piece up to a limit, because a few kilobytes can expand to gigabytes.

LZ4 and Zstandard need the extras ``lz4`` and ``zstd``, which are imported on first use.
"""

import enum
import importlib
import sys
import zlib
from types import ModuleType

from orbitmq.errors import CompressionFailed, InvalidInput, MissingExtra
from orbitmq.message import flags
from orbitmq.message.buffer import Buffer

__all__ = ["MAX_BODY_BYTES", "CompressionType", "compress", "decompress"]

MAX_BODY_BYTES = 32 * 1024 * 1024
"""The largest decompressed body, unless the caller passes a limit.

Producers refuse bodies over 4 MiB before compressing, and a frame has at most 16 MiB. Twice that
leaves room for clusters with raised limits, and bounds what a malicious body can cost.
"""

_TYPE_SHIFT = 8  # the type is bits 8 to 10 of the sys flag
DEFAULT_LEVEL = 5  # what Java producers use: rocketmq.message.compressLevel


class CompressionType(enum.IntEnum):
    """How a body is compressed; the value is in bits 8 to 10 of the sys flag.

    >>> CompressionType.ZSTD.sys_flag
    513
    """

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The sys flag bits of a body compressed this way: "compressed", and the type."""
        return flags.COMPRESSED | self << _TYPE_SHIFT

    @classmethod
    def of(cls, sys_flag: int) -> "CompressionType":
        """Return the type that the sys flag of a compressed body names.

        Raise CompressionFailed if it is unknown.

        >>> CompressionType.of(257)
        <CompressionType.LZ4: 1>
        >>> CompressionType.of(1)  # 4.x clients write no type and mean zlib
        <CompressionType.ZLIB: 3>
        """
        return cls(flags.compression_type(sys_flag | flags.COMPRESSED) >> _TYPE_SHIFT)


_LEVELS = {CompressionType.ZLIB: range(10), CompressionType.ZSTD: range(1, 23)}


def compress(body: Buffer, kind: CompressionType, *, level: int = DEFAULT_LEVEL) -> bytes:
    """Return ``body`` compressed so that every Java consumer that knows the type can read it.

    ``level`` is 0 to 9 for zlib and 1 to 22 for Zstandard; LZ4 has none and ignores it. Raise
    MissingExtra if the package for the type is not installed.

    >>> len(compress(b"spam" * 1000, CompressionType.ZLIB)) < 100
    True
    """
    kind = CompressionType(kind)
    if kind in _LEVELS and level not in _LEVELS[kind]:
        levels = _LEVELS[kind]
        raise InvalidInput(
            f"{kind.name} has levels {levels.start} to {levels.stop - 1}, not {level}",
            field="level",
        )
    if kind is CompressionType.LZ4:
        return _pack_lz4(body)
    if kind is CompressionType.ZSTD:
        return _pack_zstd(body, level)
    return zlib.compress(body, level)


def decompress(body: Buffer, kind: CompressionType, *, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return ``body`` decompressed: at most ``limit`` bytes.

    It uses at most about twice the limit of memory, and a copy of the input.

    Bytes after a zlib stream are ignored. LZ4 and Zstandard frames may be followed by more frames
    only, which are joined. Java does the same, but ignores other bytes after a Zstandard frame.
    Raise CompressionFailed if the body is no such stream, is truncated, or exceeds the limit;
    MissingExtra if the package for the type is not installed.

    >>> decompress(compress(b"spam" * 1000, CompressionType.ZLIB), CompressionType.ZLIB)[:8]
    b'spamspam'
    """
    if limit < 0:
        raise InvalidInput(f"limit is a number of bytes, not {limit}", field="limit")
    if kind is CompressionType.LZ4:
        return _open_lz4(body, limit)
    if kind is CompressionType.ZSTD:
        return _open_zstd(body, limit)
    return _open_zlib(body, limit)


def _open_zlib(body: Buffer, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than the limit distinguishes "just fits" from "too large".
        opened = stream.decompress(body, min(limit + 1, sys.maxsize))
    except zlib.error as error:
        raise _unreadable(body, CompressionType.ZLIB, error) from error
    if len(opened) > limit:
        raise _too_large(body, CompressionType.ZLIB, limit)
    if not stream.eof:
        raise _cut_off(body, CompressionType.ZLIB)
    return opened


def _pack_lz4(body: Buffer) -> bytes:
    lz4 = _lz4_frame()
    # lz4-java refuses frames whose blocks refer to each other (LZ4FrameInputStream).
    packed: bytes = lz4.compress(
        body, block_size=lz4.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False
    )
    return packed


# Compressors write one frame; a body of a million empty frames is an attack.
_MOST_FRAMES = 100
_LEAST_LZ4_STEP = 64 * 1024


def _open_lz4(body: Buffer, limit: int) -> bytes:
    lz4 = _lz4_frame()
    opened = bytearray()
    rest = bytes(body)
    for _ in range(_MOST_FRAMES):
        stream = lz4.LZ4FrameDecompressor()
        while not stream.eof:
            # The package allocates max_length up front: ask for what an ordinary body may need.
            step = min(max(_LEAST_LZ4_STEP, 4 * len(body)), limit + 1 - len(opened))
            try:
                opened += stream.decompress(rest, max_length=step)
            except RuntimeError as error:
                raise _unreadable(body, CompressionType.LZ4, error) from error
            if len(opened) > limit:
                raise _too_large(body, CompressionType.LZ4, limit)
            if stream.needs_input and not stream.eof:
                raise _cut_off(body, CompressionType.LZ4)
            rest = b""  # the stream keeps its unread input
        rest = stream.unused_data
        if not rest:
            return bytes(opened)
    raise _too_many_frames(body, CompressionType.LZ4)


# A Zstandard block expands to at most 128 KiB and has at least 4 bytes: a head of 3, and the byte
# that it repeats.
_ZSTD_GROWTH = 128 * 1024 // 4
_LEAST_ZSTD_STEP = 16


def _pack_zstd(body: Buffer, level: int) -> bytes:
    # Threads must not share a compressor, and large bodies are compressed in threads.
    packed: bytes = _zstandard().ZstdCompressor(level=level).compress(body)
    return packed


def _open_zstd(body: Buffer, limit: int) -> bytes:
    # The streaming readers of the package either return an unbounded output, or don't distinguish
    # a truncated frame from a whole one. So the input is fed in steps that can't expand beyond the
    # limit. A frame may also ask for a window of up to 128 MiB, as in Java; only the part that the
    # output fills is ever touched.
    zstd = _zstandard()
    decompressor = zstd.ZstdDecompressor()
    opened = bytearray()
    source = memoryview(body)
    position = 0
    for _ in range(_MOST_FRAMES):
        stream = decompressor.decompressobj()
        while not stream.eof:
            step = max(_LEAST_ZSTD_STEP, (limit - len(opened)) // _ZSTD_GROWTH)
            piece = source[position : position + step]
            if not piece:
                raise _cut_off(body, CompressionType.ZSTD)
            try:
                opened += stream.decompress(piece)
            except zstd.ZstdError as error:
                raise _unreadable(body, CompressionType.ZSTD, error) from error
            if len(opened) > limit:
                raise _too_large(body, CompressionType.ZSTD, limit)
            position += len(piece)
        position -= len(stream.unused_data)
        if position == len(source):
            return bytes(opened)
    raise _too_many_frames(body, CompressionType.ZSTD)


def _unreadable(body: Buffer, kind: CompressionType, error: Exception) -> CompressionFailed:
    return CompressionFailed(f"body of {len(body)} bytes is not a {kind.name} stream: {error}")


def _cut_off(body: Buffer, kind: CompressionType) -> CompressionFailed:
    return CompressionFailed(f"{kind.name} body of {len(body)} bytes is truncated")


def _too_large(body: Buffer, kind: CompressionType, limit: int) -> CompressionFailed:
    return CompressionFailed(
        f"{kind.name} body of {len(body)} bytes decompresses to more than {limit} bytes"
    )


def _too_many_frames(body: Buffer, kind: CompressionType) -> CompressionFailed:
    return CompressionFailed(
        f"{kind.name} body of {len(body)} bytes has more than {_MOST_FRAMES} frames"
    )


def _lz4_frame() -> ModuleType:
    try:
        return importlib.import_module("lz4.frame")
    except ImportError as error:
        raise MissingExtra("an LZ4 body", extra="lz4") from error


def _zstandard() -> ModuleType:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise MissingExtra("a Zstandard body", extra="zstd") from error
