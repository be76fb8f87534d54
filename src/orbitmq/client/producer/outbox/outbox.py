"""The outbox: messages that could not be sent, kept on disk and sent when brokers return.

::

    send failed ──▶ keep(): in the file, synced ──▶ the ledger ──▶ sent in the background ──▶ done
                                                       ▲  │                │
                    start: what the file holds ────────┘  └◀── failed ─────┘──▶ refused, set aside

A message keeps its unique id. If a broker stored it after all, or it was sent just before a crash,
consumers can detect the duplicate by that id.

Messages of one sharding key, or of one chosen queue, form an order group and are sent in the order
in which they were kept. While the outbox ``holds`` a group, new messages of it must be kept too;
otherwise they would overtake the older ones.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, ParamSpec, TypeVar

from orbitmq.client.producer.outbox.file import OutboxFile
from orbitmq.client.producer.outbox.ledger import Entry, Ledger, order_group_of
from orbitmq.client.producer.outbox.records import MARK, Kept, Kind, encode
from orbitmq.clock import Clock
from orbitmq.errors import (
    CorruptRecord,
    InvalidInput,
    NotRunning,
    OrbitError,
    OutboxFull,
    SendForbidden,
    SendIllegal,
    SendUnauthorised,
    StoreError,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.threads import Workers

__all__ = ["Outbox", "SendAgain"]

log = logging.getLogger("orbitmq.client")

BYTES_MAX: Final = 256 * 1024 * 1024
MESSAGES_MAX: Final = 100_000
"""The most messages in an outbox; each takes half a kilobyte of memory."""
AT_ONCE: Final = 16
"""Messages in flight; few, so that brokers that have just come back are not flooded."""
_REWRITE_OVER_BYTES: Final = 4 * 1024 * 1024
_REASON_MAX: Final = 500
_HOPELESS: Final = (InvalidInput, SendIllegal, SendForbidden, SendUnauthorised, CorruptRecord)
"""Errors that no retry will change: the message is set aside, and the next of its group is sent."""

SendAgain = Callable[[Message, MessageQueue | None], Awaitable[SendReceipt]]
"""Sends a message, to a certain queue if one is given; must not keep it again when it fails."""

P = ParamSpec("P")
T = TypeVar("T")


class _Writing(NamedTuple):
    kind: Kind
    sequence: int
    raw: bytes
    waiter: asyncio.Future[int] | None


class Outbox:
    """An outbox in use; belongs to one loop.

    The file is created if missing; its directory must exist. It grows up to ``bytes_max``. ``sent``
    counts the messages that were sent from here.
    """

    def __init__(
        self,
        path: str,
        send: SendAgain,
        *,
        workers: Workers,
        clock: Clock,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._file = OutboxFile(path)
        self._send = send
        self._workers = workers
        self._clock = clock
        self._bytes_max = bytes_max
        self._ledger = Ledger()
        self._next_sequence = 1
        self._keeping: dict[str, int] = {}
        self._trying: set[str | None] = set()
        self._writing: list[_Writing] = []
        self._writer: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._file_turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._emptied = asyncio.Event()
        self._closed = False
        self.sent = 0

    def __repr__(self) -> str:
        return f"<Outbox {self._file.path} {len(self._ledger)} waiting, {self.sent} sent>"

    def __len__(self) -> int:
        return len(self._ledger)

    @property
    def entries(self) -> list[Entry]:
        """The messages waiting to be sent, oldest first."""
        return self._ledger.entries

    @property
    def refused(self) -> list[Entry]:
        """The messages that brokers refused, with the reasons; see ``retry`` and ``discard``."""
        return self._ledger.refused

    async def open(self) -> None:
        """Read the file, and start to send its messages; raise as ``OutboxFile.open`` does."""
        contents = await self._call(self._file.open)
        self._next_sequence = contents.next_sequence
        for entry in contents.waiting:
            self._ledger.add(entry)
        for entry in contents.refused:
            self._ledger.set_aside(entry)
        if contents.waiting:
            log.info("%s: %d messages wait to be sent", self._file.path, len(contents.waiting))
        self._note_change()
        self._sender = asyncio.create_task(self._run(), name="outbox")

    def holds(self, message: Message, queue: MessageQueue | None = None) -> bool:
        """Return whether a message must be kept because older ones of its order group are here.

        A message that is being sent from the outbox does not hold itself back.
        """
        group = order_group_of(message, queue)
        if group is None or message.message_id in self._trying:
            return False
        return group in self._keeping or self._ledger.holds(group)

    def keep(
        self,
        message: Message,
        *,
        send_id: str,
        queue: MessageQueue | None = None,
        reason: str = "",
    ) -> asyncio.Future[int]:
        """Keep a message, and return a future of its number that is done when it is synced.

        Its place in the order is fixed when this returns. If the caller is cancelled while it
        awaits the future, the message is kept all the same. The next send of the message uses
        ``send_id`` again.

        The future raises OutboxFull if the file has reached its limit, DiskFailed if a write or
        sync failed, and NotRunning if the outbox is closed; the message is not kept then.
        """
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._closed:
            waiter.set_exception(
                NotRunning(f"the outbox {self._file.path} is closed", state="closed")
            )
            return waiter
        kept = Kept(
            self._clock.now_ms(),
            queue,
            reason[:_REASON_MAX],
            message.replace(message_id=send_id),
        )
        sequence = self._next_sequence
        self._next_sequence += 1
        raw = encode(Kind.KEPT, sequence, kept)
        entry = Entry.of(sequence, len(raw), kept)
        self._keeping[entry.order_group] = self._keeping.get(entry.order_group, 0) + 1
        waiter.add_done_callback(lambda done: self._kept(entry, done))
        self._write(_Writing(Kind.KEPT, sequence, raw, waiter))
        return asyncio.shield(waiter)

    def retry(self, sequence: int) -> None:
        """Try a refused message again, such as after a permission was granted.

        Raises:
            KeyError: no refused message has the number.
        """
        self._ledger.add(self._ledger.drop(sequence))
        self._note_change()

    def discard(self, sequence: int) -> None:
        """Drop a refused message for good.

        Raises:
            KeyError: no refused message has the number.
        """
        self._ledger.drop(sequence)
        self._write(_Writing(Kind.DONE, sequence, encode(Kind.DONE, sequence), None))
        self._note_change()

    async def drained(self) -> None:
        """Wait until no message is waiting to be sent; refused messages may be left."""
        await self._emptied.wait()

    async def stop(self) -> None:
        """Stop sending; messages can still be kept."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait((self._sender,))
            self._sender = None

    async def close(self) -> None:
        """Stop sending, finish pending writes, and unlock the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await self.stop()
        if self._writer is not None:
            await asyncio.wait((self._writer,))
        await self._call(self._file.close)

    # Into the file

    def _write(self, writing: _Writing) -> None:
        self._writing.append(writing)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all(), name="outbox file")

    async def _write_all(self) -> None:
        """Write all pending records with one sync, until none is pending."""
        try:
            while self._writing:
                batch, self._writing = self._writing, []
                await self._write_batch(batch)
                await self._tidy()
        finally:
            self._writer = None

    async def _write_batch(self, batch: list[_Writing]) -> None:
        batch = await self._fitting(batch)
        sync = any(one.waiter is not None for one in batch)
        try:
            records = [(one.kind, one.sequence, one.raw) for one in batch]
            await self._call(self._file.append, records, sync=sync)
        except StoreError as error:
            for one in batch:
                if one.waiter is not None:
                    one.waiter.set_exception(error)
            if not sync:  # only records of sent messages, which will be sent twice
                log.warning(
                    "%s: sent messages can't be removed, and may be sent again: %s",
                    *(self._file.path, error),
                )
            return
        for one in batch:
            if one.waiter is not None:
                one.waiter.set_result(one.sequence)

    async def _fitting(self, batch: list[_Writing]) -> list[_Writing]:
        """Return the records that fit, and fail the others; records that free room always fit."""
        wanted = sum(len(one.raw) for one in batch)
        if self._file.size + wanted > self._bytes_max and self._dead_bytes():
            await self._rewrite()
        room = self._bytes_max - self._file.size
        places = MESSAGES_MAX - len(self._ledger)
        fitting = []
        for one in batch:
            if one.waiter is not None:
                room -= len(one.raw)
                places -= 1
                if room < 0 or places < 0:
                    room += len(one.raw)
                    one.waiter.set_exception(self._full())
                    continue
            fitting.append(one)
        return fitting

    def _full(self) -> OutboxFull:
        path = self._file.path
        return OutboxFull(
            f"{path} is full: {len(self._ledger)} unsent messages and {self._file.size} bytes; the "
            f"limits are {MESSAGES_MAX} and {self._bytes_max}; wait until it drains, or raise "
            "outbox_bytes_max",
            path=path,
        )

    def _dead_bytes(self) -> int:
        return self._file.size - len(MARK) - self._ledger.live_bytes

    async def _tidy(self) -> None:
        """Rewrite the file if most of it is records of sent messages."""
        if self._dead_bytes() > max(_REWRITE_OVER_BYTES, self._ledger.live_bytes):
            await self._rewrite()

    async def _rewrite(self) -> None:
        try:
            await self._call(self._file.rewrite, self._ledger.refused)
        except StoreError as error:
            log.warning("%s can't be compacted: %s", self._file.path, error)

    def _kept(self, entry: Entry, done: asyncio.Future[int]) -> None:
        left = self._keeping[entry.order_group] - 1
        if left:
            self._keeping[entry.order_group] = left
        else:
            del self._keeping[entry.order_group]
        if done.exception() is None:
            self._ledger.add(entry)
            self._note_change()

    # Out of it

    async def _run(self) -> None:
        while True:
            entries = self._ledger.take(self._clock.monotonic_ms(), AT_ONCE)
            if entries:
                errors = await asyncio.gather(*map(self._try, entries))
                self._settle(zip(entries, errors, strict=True))
            else:
                await self._rest()

    async def _rest(self) -> None:
        """Wait for a new message, or until one may be retried."""
        self._changed.clear()
        due_ms = self._ledger.due_ms()
        wait_s = None if due_ms is None else max(0, due_ms - self._clock.monotonic_ms()) / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return  # one is due

    async def _try(self, entry: Entry) -> OrbitError | None:
        """Send one message and record that; return the error if it could not be sent."""
        try:
            kept = await self._call(self._file.read, entry.sequence)
            self._trying.add(entry.message_id)
            await self._send(kept.message, kept.queue)
        except OrbitError as error:
            return error
        except Exception as error:  # a bug of ours must not stop the outbox of a whole process
            log.exception("%s: %s can't be sent", self._file.path, entry.message_id)
            return OrbitError(f"{type(error).__name__}: {error}")
        finally:
            self._trying.discard(entry.message_id)
        self.sent += 1
        self._ledger.sent(entry)
        raw = encode(Kind.DONE, entry.sequence)
        self._write(_Writing(Kind.DONE, entry.sequence, raw, None))
        return None

    def _settle(self, outcomes: Iterable[tuple[Entry, OrbitError | None]]) -> None:
        """Make failed groups wait, and topics of which no message could be sent."""
        now_ms = self._clock.monotonic_ms()
        working: set[str] = set()
        failing: set[str] = set()
        for entry, error in outcomes:
            if error is None:
                working.add(entry.topic)
            elif isinstance(error, _HOPELESS):
                self._set_aside(entry, str(error)[:_REASON_MAX])
            else:
                log.info("%s: retry of %s failed: %s", self._file.path, entry.message_id, error)
                self._ledger.failed(entry, now_ms)
                failing.add(entry.topic)
        for topic in failing - working:
            self._ledger.pause(topic, now_ms)
        self._note_change()

    def _set_aside(self, entry: Entry, reason: str) -> None:
        log.error("%s: %s is refused, and set aside: %s", self._file.path, entry.message_id, reason)
        self._ledger.refuse(entry, reason)
        raw = encode(Kind.REFUSED, entry.sequence, reason)
        self._write(_Writing(Kind.REFUSED, entry.sequence, raw, None))

    def _note_change(self) -> None:
        self._changed.set()
        if len(self._ledger) or self._keeping:
            self._emptied.clear()
        else:
            self._emptied.set()

    async def _call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run file calls on a worker, one at a time, since they share a descriptor."""
        async with self._file_turn:
            done = asyncio.wrap_future(self._workers.submit(work, *args, **kwargs))
            try:
                return await asyncio.shield(done)
            finally:
                if not done.done():  # cancelled while the thread still works
                    await asyncio.wait((done,))
                    done.exception()
