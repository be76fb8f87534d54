"""Outbox files, as a producer leaves them."""

from pathlib import Path

from orbitmq.client.producer.outbox.file import OutboxFile
from orbitmq.client.producer.outbox.records import Kept, Kind, encode
from orbitmq.message.model import Message

KEPT_MS = 1_794_739_329_000  # 2026-11-15 10:42:09 UTC
REASON = "3 tries failed, the last one on broker-a: no connection to 10.0.0.7:10911"


def outbox_file(directory: Path, *messages: Message, refused: str = "") -> str:
    """Make an outbox, and return its path; ``refused`` is the reason why the last message was."""
    path = str(directory / "billing.outbox")
    file = OutboxFile(path)
    file.open()
    records = [
        (Kind.KEPT, number, encode(Kind.KEPT, number, Kept(KEPT_MS, None, REASON, message)))
        for number, message in enumerate(messages, 1)
    ]
    if refused:
        last = len(messages)
        records.append((Kind.REFUSED, last, encode(Kind.REFUSED, last, refused)))
    file.append(records, sync=True)
    file.close()
    return path


def message(topic: str, body: bytes, number: int = 1) -> Message:
    """Return a message with the unique id of an earlier send."""
    return Message(topic, body, message_id=f"0A0000072A9F5F4A0E124CBB7EE1{number:04X}")
