"""The reader of a stream that can't be read; it loads on old Spark versions too."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader):
    """Raises an error at its first use.

    An error from ``DataSource.streamReader`` itself never reaches the user: PySpark's runner then
    fails on an unset name and shows that instead (4.3.0).
    """

    # Spark's names
    # ruff: noqa: N802

    def __init__(self, error: OrbitError) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> NoReturn:
        """Raise the error: Spark calls this first, from 4.2 on."""
        raise self._error

    def initialOffset(self) -> NoReturn:
        """Raise the error."""
        raise self._error

    def latestOffset(self, *_arguments: object) -> NoReturn:
        """Raise the error; before 4.2 there are no arguments."""
        raise self._error

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":  # noqa: ARG002
        """Raise the error."""
        raise self._error
