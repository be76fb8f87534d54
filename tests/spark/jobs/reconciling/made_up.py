"""A morning of a shop, made up from a seed: what was said and stored; and what is wrong, in Python.

``Morning`` plants the faults; ``expected`` finds them again by loops over lists.
"""

import random
from collections import Counter, defaultdict
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
Queue: TypeAlias = tuple[str, str, int]

BEGIN_MS: Final = 1_794_735_000_000
LATE_MS: Final = 5_000
GROUP: Final = "billing"
FATES: Final = {
    "good": 300,
    "lost": 9,
    "twice": 9,
    "late": 9,
    "failed": 6,
    "waiting": 6,
    "undecided": 6,
    "withdrawn": 6,
    "recalled": 6,
    "delayed": 6,
    "unreported": 6,
    "failed but stored": 3,
}
STORED_FATES: Final = frozenset({"good", "twice", "late", "unreported", "failed but stored"})


class Morning:
    """What was said and stored; ``planted`` counts the fates of messages."""

    def __init__(self, seed: int, count: int, *, cut: bool = True) -> None:
        self.chance = random.Random(seed)
        self.said: list[Row] = []
        self.stored: list[Row] = []
        self.planted: Counter[str] = Counter()
        self.ends: Counter[Queue] = Counter()
        self.firsts: dict[Queue, int] = {}
        self._turns: Counter[str] = Counter()
        for number in range(count):
            self._plant(number)
        for _ in range(12):
            self._swap()
        if cut:  # retention has taken the first messages of a queue, and all of another
            one, other, *_ = sorted(self.ends)
            self.firsts = {one: self.ends[one] // 6, other: self.ends[other]}
            self.stored = [
                row
                for row in self.stored
                if row["queue_offset"] >= self.firsts.get(queue_of(row), 0)
            ]
        self.committed = {
            queue: self.chance.randrange(end // 2, end + 1) for queue, end in self.ends.items()
        }

    def heads(self) -> list[tuple[str, str, int, int, int]]:
        """Where queues begin and end."""
        return [(*queue, self.firsts.get(queue, 0), end) for queue, end in self.ends.items()]

    def _plant(self, number: int) -> None:
        chance = self.chance
        fate = chance.choices(list(FATES), list(FATES.values()))[0]
        self.planted[fate] += 1
        queue = (chance.choice(["orders", "refunds"]), chance.choice("ab"), chance.randrange(2))
        message_id, sent_ms = f"{number:08X}", BEGIN_MS + number * 700
        place: tuple[str | None, int | None, int | None] = (None, None, None)
        if fate in STORED_FATES:
            took = (
                LATE_MS + chance.randrange(1, 60_000) if fate == "late" else chance.randrange(200)
            )
            key = chance.choice([None, f"{queue}"])
            identity = chance.choice([message_id, f"orbit-{number}"])
            for copy in range(2 if fate == "twice" else 1):
                # A write that was repeated by Spark has a new id.
                own = message_id if identity == message_id or not copy else f"{message_id}-2"
                offset = self._store(queue, own, sent_ms, took, identity, key)
                place = place if copy else (*queue[1:], offset)
        if fate == "unreported":
            return
        producer = chance.choice(["shop@1", "shop@2"])
        self._turns[producer] += 1
        row: Row = {
            "topic": queue[0],
            "message_id": message_id,
            "sent_ms": sent_ms,
            "acknowledged": fate not in ("failed", "failed but stored", "waiting"),
            "kind": "half" if fate in ("undecided", "withdrawn") else "normal",
            "ended": "ROLLBACK_MESSAGE" if fate == "withdrawn" else None,
            "recalled": True if fate == "recalled" else None,
            "waiting": True if fate == "waiting" else None,
            **dict(zip(("broker", "queue_id", "queue_offset"), place, strict=True)),
            "producer": producer,
            "sequence": self._turns[producer],
        }
        if fate == "delayed":
            row["kind"] = "delayed"
        self.said.append(row)
        if chance.random() < 0.3:  # a trace says so, too, and knows less
            less = dict.fromkeys(("broker", "queue_id", "queue_offset", "sequence"))
            self.said.append({**row, **less, "sent_ms": sent_ms + 3, "producer": "trace"})
            if chance.random() < 0.3:
                self.said.remove(row)

    def _store(
        self, queue: Queue, message_id: str, sent_ms: int, took: int, identity: str, key: str | None
    ) -> int:
        offset = self.ends[queue]
        self.ends[queue] += 1
        self.stored.append(
            {
                **dict(zip(("topic", "broker", "queue_id"), queue, strict=True)),
                "queue_offset": offset,
                "message_id": message_id,
                "identity": identity,
                "stored_ms": sent_ms + took,
                "born_ms": sent_ms,
                "sharding_key": key,
                "is_delayed": False,
            }
        )
        return offset

    def _swap(self) -> None:
        """Let two messages of a queue change places."""
        one = self.chance.choice(self.stored)
        other = self.chance.choice([row for row in self.stored if queue_of(row) == queue_of(one)])
        for name in ("message_id", "born_ms", "identity"):
            one[name], other[name] = other[name], one[name]


def queue_of(row: Row) -> Queue:
    """Return the queue of a stored row."""
    return row["topic"], row["broker"], row["queue_id"]


def expected(morning: Morning) -> Counter[tuple[str, str]]:
    """Return how often each message, by its id, has each verdict or difference."""
    found: Counter[tuple[str, str]] = Counter()
    said: dict[str, list[Row]] = defaultdict(list)
    for row in morning.said:
        said[row["message_id"]].append(row)
    copies: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in morning.stored:
        copies[row["topic"], row["identity"]].append(row)
    firsts = []
    for rows in copies.values():
        first, *others = sorted(rows, key=lambda row: (row["stored_ms"], *_place(row)))
        firsts.append(first)
        found.update(("duplicated", row["message_id"]) for row in others)
    last: dict[tuple[Any, ...], int] = {}
    for row in sorted(firsts, key=_place):
        message_id, reports = row["message_id"], said[row["message_id"]]
        found["found" if reports else "unreported", message_id] += 1
        sent_ms = min((one["sent_ms"] for one in reports), default=row["born_ms"])
        if row["stored_ms"] - sent_ms > LATE_MS:
            found["late", message_id] += 1
        if reports and row["sharding_key"]:
            best = max(reports, key=lambda one: (one["sequence"] or -1, one["producer"]))
            turn = sent_ms if best["sequence"] is None else best["sequence"]
            line = (*queue_of(row), best["producer"], row["sharding_key"])
            if last.get(line, turn) > turn:
                found["out_of_order", message_id] += 1
            last[line] = max(last.get(line, turn), turn)
    for row in morning.stored:
        if row["queue_offset"] >= morning.committed[queue_of(row)]:
            found["not_consumed", row["message_id"]] += 1
    there = {row["message_id"] for row in morning.stored}
    for message_id, reports in said.items():
        if reports and message_id not in there:
            found[_missing(morning, reports), message_id] += 1
    return found


def _place(row: Row) -> tuple[Any, ...]:
    return row["broker"], row["queue_id"], row["queue_offset"]


def _missing(morning: Morning, reports: list[Row]) -> str:
    """Return the verdict about a message that is not stored."""
    one = reports[0]
    if one["recalled"] or one["ended"] == "ROLLBACK_MESSAGE":
        return "withdrawn"
    if one["waiting"]:
        return "waiting"
    if not one["acknowledged"]:
        return "failed"
    if one["kind"] == "half":
        return "undecided"
    placed = [row for row in reports if row["queue_offset"] is not None]
    if placed:
        gone = placed[0]["queue_offset"] < morning.firsts.get(queue_of(placed[0]), 0)
    else:
        gone = min(row["sent_ms"] for row in reports) < _cut_ms(morning, one["topic"])
    if gone:
        return "gone"
    return "delayed" if one["kind"] == "delayed" else "lost"


def _cut_ms(morning: Morning, topic: str) -> float:
    """Return up to which time a queue of a topic may have lost messages to retention."""
    times = [0.0]
    for queue, first in morning.firsts.items():
        if queue[0] == topic:
            left = [row for row in morning.stored if queue_of(row) == queue]
            times.append(
                min(
                    (row["stored_ms"] for row in left if row["queue_offset"] == first), default=2e18
                )
            )
    return max(times)
