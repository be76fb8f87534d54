"""How the suite starts Spark: dozens of times, so each start has to be quick.

Most of a start is loading and verifying classes. ``make counterparts`` runs one session and leaves
the classes it loaded as an archive, which every later start maps into memory: less than half the
time. A Java of another release ignores the archive.
"""

import os
import subprocess
import sys
from collections.abc import MutableMapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from tests.interop import machine
from tests.interop.machine import Counterpart

SECONDS = 300
# A session of the suite lives for seconds: quick to start counts for more than quick to run.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SILENT = "-Xlog:disable"  # a mismatch is no news: the session runs, only slower

TRAINING = """
import sys
from orbitmq import embedded
from orbitmq.spark import session

spark = session("archive", master="local[2]")
with embedded.start() as cluster:
    to = {"nameserver": cluster.nameserver, "topic": "classes"}
    of = {"nameserver": cluster.nameserver, "subscribe": "classes"}
    rows = spark.range(100).selectExpr("cast(cast(id as string) as binary) value", "'k' key")
    rows.repartition(2).write.format("rocketmq").options(**to).mode("append").save()
    read = spark.read.format("rocketmq").options(**of).load()
    read.where("key = 'k'").groupBy("topic").count().collect()
    stream = spark.readStream.format("rocketmq").options(**of, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("path", sys.argv[1] + "/files")
    writer.option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(
        availableNow=True
    ).start().awaitTermination()
    spark.read.parquet(sys.argv[1] + "/files").collect()
spark.stop()
"""


def archive(java_home: Path) -> Path:
    """Return where the archive for a Java is, or would be; another training has another one."""
    training = crc32(TRAINING.encode())
    return machine.HOME / f"spark-{version('pyspark')}-{java_home.name}-{training:08x}.jsa"


def speed_up(environment: MutableMapping[str, str], java_home: Path | None) -> None:
    """Have every Spark that is started with this environment start quickly."""
    options = f"{QUICK} {SILENT}"
    if java_home is not None and archive(java_home).is_file():
        options += f" -XX:SharedArchiveFile={archive(java_home)}"
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        environment.setdefault(name, options)


def ensure(java_home: Path | None) -> Counterpart:
    """Make the archive if there is none; without it the suite only takes longer."""
    name = "spark classes"
    if java_home is None:
        return Counterpart(name, "skipped", "no Java")
    place = archive(java_home)
    if place.is_file():
        return Counterpart(name, "found", place.name)
    options = f"{QUICK} {SILENT} -XX:ArchiveClassesAtExit={place}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        trained = subprocess.run(
            [sys.executable, "-c", TRAINING, folder],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options, "JAVA_HOME": str(java_home)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if place.is_file():
        return Counterpart(name, "installed", place.name)
    lines = trained.stderr.strip().splitlines() or ["Java left no archive"]
    return Counterpart(name, "skipped", f"Spark starts will be slow: {lines[-1]}")
