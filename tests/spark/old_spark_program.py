"""Reads and writes a topic with a Spark that can't stream from it; prints what came of each.

python -m tests.spark.old_spark_program NAMESERVER TOPIC DIRECTORY
"""

import json
import sys
from pathlib import Path

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from orbitmq.spark import session


class Program:
    def __init__(self, spark: SparkSession, nameserver: str, topic: str, directory: Path) -> None:
        self._spark = spark
        self._nameserver = nameserver
        self._topic = topic
        self._directory = directory

    def read(self, tags: str = "*") -> list[int]:
        """Return the bodies of some tags."""
        told = {"nameserver": self._nameserver, "subscribe": self._topic, "tags": tags}
        frame = self._spark.read.format("rocketmq").options(**told).load()
        return sorted(int(row.value) for row in frame.collect())

    def write(self, tags: str) -> None:
        """Write three messages."""
        rows = self._spark.createDataFrame(
            [(str(n), tags) for n in range(3)], "value string, tags string"
        )
        told = {"nameserver": self._nameserver, "topic": self._topic}
        rows.write.format("rocketmq").options(**told).mode("append").save()

    def write_stream(self, tags: str) -> None:
        """Write three messages by a stream of files."""
        files = str(self._directory / "files")
        self._spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.parquet(files)
        rows = self._spark.readStream.schema("value string").parquet(files)
        writer = rows.selectExpr("value", f"'{tags}' AS tags").writeStream.format("rocketmq")
        writer = writer.options(nameserver=self._nameserver, topic=self._topic)
        writer = writer.option("checkpointLocation", str(self._directory / "written"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def refusal(self) -> str:
        """Return the error of a streaming read."""
        told = {"nameserver": self._nameserver, "subscribe": self._topic}
        rows = self._spark.readStream.format("rocketmq").options(**told).load()
        writer = rows.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(self._directory / "read"))
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return ""


def main(nameserver: str, topic: str, directory: str) -> None:
    spark = session("old_spark_program", master="local[2]")
    program = Program(spark, nameserver, topic, Path(directory))
    found: dict[str, object] = {"version": pyspark.__version__, "read": program.read()}
    program.write("batch")
    program.write_stream("stream")
    found["written"] = [program.read("batch"), program.read("stream")]
    found["refused"] = program.refusal()
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
