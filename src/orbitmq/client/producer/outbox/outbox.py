"""The outbox: messages that could not be sent, kept on disk and sent when brokers return.

::

    send failed ──▶ keep(): in the file, synced ──▶ the ledger ──▶ tried in the background ──▶ done
                                                       ▲  │                │
                    start: what the file holds ────────┘  └◀── failed ─────┘──▶ refused, set aside

A message keeps its unique id: one that was stored after all, or sent just before a crash, is a
duplicate that consumers can tell.

Messages of one sharding key, or one chosen queue, leave in the order in which they came. While the
outbox ``holds`` such a lane, new messages of it must be kept too, or they would overtake.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, ParamSpec, TypeVar

from orbitmq.client.producer.outbox.file import OutboxFile
from orbitmq.client.producer.outbox.ledger import Entry, Ledger, lane_of
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
"""How many messages may wait; each takes half a kilobyte of memory."""
AT_ONCE: Final = 16
"""Messages on their way at once: brokers that return need no flood."""
_REWRITE_OVER_BYTES: Final = 4 * 1024 * 1024
_REASON_MAX: Final = 500
_HOPELESS: Final = (InvalidInput, SendIllegal, SendForbidden, SendUnauthorised, CorruptRecord)
"""What no further try will change: these are set aside, and their lane goes on."""

SendAgain = Callable[[Message, MessageQueue | None], Awaitable[SendReceipt]]
"""Sends a message, to a queue if one is named; must not keep it again when it fails."""

P = ParamSpec("P")
T = TypeVar("T")


class _Writing(NamedTuple):
    kind: Kind
    sequence: int
    raw: bytes
    waiter: asyncio.Future[int] | None


class Outbox:
    """An outbox in use. Belongs to one loop; ``open`` it, and ``close`` it in the end.

    Args:
        path: its file, made if there is none; the directory must exist.
        send: sends a message again.
        workers: make the file calls, of which one is made at a time.
        clock: its time.
        bytes_max: how large the file may grow.

    Attributes:
        sent: messages that were sent from here.

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
        """What waits to be sent, in the order of keeping."""
        return self._ledger.entries

    @property
    def refused(self) -> list[Entry]:
        """What brokers will not take, with their reasons; see ``retry`` and ``discard``."""
        return self._ledger.refused

    async def open(self) -> None:
        """Read what the file holds, and begin to send it.

        Raises:
            StoreLocked: another process, or another producer of this one, uses the file.
            StoreDamaged: it is no outbox.
            DiskFailed: a file call was refused.

        """
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
        """Return whether a message must be kept too, since others before it wait here.

        One that is just being sent from here is not held back by itself.
        """
        lane = lane_of(message, queue)
        if lane is None or message.message_id in self._trying:
            return False
        return lane in self._keeping or self._ledger.holds(lane)

    def keep(
        self,
        message: Message,
        *,
        send_id: str,
        queue: MessageQueue | None = None,
        reason: str = "",
    ) -> asyncio.Future[int]:
        """Keep a message, and return the future of its number, done once it is safe on the disk.

        It has its place in the order of keeping when this returns. The caller awaits the future;
        one who goes away leaves a message that is kept.

        Args:
            message: the message as its sender gave it.
            send_id: the unique id that it was sent with; it will be sent with it again.
            queue: the queue that the sender chose, if so.
            reason: why it could not be sent.

        Raises:
            OutboxFull: by the future: the file has met its bound.
            DiskFailed: by the future: the disk refused, or a sync failed; it is not kept.
            NotRunning: by the future: the outbox is closed.

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
        self._keeping[entry.lane] = self._keeping.get(entry.lane, 0) + 1
        waiter.add_done_callback(lambda done: self._kept(entry, done))
        self._write(_Writing(Kind.KEPT, sequence, raw, waiter))
        return asyncio.shield(waiter)

    def retry(self, sequence: int) -> None:
        """Have a refused message tried again, such as after a permission was given.

        Raises:
            KeyError: no refused message has the number.

        """
        self._ledger.add(self._ledger.drop(sequence))
        self._note_change()

    def discard(self, sequence: int) -> None:
        """Give a refused message up for good.

        Raises:
            KeyError: no refused message has the number.

        """
        self._ledger.drop(sequence)
        self._write(_Writing(Kind.DONE, sequence, encode(Kind.DONE, sequence), None))
        self._note_change()

    async def drained(self) -> None:
        """Return when nothing waits to be sent; refused messages may be left."""
        await self._emptied.wait()

    async def stop(self) -> None:
        """Send nothing any more; messages can still be kept."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait((self._sender,))
            self._sender = None

    async def close(self) -> None:
        """Stop sending, write what is owed, and let others have the file; twice is no error."""
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
        """Write what waits, all of it with one sync, until nothing does."""
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
            if not sync:  # of no consequence but for messages that will be sent twice
                log.warning("%s: what was sent can't be noted: %s", self._file.path, error)
            return
        for one in batch:
            if one.waiter is not None:
                one.waiter.set_result(one.sequence)

    async def _fitting(self, batch: list[_Writing]) -> list[_Writing]:
        """Return what there is room for, and tell the others; what frees room always fits."""
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
            f"{path} has {len(self._ledger)} unsent messages and {self._file.size} bytes, the "
            f"limits are {MESSAGES_MAX} and {self._bytes_max}; let it drain, or raise "
            "outbox_bytes_max",
            path=path,
        )

    def _dead_bytes(self) -> int:
        return self._file.size - len(MARK) - self._ledger.live_bytes

    async def _tidy(self) -> None:
        """Leave behind what was sent, once that is most of the file."""
        if self._dead_bytes() > max(_REWRITE_OVER_BYTES, self._ledger.live_bytes):
            await self._rewrite()

    async def _rewrite(self) -> None:
        try:
            await self._call(self._file.rewrite, self._ledger.refused)
        except StoreError as error:
            log.warning("%s can't be rewritten: %s", self._file.path, error)

    def _kept(self, entry: Entry, done: asyncio.Future[int]) -> None:
        left = self._keeping[entry.lane] - 1
        if left:
            self._keeping[entry.lane] = left
        else:
            del self._keeping[entry.lane]
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
        """Wait for a new message, or until one may be tried again."""
        self._changed.clear()
        due_ms = self._ledger.due_ms()
        wait_s = None if due_ms is None else max(0, due_ms - self._clock.monotonic_ms()) / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return  # one is due

    async def _try(self, entry: Entry) -> OrbitError | None:
        """Send one message, and note it at once; return why it could not be sent, else None."""
        try:
            kept = await self._call(self._file.read, entry.sequence)
            self._trying.add(entry.message_id)
            await self._send(kept.message, kept.queue)
        except OrbitError as error:
            return error
        except Exception as error:  # a fault of ours must not end the outbox of a whole process
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
        """Have what failed wait: its lane, and its topic if nothing of it could be sent."""
        now_ms = self._clock.monotonic_ms()
        working: set[str] = set()
        failing: set[str] = set()
        for entry, error in outcomes:
            if error is None:
                working.add(entry.topic)
            elif isinstance(error, _HOPELESS):
                self._set_aside(entry, str(error)[:_REASON_MAX])
            else:
                log.info("%s: %s can't be sent yet: %s", self._file.path, entry.message_id, error)
                self._ledger.failed(entry, now_ms)
                failing.add(entry.topic)
        for topic in failing - working:
            self._ledger.pause(topic, now_ms)
        self._note_change()

    def _set_aside(self, entry: Entry, reason: str) -> None:
        log.error("%s: %s is set aside: %s", self._file.path, entry.message_id, reason)
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
        """Have a worker make file calls; one at a time, since they share a descriptor."""
        async with self._file_turn:
            done = asyncio.wrap_future(self._workers.submit(work, *args, **kwargs))
            try:
                return await asyncio.shield(done)
            finally:
                if not done.done():  # cancelled, and the thread is still at work
                    await asyncio.wait((done,))
                    done.exception()
