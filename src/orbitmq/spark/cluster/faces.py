"""What readers ask of a cluster, as types; ``Cluster`` serves all of them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Range
from orbitmq.spark.options.options import Topics

__all__ = ["Queues"]


class Queues(Protocol):
    """What a watch asks of a cluster; see ``Cluster``."""

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        """Return the queues of topics."""
        ...

    def bounds(self, queues: Iterable[MessageQueue]) -> Mapping[MessageQueue, Range]:
        """Return where queues begin and end."""
        ...
