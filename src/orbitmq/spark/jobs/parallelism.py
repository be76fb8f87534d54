"""How many tasks a session runs at once."""

from typing import Final

from pyspark.sql import SparkSession

__all__ = ["parallelism"]

_REMOTE: Final = 8
"""Taken for Spark Connect, which doesn't say how many cores there are."""


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once; an assumption with Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    return _REMOTE if context is None else max(1, int(context.defaultParallelism))
