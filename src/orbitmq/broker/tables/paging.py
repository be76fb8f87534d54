"""Pages of a table, for tools and replicas that ask for them."""

from collections.abc import Mapping
from itertools import islice
from typing import TypeVar

from orbitmq.errors import InvalidBody
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["page"]

V = TypeVar("V")


def page(
    table: Mapping[str, V], version: DataVersion, *, first: int, count: int, known: str | None
) -> dict[str, V]:
    """Return a page of a table, sorted by name: at most ``count`` entries after the ``first`` ones.

    ``known`` is the version, as JSON, of the earlier pages. If it is missing or different, the
    first page is returned: entries may have moved (TopicConfigManager in Java).

    >>> page({"b": 1, "a": 2}, DataVersion(), first=1, count=5, known='{"counter":0}')
    {'b': 1}
    >>> page({"b": 1, "a": 2}, DataVersion(), first=1, count=5, known=None)
    {'a': 2, 'b': 1}
    """
    begin = max(first, 0) if known and _read(known) == version else 0
    names = islice(sorted(table), begin, begin + max(count, 0))
    return {name: table[name] for name in names}


def _read(text: str) -> DataVersion | None:
    try:
        return DataVersion.from_json(text.encode())
    except InvalidBody:
        return None  # not a version of ours, so not this one
