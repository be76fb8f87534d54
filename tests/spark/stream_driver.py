"""A streaming query from a topic into Parquet files, as a process that a test kills.

    python -m tests.spark.stream_driver NAMESERVER TOPIC DIRECTORY STARTING [drain]

It runs until it is killed; with ``drain`` until all that is there has been read, and then writes
the numbers that the files hold to ``DIRECTORY/numbers.json``.
"""

import json
import sys
from pathlib import Path

from orbitmq.spark import session


def main(nameserver: str, topic: str, directory: str, starting: str, mode: str = "") -> None:
    here = Path(directory)
    spark = session(
        "stream_driver",
        master="local[2]",
        config={"spark.local.dir": str(here / "scratch"), "spark.sql.shuffle.partitions": 1},
    )
    stream = spark.readStream.format("rocketmq").options(
        nameserver=nameserver,
        subscribe=topic,
        startingOffsets=starting,
        maxOffsetsPerTrigger="1000",
        columns="value",
        groupId="stream_driver",
    )
    writer = stream.load().writeStream.format("parquet").option("path", str(here / "files"))
    writer = writer.option("checkpointLocation", str(here / "checkpoint"))
    if mode == "drain":
        writer.trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.parquet(str(here / "files")).collect()
        (here / "numbers.json").write_text(json.dumps(sorted(int(row.value) for row in rows)))
    else:
        writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
