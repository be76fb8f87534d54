"""The history of a simulated run: what clients saw, and what servers had at its end."""

import enum
from typing import NamedTuple

import msgspec

from orbitmq.testing.simulation.plan import GroupPlan

__all__ = ["Attempt", "Delivery", "History", "Kind", "Progress", "Reader", "Reign", "Stored"]


class Kind(enum.Enum):
    """When a message becomes visible to consumers."""

    PLAIN = "at once"
    DELAYED = "after the delay of a level"
    TIMED = "at a time"
    COMMITTED = "when its transaction is committed"
    ABORTED = "never: its transaction is rolled back"

    @property
    def is_transaction(self) -> bool:
        """Whether it is sent as a half message."""
        return self in (Kind.COMMITTED, Kind.ABORTED)


class Attempt(msgspec.Struct):
    """One attempt to send a message, as its sender knows it.

    All attempts of a message share its unique ``key``. ``acked_at`` is the queue offset that the
    broker acknowledged, None without acknowledgement; only for a plain message it is an offset of
    its queue. ``due_ms`` is the earliest time of delivery. ``is_over`` is set when the sender does
    not wait for an answer any more.
    """

    key: str
    number: int
    queue_id: int
    tag: str
    acked_at: int | None = None
    kind: Kind = Kind.PLAIN
    due_ms: int = 0
    is_over: bool = False

    def __str__(self) -> str:
        return f"{self.key}, attempt {self.number},"

    @property
    def is_delivered(self) -> bool:
        """Whether consumers must receive it.

        The sender of a half message rolls back every attempt but the one that was acknowledged.
        """
        return self.acked_at is not None and self.kind is not Kind.ABORTED


class Stored(NamedTuple):
    """A message as a broker returned it."""

    offset: int
    key: str
    attempt: int
    tag: str
    stored_ms: int = 0


class Reader(NamedTuple):
    """A consumer group that reads a queue; an empty tag means all tags."""

    group: str
    queue_id: int
    tag: str = ""


class Delivery(NamedTuple):
    """A message that a member of a group got; ``is_retry`` if it came from the retry topic."""

    group: str
    key: str
    attempt: int
    queue_id: int
    offset: int
    succeeded: bool
    is_retry: bool


class Progress(NamedTuple):
    """The offset of a group in a queue, as the master has it, or any of brokers that elect it.

    Within one ``age`` it must not go back: a kill begins another, since offsets are written every
    five seconds and by a stop, and so does another master. While two members may own a queue, each
    sample has its own.
    """

    group: str
    topic: str
    queue_id: int
    age: int
    offset: int
    broker: str = ""


class Reign(NamedTuple):
    """Which brokers accept messages as masters from a moment on, and in which epochs."""

    at_ms: int
    masters: tuple[tuple[int, str], ...]


class History(msgspec.Struct):
    """What clients saw during a run, and what was stored at its end.

    ``attempts`` are in the order in which they began; ``read`` has the messages that each reader
    received, ``deliveries`` those that members of ``groups`` got, ``progress`` how far groups came.
    ``stored`` has the messages of each queue from offset 0 on; ``logs`` and ``queues`` what each
    broker had, byte for byte, the master first.

    ``reused`` are queues of which readers may have seen messages that one broker had alone, which
    lost its disk or power, without being acknowledged: the next messages got their offsets. Where
    ``elects`` says that the master is elected, there are none, and ``reigns`` has who was the
    master.

    ``faults`` are violations noted during the run, ``troubles`` the injected failures. ``digest``
    is a hash of every byte on the network and every call of the disks.
    """

    attempts: list[Attempt] = msgspec.field(default_factory=list)
    read: dict[Reader, list[Stored]] = msgspec.field(default_factory=dict)
    groups: tuple[GroupPlan, ...] = ()
    deliveries: list[Delivery] = msgspec.field(default_factory=list)
    progress: list[Progress] = msgspec.field(default_factory=list)
    stored: dict[int, list[Stored]] = msgspec.field(default_factory=dict)
    logs: dict[str, bytes] = msgspec.field(default_factory=dict)
    queues: dict[str, dict[str, bytes]] = msgspec.field(default_factory=dict)
    promotions: int = 0
    elects: bool = False
    reigns: list[Reign] = msgspec.field(default_factory=list)
    reused: set[int] = msgspec.field(default_factory=set)
    faults: list[str] = msgspec.field(default_factory=list)
    troubles: list[str] = msgspec.field(default_factory=list)
    starts: int = 0
    digest: str = ""

    @property
    def elections(self) -> int:
        """How many masters were elected, and accepted messages."""
        return len({epoch for reign in self.reigns for epoch, _ in reign.masters})

    @property
    def has_successors(self) -> bool:
        """Whether a slave became the master, or may have."""
        return self.elects or self.promotions > 0
