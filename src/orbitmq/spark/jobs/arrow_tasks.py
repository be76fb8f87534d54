"""Python functions over Arrow batches in Spark tasks, without pandas.

PySpark's ``mapInArrow`` asks for pandas before it begins, because a function that it shares with
others does; neither the driver nor the tasks use it then.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module

import pyarrow as pa
from pyspark.sql import DataFrame

__all__ = ["map_in_arrow"]

_CHECK = "require_minimum_pandas_version"


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Return what a function makes of the batches of each task; see ``DataFrame.mapInArrow``."""
    with _without_pandas():
        return frame.mapInArrow(function, schema)


@contextmanager
def _without_pandas() -> Iterator[None]:
    functions = import_module("pyspark.sql.pandas.functions")
    check = getattr(functions, _CHECK, None)
    if check is None:
        yield
        return
    setattr(functions, _CHECK, lambda: None)
    try:
        yield
    finally:
        setattr(functions, _CHECK, check)
