"""A streaming query from a topic into another, in transactions, as a process that a test kills.

    python -m tests.spark.transactional_driver NAMESERVER TOPIC DIRECTORY TARGET [drain]

It runs until it is killed; with ``drain`` until all that is there has been copied.
"""

import sys
from pathlib import Path

from orbitmq.spark import session


def main(nameserver: str, topic: str, directory: str, target: str, mode: str = "") -> None:
    here = Path(directory)
    spark = session(
        "transactional_driver",
        master="local[2]",
        config={"spark.local.dir": str(here / "scratch"), "spark.sql.shuffle.partitions": 1},
    )
    stream = spark.readStream.format("rocketmq").options(
        nameserver=nameserver,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="2000",
        columns="key,value",
    )
    writer = (
        stream.load()
        .writeStream.format("rocketmq")
        .options(
            nameserver=nameserver,
            topic=target,
            delivery="transactional",
            checkpointLocation=str(here / "checkpoint"),
        )
    )
    if mode == "drain":
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
