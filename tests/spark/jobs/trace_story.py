"""Half an hour of traces of a shop, made up from a seed, and how they travel."""

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orbitmq.message import trace
from orbitmq.message.trace import (
    ConsumeOutcome,
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    TraceRecord,
)

BEGIN_MS = 1_794_735_000_000
REPORTED_MS = BEGIN_MS + 86_400_000
MINUTES = 30
BROKERS = ("10.0.0.1:10911", "10.0.0.2:10911")
GROUPS = {"orders": ("billing", "search"), "refunds": ("billing",)}
BROKEN = (b"Pub\x01yesterday\x01eu\x02", b"SubBefore\x015\x02", b"Poll\x015\x02")


class Told(NamedTuple):
    """A record, and the address of the client that reported it."""

    record: TraceRecord
    host: str


class Carrier(NamedTuple):
    """A trace message, with the columns that a read of it has."""

    value: bytes
    message_id: str
    reported_ms: int
    queue_offset: int


def told(seed: int, messages: int) -> list[Told]:
    """Return what clients reported; some of it is lost, late, or of messages that failed."""
    chance = random.Random(seed)
    story = list(_sends(chance, messages))
    publishes = [one.record for one in story if isinstance(one.record, Publish)]
    for number, send in enumerate(publishes):
        if send.success and chance.random() < 0.98:
            for message_id in send.message_id.split(","):
                story += _consumption(chance, send, message_id, number)
    stray = publishes[0]
    story += _consumption(chance, stray, "STRAY", -1)
    return story


def _sends(chance: random.Random, messages: int) -> Iterator[Told]:
    for number in range(messages):
        host = f"10.0.1.{chance.randrange(3)}"
        ids = [f"{number:08X}"]
        if chance.random() < 0.02:  # a batch of a Java client
            ids += [f"{number:08X}-{more}" for more in range(3)]
        broker = chance.choice(BROKERS)
        slow = broker == BROKERS[1] and chance.random() < 0.5
        send = Publish(
            timestamp_ms=BEGIN_MS + chance.randrange(MINUTES * 60_000),
            region="eu",
            group="shop",
            topic=chance.choice(["orders", "orders", "refunds"]),
            message_id=",".join(ids),
            tags=chance.choice([None, "paid"]),
            keys=f"o-{number}",
            store_host=broker,
            body_length=chance.randrange(1, 9_999),
            cost_ms=chance.randrange(12_000) if slow else chance.randrange(110),
            kind=chance.choices(list(MessageKind), (90, 4, 0, 3, 3))[0],
            offset_message_id=None,
            success=chance.random() < 0.97,
        )
        yield Told(send, host)
        common = {"region": "eu", "group": "shop", "topic": send.topic, "message_id": ids[0]}
        at = send.timestamp_ms + chance.randrange(2_000)
        if send.kind is MessageKind.HALF:
            state = chance.choice(["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"])
            ended = EndTransaction(
                **common,
                timestamp_ms=at,
                tags=None,
                keys=None,
                store_host=broker,
                kind=MessageKind.COMMITTED,
                transaction_id=None,
                transaction_state=state,
                from_check=chance.random() < 0.5,
            )
            yield Told(ended, host)
        if chance.random() < 0.01:
            yield Told(Recall(**common, timestamp_ms=at, success=chance.random() < 0.5), host)


def _consumption(
    chance: random.Random, send: Publish, message_id: str, number: int
) -> Iterator[Told]:
    for group in GROUPS[send.topic]:
        if chance.random() < 0.02:
            continue
        host = f"10.0.2.{chance.randrange(2)}"
        at = send.timestamp_ms + chance.randrange(-3, 900)
        for retry in range(chance.choices([1, 2, 3], (9, 1, 1))[0]):
            request = f"{group}-{message_id}-{retry}-{number}"
            before = SubscribeBefore(
                timestamp_ms=at,
                region="eu",
                group=group,
                request_id=request,
                message_id=message_id,
                retry_times=retry,
                keys=None,
            )
            yield Told(before, host)
            cost = chance.randrange(500)
            outcome = chance.choices(list(ConsumeOutcome), (95, 1, 2, 0, 2))[0]
            on_cloud = chance.random() < 0.1
            after = SubscribeAfter(
                request_id=request,
                message_id=message_id,
                cost_ms=cost,
                success=outcome is ConsumeOutcome.SUCCESS,
                keys=None,
                outcome=outcome,
                timestamp_ms=None if on_cloud else at + cost,
                group=None if on_cloud else group,
            )
            if chance.random() < 0.99:
                yield Told(after, host)
            at += 10_000


def carried(seed: int, story: Iterable[Told]) -> list[Carrier]:
    """Return the trace messages of a story: ten records each, some twice, some broken."""
    chance = random.Random(seed)
    of_host: dict[str, list[TraceRecord]] = {}
    for one in story:
        of_host.setdefault(one.host, []).append(one.record)
    found: list[Carrier] = []
    for host, records in of_host.items():
        address = "".join(f"{int(part):02X}" for part in host.split("."))
        for start in range(0, len(records), 10):
            body = trace.encode(records[start : start + 10])
            copies = 2 if chance.random() < 0.05 else 1
            if chance.random() < 0.05:
                body += chance.choice(BROKEN)
                copies = 1
            for _ in range(copies):
                place = len(found)
                message_id = f"{address}{place:024X}"
                found.append(Carrier(body, message_id, REPORTED_MS + place, place))
    return found
