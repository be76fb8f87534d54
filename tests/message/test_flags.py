import json
from pathlib import Path

import pytest

from orbitmq.errors import CompressionFailed
from orbitmq.message import flags

GOLDEN: dict[str, int] = json.loads(
    (Path(__file__).parent.parent / "golden" / "constants.json").read_text()
)["message_sys_flag"]

OURS = {
    "COMPRESSED_FLAG": flags.COMPRESSED,
    "MULTI_TAGS_FLAG": flags.MULTI_TAGS,
    "TRANSACTION_NOT_TYPE": flags.TRANSACTION_NONE,
    "TRANSACTION_PREPARED_TYPE": flags.TRANSACTION_PREPARED,
    "TRANSACTION_COMMIT_TYPE": flags.TRANSACTION_COMMIT,
    "TRANSACTION_ROLLBACK_TYPE": flags.TRANSACTION_ROLLBACK,
    "BORNHOST_V6_FLAG": flags.BORN_HOST_IPV6,
    "STOREHOSTADDRESS_V6_FLAG": flags.STORE_HOST_IPV6,
    "NEED_UNWRAP_FLAG": flags.NEED_UNWRAP,
    "INNER_BATCH_FLAG": flags.INNER_BATCH,
    "COMPRESSION_LZ4_TYPE": flags.COMPRESSION_LZ4,
    "COMPRESSION_ZSTD_TYPE": flags.COMPRESSION_ZSTD,
    "COMPRESSION_ZLIB_TYPE": flags.COMPRESSION_ZLIB,
    "COMPRESSION_TYPE_COMPARATOR": flags.COMPRESSION_MASK,
}


def test_every_bit_is_where_java_has_it() -> None:
    assert OURS == GOLDEN


@pytest.mark.parametrize(
    ("sys_flag", "expected"),
    [
        (0x000, flags.COMPRESSION_NONE),
        (0x001, flags.COMPRESSION_ZLIB),
        (0x101, flags.COMPRESSION_LZ4),
        (0x201, flags.COMPRESSION_ZSTD),
        (0x301, flags.COMPRESSION_ZLIB),
        (0x700, flags.COMPRESSION_NONE),
        (0x10D, flags.COMPRESSION_LZ4),
    ],
)
def test_compression_type(sys_flag: int, expected: int) -> None:
    assert flags.compression_type(sys_flag) == expected


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_unknown_compression_type_is_named(kind: int) -> None:
    with pytest.raises(CompressionFailed, match=f"compression type {kind};"):
        flags.compression_type(flags.COMPRESSED | kind << 8)


def test_transaction_state_is_exchanged_alone() -> None:
    other_bits = 0x7FFF_FFFF & ~flags.TRANSACTION_MASK
    for state in (0x0, 0x4, 0x8, 0xC):
        changed = flags.with_transaction_state(0x7FFF_FFFF, state)
        assert flags.transaction_state(changed) == state
        assert changed & ~flags.TRANSACTION_MASK == other_bits


@pytest.mark.parametrize(
    ("sys_flag", "words"),
    [
        (0, "none"),
        (0x1, "compressed (zlib)"),
        (0x501, "compressed (unknown type 5)"),
        (0x200, "was compressed (zstd)"),
        (0x8, "committed"),
        (0xC, "rolled back"),
        (0xF2, "several tags, born host IPv6, store host IPv6, needs unwrap, inner batch"),
        (0x1000, "unknown bits 0x1000"),
        (-0x8000_0000, "unknown bits 0x80000000"),
    ],
)
def test_describe(sys_flag: int, words: str) -> None:
    assert flags.describe(sys_flag) == words
