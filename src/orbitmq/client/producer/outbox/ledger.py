"""Which of the kept messages may be sent now: in order per sharding key, and with retry pauses.

::

    kept ──▶ in its order group ── first of the group, and due ──▶ taken ──▶ sent ──▶ removed
                 ▲                                                   │
                 └────────── failed: the group waits longer ─────────┘──▶ refused: set aside

Messages of one sharding key, or of one chosen queue, form an order group; every other message is
a group of one. Callers pass the time in.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orbitmq.client.producer.outbox.records import Kept
from orbitmq.message.model import Message, MessageQueue

__all__ = ["Entry", "Ledger", "order_group_of"]

FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 30_000


class Entry(NamedTuple):
    """What the outbox shows of a message; its body stays in the file.

    Attributes:
        sequence: its number; later messages have higher ones.
        size: the size of its record in the file, in bytes.
        order_group: messages with the same value are sent in order.
        topic: its topic.
        message_id: its unique id.
        kept_ms: when it was kept.
        body_bytes: the length of its body.
        reason: why it could not be sent at first; for a refused message, why it was refused.
    """

    sequence: int
    size: int
    order_group: str
    topic: str
    message_id: str
    kept_ms: int
    body_bytes: int
    reason: str

    @classmethod
    def of(cls, sequence: int, size: int, kept: Kept) -> "Entry":
        """Return the entry of a kept message; ``size`` is that of its record, in bytes."""
        message = kept.message
        return cls(
            sequence,
            size,
            order_group_of(message, kept.queue) or f"#{sequence}",
            message.topic,
            message.message_id or "",
            kept.kept_ms,
            len(message.body),
            kept.reason,
        )


def order_group_of(message: Message, queue: MessageQueue | None) -> str | None:
    """Return the order group of a message; None if it may be sent in any order.

    >>> order_group_of(Message("orders", b"paid", sharding_key="o-42"), None)
    'orders/o-42'
    """
    if message.sharding_key is not None:
        return f"{message.topic}/{message.sharding_key}"
    if queue is not None:
        return f"{message.topic}@{queue.broker_name}:{queue.queue_id}"
    return None


@dataclass(slots=True)
class _OrderGroup:
    name: str
    entries: deque[Entry] = field(default_factory=deque)
    wait_ms: int = 0


class Ledger:
    """The messages of an outbox, and when each may be sent; ``live_bytes`` sums their records."""

    def __init__(self) -> None:
        self._groups: dict[str, _OrderGroup] = {}
        self._ready: deque[_OrderGroup] = deque()
        self._later: list[tuple[int, int, _OrderGroup]] = []
        self._paused: dict[str, tuple[int, int]] = {}
        self._entries: dict[int, Entry] = {}
        self._refused: dict[int, Entry] = {}
        self.live_bytes = 0

    def __repr__(self) -> str:
        return f"<Ledger {len(self._entries)} messages in {len(self._groups)} order groups>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[Entry]:
        """The messages waiting to be sent, oldest first."""
        return sorted(self._entries.values())

    @property
    def refused(self) -> list[Entry]:
        """The messages that brokers refused, oldest first."""
        return sorted(self._refused.values())

    def holds(self, group: str) -> bool:
        """Return whether messages of a group are waiting; a newer one must not overtake them."""
        return group in self._groups

    def add(self, entry: Entry) -> None:
        """Add a message after the others of its order group."""
        self._entries[entry.sequence] = entry
        self.live_bytes += entry.size
        group = self._groups.get(entry.order_group)
        if group is None:
            group = self._groups[entry.order_group] = _OrderGroup(entry.order_group)
            self._ready.append(group)
        group.entries.append(entry)

    def take(self, now_ms: int, limit: int) -> list[Entry]:
        """Return messages that may be sent now, at most one per order group.

        The caller must call ``sent``, ``failed`` or ``refuse`` for each of them.
        """
        while self._later and self._later[0][0] <= now_ms:
            self._ready.append(heapq.heappop(self._later)[2])
        taken: list[Entry] = []
        while self._ready and len(taken) < limit:
            group = self._ready.popleft()
            entry = group.entries[0]
            until_ms, _ = self._paused.get(entry.topic, (0, 0))
            if until_ms > now_ms:
                heapq.heappush(self._later, (until_ms, entry.sequence, group))
            else:
                taken.append(entry)
        return taken

    def due_ms(self) -> int | None:
        """Return when the next message may be sent: 0 for now, None if no message is due later."""
        if self._ready:
            return 0
        return self._later[0][0] if self._later else None

    def sent(self, entry: Entry) -> None:
        """Remove a taken message that was sent, and end the pause of its topic."""
        self._paused.pop(entry.topic, None)
        self._leave(entry)
        self.live_bytes -= entry.size

    def refuse(self, entry: Entry, reason: str) -> None:
        """Set a taken message aside that no retry will send; the next of its group may go."""
        self._leave(entry)
        self._refused[entry.sequence] = entry._replace(reason=reason)

    def set_aside(self, entry: Entry) -> None:
        """Add a message that was refused before."""
        self._refused[entry.sequence] = entry
        self.live_bytes += entry.size

    def failed(self, entry: Entry, now_ms: int) -> None:
        """Make the order group of a taken message wait after a failure, longer each time."""
        group = self._groups[entry.order_group]
        group.wait_ms = min(max(2 * group.wait_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)
        heapq.heappush(self._later, (now_ms + group.wait_ms, entry.sequence, group))

    def pause(self, topic: str, now_ms: int) -> None:
        """Stop trying a topic for a while, longer each time until one of its messages is sent.

        When a whole topic fails, a hundred thousand order groups need not each find that out.
        """
        _, waited_ms = self._paused.get(topic, (0, 0))
        wait_ms = min(max(2 * waited_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)
        self._paused[topic] = (now_ms + wait_ms, wait_ms)

    def drop(self, sequence: int) -> Entry:
        """Remove a refused message and return it; KeyError if no refused message has the number."""
        entry = self._refused.pop(sequence)
        self.live_bytes -= entry.size
        return entry

    def _leave(self, entry: Entry) -> None:
        group = self._groups[entry.order_group]
        group.entries.popleft()
        group.wait_ms = 0
        del self._entries[entry.sequence]
        if group.entries:
            self._ready.append(group)
        else:
            del self._groups[entry.order_group]
