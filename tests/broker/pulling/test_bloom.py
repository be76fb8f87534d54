import pytest

from orbitmq.broker.pulling.bloom import bloom_data, murmur3_64


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_the_hash_of_published_texts(data: bytes, hashed: int) -> None:
    assert murmur3_64(data) == hashed


@pytest.mark.parametrize(
    ("error_percent", "expected", "bits", "hashes"),
    [(20, 32, 112, 3), (1, 1, 16, 7), (99, 8, 8, 1)],
)
def test_a_lower_error_rate_needs_more_bits(
    error_percent: int, expected: int, bits: int, hashes: int
) -> None:
    data = bloom_data("billing#orders", error_percent=error_percent, expected=expected)
    assert (data.bit_num, len(data.bit_pos)) == (bits, hashes)
    assert all(0 <= place < bits for place in data.bit_pos)
