"""Reads a topic by a batch and by a stream, wherever Spark runs; prints what each has read.

python -m tests.spark.read_program NAMESERVER TOPIC DIRECTORY (master | remote) ADDRESS
"""

import json
import sys

from orbitmq.spark import session


def main(nameserver: str, topic: str, directory: str, kind: str, address: str) -> None:
    spark = session("read_program", **{kind: address})  # type: ignore[arg-type]  # one of two names
    told = {"nameserver": nameserver, "subscribe": topic, "columns": "value,tags"}
    batch = spark.read.format("rocketmq").options(**told).load().where("tags = 't1'")
    stream = spark.readStream.format("rocketmq").options(**told, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("path", f"{directory}/files")
    writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    read = {
        "batch": sorted(int(row.value) for row in batch.collect()),
        "stream": sorted(
            int(row.value) for row in spark.read.parquet(f"{directory}/files").collect()
        ),
    }
    print(json.dumps(read))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
