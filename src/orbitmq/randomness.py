"""Random numbers: the only module that imports ``random``, ``secrets`` and ``uuid``.

Code takes a :class:`Randomness`: programs pass :class:`SystemRandomness`, tests and simulations
:class:`SeededRandomness`, which makes them repeatable.

>>> dice = SeededRandomness(7)
>>> again = SeededRandomness(7)
>>> [dice.below(6) for _ in range(20)] == [again.below(6) for _ in range(20)]
True

"""

import random
import secrets
import uuid
from collections.abc import Sequence
from typing import Protocol, TypeVar

__all__ = ["Randomness", "SeededRandomness", "SystemRandomness"]

T = TypeVar("T")

_UUID_BYTES = 16


class Randomness(Protocol):
    """A source of random values."""

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1``; ValueError if the limit is below 1."""
        ...

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items; IndexError if there is none."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """Return a float between ``low`` and ``high``."""
        ...

    def token(self, byte_count: int) -> bytes:
        """Return that many random bytes."""
        ...

    def uuid4(self) -> str:
        """Return a random UUID as text, lower case with dashes."""
        ...


class _RandomNumbers:
    """The methods of ``Randomness`` that any ``random.Random`` can implement."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1``; ValueError if the limit is below 1."""
        return self._numbers.randrange(limit)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items; IndexError if there is none."""
        return self._numbers.choice(items)

    def uniform(self, low: float, high: float) -> float:
        """Return a float between ``low`` and ``high``."""
        return self._numbers.uniform(low, high)


class SystemRandomness(_RandomNumbers):
    """Unpredictable values: tokens from the system, numbers from a generator that it seeds.

    >>> len(SystemRandomness().token(8))
    8
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(random.Random(secrets.randbits(128)))

    def token(self, byte_count: int) -> bytes:
        """Return that many random bytes, good enough for a secret."""
        return secrets.token_bytes(byte_count)

    def uuid4(self) -> str:
        """Return a random UUID as text."""
        return str(uuid.uuid4())


class SeededRandomness(_RandomNumbers):
    """The same values every time for the same seed; not for secrets.

    >>> SeededRandomness(1).uuid4() == SeededRandomness(1).uuid4()
    True
    """

    __slots__ = ("_seed",)

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self._seed = seed

    def token(self, byte_count: int) -> bytes:
        """Return that many bytes, the same for the same seed and earlier calls."""
        return self._numbers.randbytes(byte_count)

    def uuid4(self) -> str:
        """Return a UUID of version 4 as text, the same for the same seed and earlier calls."""
        return str(uuid.UUID(bytes=self.token(_UUID_BYTES), version=4))

    def __repr__(self) -> str:
        return f"<SeededRandomness seed={self._seed}>"
