"""The cluster that copies go to, as a task uses it."""

from collections.abc import Sequence

import msgspec

from orbitmq.blocking import Admin
from orbitmq.errors import ConnectFailed, DataLost, InvalidInput, NoRoute
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.cluster.cluster import cluster_for
from orbitmq.spark.columns.row_builder import read_slice
from orbitmq.spark.offset_json import queue_name
from orbitmq.spark.offsets import Bound, Range, Slice
from orbitmq.spark.options.options import ReadOptions, Topics, WriteOptions
from orbitmq.spark.writing.producers import producer_for
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from orbitmq.spark.writing.topics import ensure_topic

__all__ = ["ClusterTarget", "target_queues"]


class ClusterTarget:
    """A cluster by the options of a write; see ``sender.Target``."""

    def __init__(self, options: WriteOptions) -> None:
        # No send is repeated by the producer: what is stored is known by looking.
        self._options = msgspec.structs.replace(options, retries=0)

    def end(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue gets."""
        return self._range(queue).max

    def ids(self, queue: MessageQueue, start: int) -> set[str]:
        """Return the ids of the copies in a queue from an offset on.

        Raise DataLost if the queue no longer has what was stored since.
        """
        has = self._range(queue)
        if not has.min <= start <= has.max:
            raise DataLost(
                f"topic {queue.topic}, queue {queue_name(queue)} has offsets {has.min} up to "
                f"{has.max}, so what was sent to it from {start} on can't be found: it expired, or "
                "the topic was made again. Replay with another ledger, into another topic",
                queue=queue,
                wanted=start,
                available=(has.min, has.max),
            )
        options = ReadOptions(
            access=self._options.access,
            topics=Topics(assigned=(queue,)),
            start=Bound("earliest"),
            end=Bound("latest"),
            columns=("properties",),
        )
        found: set[str] = set()
        batches = read_slice(
            cluster_for(self._options.access), Slice(queue, start, has.max), options
        )
        for batch in batches:
            for pairs in batch.column(0).to_pylist():
                found.update(text for name, text in pairs or () if name == ORBIT_ID)
        return found

    def send(self, messages: Sequence[Message], queue: MessageQueue) -> int:
        """Send messages in order, once; return the offset behind the last when all are stored."""
        receipts = producer_for(self._options).send_many(
            messages, queues=[queue] * len(messages), frame_bytes=self._options.batch_bytes
        )
        return receipts[-1].queue_offset + 1

    def _range(self, queue: MessageQueue) -> Range:
        found = cluster_for(self._options.access).bounds([queue])[queue]
        if found.is_replica:  # it may lack what the primary has
            raise ConnectFailed(
                f"the primary of {queue.broker_name} can't be reached, and a replica doesn't know "
                "all that was sent"
            )
        return found


def target_queues(options: WriteOptions, topic: str, queues: int) -> list[MessageQueue]:
    """Return the queues to write to; a missing topic is made, with so many queues on each broker.

    Raise InvalidInput if it has none that can be written to, and what the cluster raises.
    """
    producer = producer_for(options)
    try:
        producer.queues(topic)
    except NoRoute:
        with Admin(client=producer.client_settings) as admin:
            admin.create_topic(topic, queues=queues)
    ensure_topic(options, topic)
    found = [*producer.queues(topic)]
    if not found:
        raise InvalidInput(f"topic {topic} has no queue to write to", field="to_topic")
    return found
