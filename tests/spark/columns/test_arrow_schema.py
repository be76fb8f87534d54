import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.schema import READ_COLUMNS, read_schema


@pytest.mark.parametrize("columns", [READ_COLUMNS, ("timestamp", "key"), ("properties",)])
def test_arrow_batches_have_the_schema_that_spark_asks_for(columns: tuple[str, ...]) -> None:
    assert arrow_schema(columns).equals(to_arrow_schema(read_schema(columns), timezone="UTC"))
    assert tuple(read_schema(columns).fieldNames()) == columns
