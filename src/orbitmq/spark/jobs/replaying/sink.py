"""The sink that the rows of a replay are written to: a format of Spark's, for the job alone.

A data source and not ``format("rocketmq")``, whose tasks send at least once: here each task reads
the ledger and the target before it sends.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq.clock import SystemClock, pause
from orbitmq.message.model import MessageQueue
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.jobs.replaying.copies import copies
from orbitmq.spark.jobs.replaying.ledger import Ledger
from orbitmq.spark.jobs.replaying.pace import Pace, Rate
from orbitmq.spark.jobs.replaying.sender import QueueReplay
from orbitmq.spark.jobs.replaying.target import ClusterTarget
from orbitmq.spark.locations.location import Location
from orbitmq.spark.options.options import WriteOptions, write_options

__all__ = ["FORMAT", "PLAN", "ReplaySink", "SinkPlan"]

FORMAT: Final = "orbitmq-replay"
PLAN: Final = "orbitReplayPlan"
"""The option with the plan; the others are those of a write with ``format("rocketmq")``."""


class SinkPlan(msgspec.Struct, frozen=True):
    """What the tasks of a replay know."""

    topic: str
    ledger: str
    queues: Sequence[tuple[MessageQueue, MessageQueue]]
    """Source queues and their target queues; one that appears later goes to the first."""
    rate: Rate
    """Of one task."""


class ReplaySink(DataSource):
    """Creates the writer of a replay."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Return the writer."""
        options = dict(self.options)
        texts = [options.pop(name) for name in [*options] if name.lower() == PLAN.lower()]
        plan = msgspec.json.decode(texts[0], type=SinkPlan)
        return _Writer(write_options(options), plan)


class _Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, plan: SinkPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task, queue after queue."""
        plan = self._plan
        target, ledger = ClusterTarget(self._options), Ledger(Location(plan.ledger))
        targets: Mapping[MessageQueue, MessageQueue] = dict(plan.queues)
        pace, clock = Pace(plan.rate), SystemClock()
        attempt = SystemRandomness().token(8).hex()
        current: QueueReplay | None = None
        for batch in iterator:
            for queue, found in copies(batch, plan.topic):
                if current is None or current.source != queue:
                    if current is not None:
                        current.close()
                    current = QueueReplay(
                        *(ledger, target, queue, targets.get(queue, plan.queues[0][1])),
                        attempt=attempt,
                        clock=clock,
                        pause=pause,
                    )
                current.send(found, pace, plan.rate)
        if current is not None:
            current.close()
        return WriterCommitMessage()
