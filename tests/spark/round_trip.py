"""Reads a topic by a batch and by a stream, and writes another one, wherever Spark runs.

Prints what each has read, and what was written as it is read again.

python -m tests.spark.round_trip NAMESERVER TOPIC DIRECTORY (master | remote) ADDRESS
"""

import json
import os
import sys

from orbitmq.spark import session


def main(nameserver: str, topic: str, directory: str, kind: str, address: str) -> None:
    # Executors are started as quickly as the suite starts all others.
    executors = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", "")}
    config = executors if kind == "master" else None
    spark = session("round_trip", config=config, **{kind: address})
    told = {"nameserver": nameserver, "subscribe": topic, "columns": "value,tags"}
    batch = spark.read.format("rocketmq").options(**told).load().where("tags = 't1'")
    stream = spark.readStream.format("rocketmq").options(**told, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("path", f"{directory}/files")
    writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    copies = f"{topic}-by-{kind}"
    rows = batch.selectExpr("value", "tags", "'o-42' AS key", "'k' AS sharding_key")
    to_copies = {"nameserver": nameserver, "topic": copies}
    rows.write.format("rocketmq").options(**to_copies).mode("append").save()
    again = spark.read.format("rocketmq").options(**{**told, "subscribe": copies}).load()
    read = {
        "batch": sorted(int(row.value) for row in batch.collect()),
        "stream": sorted(
            int(row.value) for row in spark.read.parquet(f"{directory}/files").collect()
        ),
        "written": sorted((int(row.value), row.tags) for row in again.collect()),
    }
    print(json.dumps(read))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
