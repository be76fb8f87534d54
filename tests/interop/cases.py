"""Random cases for the interop tests: how many, from which seed, and what a case may hold.

``ORBITMQ_SOAK=1`` multiplies the numbers. A failing test prints its seed; ``ORBITMQ_SEED=n``
repeats that run.
"""

import os
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from tests.interop.operations import Address

T = TypeVar("T")

CASES = 2_000 * (20 if os.environ.get("ORBITMQ_SOAK") == "1" else 1)
"""The number of cases of one kind in one run."""

CHUNK = 2_000
"""Cases in one round trip: what either side holds in memory at a time."""

NAME_LETTERS = "abcxyzABCXYZ0189_-%|"

# Ranges of characters that codecs treat differently; surrogates are asked for by name.
ALPHABETS = (
    (0x20, 0x7E),  # ASCII
    (0x00, 0x1F),  # controls, among them the separators of properties
    (0xA0, 0x7FF),  # two bytes of UTF-8
    (0x800, 0xD7FF),  # three bytes
    (0xE000, 0xFFFF),  # three bytes, past the surrogates
    (0x10000, 0x10FFFF),  # four bytes, a surrogate pair in Java
)
SURROGATES = (0xD800, 0xDFFF)


class Chance(random.Random):
    """A seeded source of cases, with a weakness for the edges."""

    def int32(self) -> int:
        """Return a number that a Java int holds."""
        return self.integer(-(2**31), 2**31 - 1)

    def int64(self) -> int:
        """Return a number that a Java long holds."""
        return self.integer(-(2**63), 2**63 - 1)

    def integer(self, low: int, high: int) -> int:
        """Return a number between two bounds, often a bound, a small one or a power of two."""
        number = self.choice(
            (
                low,
                high,
                0,
                -1,
                self.randrange(100),
                1 << self.randrange(63),
                self.randint(low, high),
            )
        )
        return number if low <= number <= high else self.randint(low, high)

    def text(self, longest: int = 30, *, without: str = "", surrogates: bool = False) -> str:
        """Return a text of mixed scripts, empty at times; each character from any alphabet."""
        alphabets = (*ALPHABETS, SURROGATES) if surrogates else ALPHABETS
        own = self.choices(alphabets, k=self.choice((1, 1, 3)))
        size = self.choice((0, 1, 2, self.randint(0, longest)))
        letters = (chr(self.randint(*self.choice(own))) for _ in range(size))
        return "".join(letter for letter in letters if letter not in without)

    def name(self, longest: int = 40) -> str:
        """Return a name that a topic or group may have."""
        return "".join(self.choices(NAME_LETTERS, k=self.randint(1, longest)))

    def body(self, longest: int = 300) -> bytes:
        """Return a body: empty, noise, or something that compresses well."""
        return self.choice(
            (
                b"",
                self.randbytes(self.randint(1, longest)),
                self.randbytes(3) * self.randint(1, longest),
            )
        )

    def properties(self, most: int = 6) -> dict[str, str]:
        """Return properties that survive the property format."""
        pairs = (
            (self.text(12, without="\1\2"), self.text(without="\1\2"))
            for _ in range(self.randint(0, most))
        )
        return {name: value for name, value in pairs if name and value}

    def address(self) -> Address:
        """Return a socket address of either family."""
        return Address(self.randbytes(self.choice((4, 16))), self.integer(0, 65535))

    def maybe(self, make: Callable[[], T]) -> T | None:
        """Return what ``make`` makes, or None one time in three."""
        return None if self.randrange(3) == 0 else make()

    def several(self, make: Callable[[], T], count: int = CASES) -> Iterator[list[T]]:
        """Yield ``count`` cases in lists of the size of one round trip."""
        for start in range(0, count, CHUNK):
            yield [make() for _ in range(min(CHUNK, count - start))]
