"""Functions over Arrow batches run in tasks."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions

from orbitmq.spark.jobs.arrow_tasks import map_in_arrow


def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = [2 * number for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"twice": numbers})


def test_no_pandas_is_asked_for(spark: SparkSession) -> None:
    """With its warnings errors, as here, PySpark's check for pandas would fail."""
    check = vars(functions)["require_minimum_pandas_version"]
    found = map_in_arrow(spark.range(0, 4, 1, 2), doubled, "twice bigint").collect()
    assert sorted(row.twice for row in found) == [0, 2, 4, 6]
    assert vars(functions)["require_minimum_pandas_version"] is check
