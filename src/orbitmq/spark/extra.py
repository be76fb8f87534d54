"""The extra ``spark``: the error that says what to install when a package of it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from orbitmq.errors import MissingExtra

__all__ = ["needing_extra"]

_PACKAGES: Final = frozenset({"numpy", "py4j", "pyarrow", "pyspark"})


@contextmanager
def needing_extra(purpose: str) -> Iterator[None]:
    """Raise MissingExtra if the block can't import a package of the extra, for what it is needed.

    A missing one of another name is a bug that must show.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtra(purpose, extra="spark") from error
