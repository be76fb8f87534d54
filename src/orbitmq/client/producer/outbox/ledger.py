"""Which of the kept messages may be sent now: in order for each key, and not again too soon.

::

    kept ──▶ in its lane ── first of the lane, and due ──▶ taken ──▶ sent ──▶ out
                 ▲                                           │
                 └────── failed: the lane waits longer ──────┘──▶ refused: the lane goes on

Messages of one sharding key, or of one chosen queue, share a lane; any other has one of its own.
Time comes in as an argument.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orbitmq.client.producer.outbox.records import Kept
from orbitmq.message.model import Message, MessageQueue

__all__ = ["Entry", "Ledger", "lane_of"]

FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 30_000


class Entry(NamedTuple):
    """A message of the outbox as it is shown; its body stays in the file.

    Attributes:
        sequence: its number, in the order of keeping.
        size: the bytes of its record in the file.
        lane: what it must stay in order with.
        topic: where it goes.
        message_id: its unique id.
        kept_ms: when it was kept.
        body_bytes: the length of its body.
        reason: why it could not be sent at first; of a refused one, why it never will.

    """

    sequence: int
    size: int
    lane: str
    topic: str
    message_id: str
    kept_ms: int
    body_bytes: int
    reason: str

    @classmethod
    def of(cls, sequence: int, size: int, kept: Kept) -> "Entry":
        """Return the entry of a message whose record has so many bytes."""
        message = kept.message
        return cls(
            sequence,
            size,
            lane_of(message, kept.queue) or f"#{sequence}",
            message.topic,
            message.message_id or "",
            kept.kept_ms,
            len(message.body),
            kept.reason,
        )


def lane_of(message: Message, queue: MessageQueue | None) -> str | None:
    """Return what a message must stay in order with; None if with nothing.

    >>> lane_of(Message("orders", b"paid", sharding_key="o-42"), None)
    'orders/o-42'
    """
    if message.sharding_key is not None:
        return f"{message.topic}/{message.sharding_key}"
    if queue is not None:
        return f"{message.topic}@{queue.broker_name}:{queue.queue_id}"
    return None


@dataclass(slots=True)
class _Lane:
    name: str
    entries: deque[Entry] = field(default_factory=deque)
    wait_ms: int = 0


class Ledger:
    """The messages of an outbox, and when each may be tried.

    Attributes:
        live_bytes: what the records of kept and refused messages take.

    """

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._later: list[tuple[int, int, _Lane]] = []
        self._paused: dict[str, tuple[int, int]] = {}
        self._entries: dict[int, Entry] = {}
        self._refused: dict[int, Entry] = {}
        self.live_bytes = 0

    def __repr__(self) -> str:
        return f"<Ledger {len(self._entries)} kept in {len(self._lanes)} lanes>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[Entry]:
        """What waits to be sent, in the order of keeping."""
        return sorted(self._entries.values())

    @property
    def refused(self) -> list[Entry]:
        """What will not be sent without help, in the order of keeping."""
        return sorted(self._refused.values())

    def holds(self, lane: str) -> bool:
        """Return whether messages of a lane wait: a newer one must not overtake them."""
        return lane in self._lanes

    def add(self, entry: Entry) -> None:
        """Take a message in, behind the others of its lane."""
        self._entries[entry.sequence] = entry
        self.live_bytes += entry.size
        lane = self._lanes.get(entry.lane)
        if lane is None:
            lane = self._lanes[entry.lane] = _Lane(entry.lane)
            self._ready.append(lane)
        lane.entries.append(entry)

    def take(self, now_ms: int, limit: int) -> list[Entry]:
        """Return messages that may be sent now, one for each lane.

        The caller owes each of them a ``sent``, ``failed`` or ``refuse``.
        """
        while self._later and self._later[0][0] <= now_ms:
            self._ready.append(heapq.heappop(self._later)[2])
        taken: list[Entry] = []
        while self._ready and len(taken) < limit:
            lane = self._ready.popleft()
            entry = lane.entries[0]
            until_ms, _ = self._paused.get(entry.topic, (0, 0))
            if until_ms > now_ms:
                heapq.heappush(self._later, (until_ms, entry.sequence, lane))
            else:
                taken.append(entry)
        return taken

    def due_ms(self) -> int | None:
        """Return when something may be sent next, 0 for now; None if nothing waits for time."""
        if self._ready:
            return 0
        return self._later[0][0] if self._later else None

    def sent(self, entry: Entry) -> None:
        """Note that a taken message was sent: its topic works, and its lane goes on."""
        self._paused.pop(entry.topic, None)
        self._leave(entry)
        self.live_bytes -= entry.size

    def refuse(self, entry: Entry, reason: str) -> None:
        """Note that no try will ever send a taken message: it is set aside, its lane goes on."""
        self._leave(entry)
        self._refused[entry.sequence] = entry._replace(reason=reason)

    def set_aside(self, entry: Entry) -> None:
        """Take a message in that was refused before."""
        self._refused[entry.sequence] = entry
        self.live_bytes += entry.size

    def failed(self, entry: Entry, now_ms: int) -> None:
        """Note that a taken message could not be sent yet: its lane waits, longer each time."""
        lane = self._lanes[entry.lane]
        lane.wait_ms = min(max(2 * lane.wait_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)
        heapq.heappush(self._later, (now_ms + lane.wait_ms, entry.sequence, lane))

    def pause(self, topic: str, now_ms: int) -> None:
        """Try nothing of a topic for a while, longer each time until something of it is sent.

        For when all of a topic fails: a hundred thousand lanes need not each find that out.
        """
        _, waited_ms = self._paused.get(topic, (0, 0))
        wait_ms = min(max(2 * waited_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)
        self._paused[topic] = (now_ms + wait_ms, wait_ms)

    def drop(self, sequence: int) -> Entry:
        """Take a refused message out, for good or to ``add`` it again, and return it.

        Raises:
            KeyError: no refused message has the number.

        """
        entry = self._refused.pop(sequence)
        self.live_bytes -= entry.size
        return entry

    def _leave(self, entry: Entry) -> None:
        lane = self._lanes[entry.lane]
        lane.entries.popleft()
        lane.wait_ms = 0
        del self._entries[entry.sequence]
        if lane.entries:
            self._ready.append(lane)
        else:
            del self._lanes[entry.lane]
