"""Bloom filter data: the bits that stand for a filter, in consumerFilter.json.

A Java broker with ``enableCalcFilterBitMap`` notes in a queue's extension which filters a message
passes, and drops all of consumerFilter.json if its bits are not those of its own settings. This
broker evaluates every filter, and only writes the bits.
"""

import math
from functools import lru_cache
from typing import Final

from orbitmq.broker.pulling.filter_data import BloomFilterData

__all__ = ["bloom_data", "murmur3_64"]

_64_BITS: Final = 2**64 - 1
_32_BITS: Final = 2**32 - 1
_FACTORS: Final = (0x87C37B91114253D5, 0x4CF5AD432745937F)
_MIXES: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
_BLOCK: Final = 16
_REMEMBERED_MAX: Final = 16_384


@lru_cache(_REMEMBERED_MAX)
def bloom_data(text: str, *, error_percent: int, expected: int) -> BloomFilterData:
    """Return the bits of a text in a filter for ``expected`` texts; Java's BloomFilter.

    >>> bloom_data("group#topic", error_percent=20, expected=32).bit_num
    112
    """
    error = error_percent / 100
    hashes = math.ceil(math.log(error) / math.log(0.5))
    bits = math.ceil(expected * (math.log(1 / error) / math.log(2)) * (1 / math.log(2)))
    bits = 8 * math.ceil(bits / 8)
    hashed = murmur3_64(text.encode())
    low, high = hashed & _32_BITS, hashed >> 32
    places = []
    for number in range(1, hashes + 1):
        combined = (low + number * high) & _32_BITS
        if combined >> 31:  # negative as an int of Java
            combined = ~combined & _32_BITS
        places.append(combined % bits)
    return BloomFilterData(bit_num=bits, bit_pos=tuple(places))


def murmur3_64(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3's 128 (x64, seed 0).

    >>> f"{murmur3_64(b'hello'):x}"
    'cbd8a7b341bd9b02'
    """
    one = other = 0
    whole = len(data) - len(data) % _BLOCK
    for start in range(0, whole, _BLOCK):
        first = int.from_bytes(data[start : start + 8], "little")
        second = int.from_bytes(data[start + 8 : start + 16], "little")
        one = _rotate(one ^ _scramble(first, 31, *_FACTORS), 27) + other
        one = (one * 5 + 0x52DCE729) & _64_BITS
        other = _rotate(other ^ _scramble(second, 33, *reversed(_FACTORS)), 31) + one
        other = (other * 5 + 0x38495AB5) & _64_BITS
    rest = data[whole:]
    one ^= _scramble(int.from_bytes(rest[:8], "little"), 31, *_FACTORS)
    other ^= _scramble(int.from_bytes(rest[8:], "little"), 33, *reversed(_FACTORS))
    one ^= len(data)
    other ^= len(data)
    one = (one + other) & _64_BITS
    other = (other + one) & _64_BITS
    return (_mixed(one) + _mixed(other)) & _64_BITS


def _scramble(value: int, turns: int, first: int, second: int) -> int:
    return _rotate(value * first & _64_BITS, turns) * second & _64_BITS


def _rotate(value: int, turns: int) -> int:
    return (value << turns | value >> (64 - turns)) & _64_BITS


def _mixed(value: int) -> int:
    for factor in _MIXES:
        value = (value ^ value >> 33) * factor & _64_BITS
    return value ^ value >> 33
