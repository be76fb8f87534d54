"""The ledger of a replay: what it replays, and how far each queue is.

::

    LEDGER/
      lock                       who replays (leases/ on object stores)
      replay.json                what is replayed, and to where; another replay is refused
      queues/orders/broker-a-0.json
          {"source": …, "target": …, "done": 1234, "next": 5678, "sent": 900, "attempt": "5f3a…",
           "is_open": true}

``done`` is the last offset of the source queue whose copy is known to be stored. Copies of later
ones may be in the target queue from offset ``next`` on, since queues keep the order: whoever
continues reads the target from there, and finds those that were sent but not noted. An entry is
written before the first copy is sent, and after each piece; it is open while a task may be sending.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.spark.locations.location import Location

__all__ = ["Ledger", "QueueProgress", "ReplayIdentity"]

_QUEUES: Final = "queues"
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_.-]")


class ReplayIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger belongs to."""

    source: str
    target: str
    where: str | None = None
    start_ms: int | None = None


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one queue is replayed."""

    source: MessageQueue
    target: MessageQueue
    done: int = -1
    next: int
    sent: int = 0
    """Copies that are stored, by all runs."""
    attempt: str = ""
    """The attempt of a task that may send; any other one stops."""
    is_open: bool = True


class Ledger:
    """A ledger; its directory is reached by the driver and all tasks."""

    def __init__(self, location: Location) -> None:
        self.location = location

    def claim(self, identity: ReplayIdentity) -> ReplayIdentity:
        """Make the ledger that of a replay; raise InvalidInput if it is another one's.

        Return what the first run said: its beginning counts, since another one would be a replay
        of other messages. So a beginning such as "a day ago" may be given again later.
        """
        found = self.location.load("replay.json", ReplayIdentity)
        if found is None:
            self.location.replace("replay.json", msgspec.json.encode(identity))
            return identity
        differing = [
            f"{name} {was!r}, not {now!r}"
            for name, was, now in (
                ("source", found.source, identity.source),
                ("target", found.target, identity.target),
                ("where", found.where, identity.where),
                ("from", found.start_ms is not None, identity.start_ms is not None),
            )
            if was != now
        ]
        if differing:
            raise InvalidInput(
                f"the ledger {self.location.place} is that of another replay: "
                f"{'; '.join(differing)}. Choose another ledger, or repeat the arguments",
                field="ledger",
            )
        return found

    def load(self, queue: MessageQueue) -> QueueProgress | None:
        """Return the entry of a source queue; None if nothing of it was sent."""
        return self.location.load(_name(queue), QueueProgress)

    def save(self, progress: QueueProgress) -> None:
        """Write the entry of a queue."""
        self.location.replace(_name(progress.source), msgspec.json.encode(progress))

    def entries(self) -> Iterator[QueueProgress]:
        """Yield the entries of all queues, sorted by name."""
        for name in self.location.all_files(_QUEUES):
            if name.endswith(".json"):
                found = self.location.load(name, QueueProgress)
                if found is not None:
                    yield found


def _name(queue: MessageQueue) -> str:
    """Return the file of a queue.

    >>> _name(MessageQueue("%DLQ%billing", "broker-a", 3))
    'queues/%25DLQ%25billing/broker-a-3.json'
    """
    return f"{_QUEUES}/{_escaped(queue.topic)}/{_escaped(queue.broker_name)}-{queue.queue_id}.json"


def _escaped(name: str) -> str:
    return _NOT_PLAIN.sub(lambda found: f"%{ord(found[0]):02X}", name)
