"""Which consumer of a group reads which queues, where the broker decides: Java's strategies.

::

    queues   0 1 2 3 4 5 6
    AVG            a a a b b c c       neighbours stay together, the first get one more
    AVG_BY_CIRCLE  a b c a b c a       dealt like cards
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from orbitmq.message.model import MessageQueue

__all__ = ["STRATEGIES", "Strategy"]

Strategy: TypeAlias = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]
"""Returns the queues, of all, for a consumer: its place among so many."""


def _averagely(
    queues: Sequence[MessageQueue], place: int, consumers: int
) -> Sequence[MessageQueue]:
    share, rest = divmod(len(queues), consumers)
    first = place * share + min(place, rest)
    return queues[first : first + share + (place < rest)]


def _by_circle(
    queues: Sequence[MessageQueue], place: int, consumers: int
) -> Sequence[MessageQueue]:
    return queues[place::consumers]


STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": _averagely, "AVG_BY_CIRCLE": _by_circle}
"""By the names that consumers send; Java's broker has these two as well."""
