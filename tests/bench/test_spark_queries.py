import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.spark import fill, ours
from bench.spark_queries import QUERIES
from orbitmq import embedded


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_queries_read_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    with embedded.start() as running:
        fill(running.nameserver, 100)
        (source,) = ours(running.nameserver, [100])

        for query in QUERIES:
            query.run(spark, source, tmp_path)
        with pytest.raises(RuntimeError, match="read 100 messages, not 99"):
            QUERIES[0].run(spark, source._replace(messages=99), tmp_path)

    written = spark.read.parquet(os.fspath(tmp_path / "rocketmq"))
    assert written.count() == 100
    assert written.columns == ["key", "value", "topic", "queue_id", "queue_offset", "timestamp"]
