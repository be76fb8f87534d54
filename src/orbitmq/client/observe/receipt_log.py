"""A log of receipts: a line of JSON for each message that a producer sent, or tried to.

::

    {"topic":"orders","message_id":"7F00…","sent_at":1700000000123,"status":"SEND_OK",
     "broker":"broker-a","queue_id":3,"queue_offset":42,"offset_message_id":"7F00…",
     "producer":"billing@7F0000011A2B…-9c4e1f02","sequence":17}

``orbitmq pipeline reconcile --receipts`` compares it with what is stored. ``sequence`` is the order
in which sends began, as this log counted it: ``producer`` ends with digits of the log, so that the
numbers of another log aren't compared with them. The ``status`` of a failed send is the name of its
error, and its place is missing. So is that of a delayed or a half message, which the broker stores
elsewhere first.
"""

from itertools import count
from os import PathLike
from types import TracebackType
from typing import Final, Self, TextIO

import msgspec

from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.errors import DiskFailed
from orbitmq.message.trace import MessageKind
from orbitmq.randomness import SystemRandomness

__all__ = ["ReceiptLog"]

_NOTE: Final = "orbitmq.receipt_log"
_STORED_AT_ONCE: Final = (MessageKind.NORMAL, MessageKind.ORDERED)
_ID_HEAD: Final = 20
"""Digits of a unique id that are the same for all messages of a process: address, process, loader;
see ``message.ids``."""


class _Line(msgspec.Struct, omit_defaults=True):
    topic: str
    message_id: str
    sent_at: int
    status: str
    producer: str
    sequence: int
    kind: str = "normal"
    broker: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    offset_message_id: str | None = None


class ReceiptLog(SendHook):
    """Appends receipts to a file; give it to ``Producer.add_hook``, close it after the producer.

    A line is written when its send ends, by one call of the system, and is not synced: after a
    power loss the last lines may be missing. One-way sends have no receipt; their status is
    ``ONEWAY``.

    ::

        with ReceiptLog("receipts.jsonl") as receipts:
            producer.add_hook(receipts)

    Raises:
        DiskFailed: the file can't be opened.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = str(path)
        self._sequence = count(1)
        self._own = SystemRandomness().token(4).hex()
        try:
            self._file: TextIO = open(self.path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise DiskFailed(
                f"can't open {path}: {error.strerror}", path=self.path, errno=error.errno or 0
            ) from error

    def __repr__(self) -> str:
        return f"<ReceiptLog {self.path}>"

    def before(self, context: SendContext) -> None:
        """Give the messages of a send their numbers."""
        context.notes[_NOTE] = [next(self._sequence) for _ in context.messages]

    def after(self, context: SendContext) -> None:
        """Write a line for each message of a send."""
        receipt, sequence = context.receipt, context.notes.get(_NOTE)
        if not isinstance(sequence, list):  # the log was added while the send was under way
            sequence = [next(self._sequence) for _ in context.messages]
        status = "ONEWAY" if context.error is None else type(context.error).__name__
        ids = context.message_ids or (context.send_id,)
        places = [] if receipt is None else receipt.offset_message_id.split(",")
        lines = []
        for at, (message, message_id) in enumerate(zip(context.messages, ids, strict=True)):
            line = _Line(
                topic=message.topic,
                message_id=message_id,
                sent_at=context.began_ms,
                status=status if receipt is None else receipt.status.value,
                producer=f"{context.group}@{message_id[:_ID_HEAD]}-{self._own}",
                sequence=sequence[at],
                kind=context.kind.name.lower(),
            )
            if receipt is not None and context.kind in _STORED_AT_ONCE:
                line.broker = receipt.queue.broker_name
                line.queue_id = receipt.queue.queue_id
                line.queue_offset = receipt.queue_offset + at
                line.offset_message_id = places[at] if at < len(places) else places[0]
            lines.append(msgspec.json.encode(line).decode())
        self._file.write("\n".join(lines) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
