"""A ledger whose process dies at a chosen step, and a broker that says what it delivered."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from orbitmq.errors import OrbitError, RequestTimeout
from orbitmq.message.host import Host
from orbitmq.message.ids import offset_id
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus, StoredMessage
from orbitmq.spark.locations.location import Location
from orbitmq.spark.writing.check_answers import ORBIT_WRITE
from orbitmq.spark.writing.half_list import Half, HalfListHead, HalfListWriter
from orbitmq.spark.writing.ledger_files import LedgerFiles

HOST = Host.parse("127.0.0.1:10911")
HEAD = HalfListHead("etl", began_ms=1_000, timeout_ms=60_000)


class Crash(BaseException):
    """The process is gone; nothing catches it."""


class Steps:
    """Counts steps, and crashes at one of them."""

    def __init__(self, crash_at: int = -1) -> None:
        self.count = 0
        self._crash_at = crash_at

    def next(self) -> None:
        self.count += 1
        if self.count == self._crash_at:
            raise Crash


class CrashingFiles(LedgerFiles):
    """Files of a ledger, with a step before and after each change."""

    def __init__(self, directory: Path, steps: Steps) -> None:
        super().__init__(str(directory))
        self._files = _CrashingLocation(directory, steps)


class _CrashingLocation(Location):
    def __init__(self, directory: Path, steps: Steps) -> None:
        super().__init__(str(directory))
        self._steps = steps

    def _write(self, name: str, data: bytes, *, replaces: bool) -> None:
        self._steps.next()
        super()._write(name, data, replaces=replaces)
        self._steps.next()

    def _into_place(self, staged: str, path: str, *, replaces: bool) -> None:
        self._steps.next()  # with a staged file on the disk
        super()._into_place(staged, path, replaces=replaces)
        self._steps.next()

    @contextmanager
    def written(self, name: str) -> Iterator[IO[bytes]]:
        with super().written(name) as target:
            yield target
            self._steps.next()  # with a part of the file on the disk
        self._steps.next()

    def remove(self, name: str) -> None:
        super().remove(name)
        self._steps.next()

    def remove_folder(self, folder: str) -> None:
        super().remove_folder(folder)
        self._steps.next()


class Broker:
    """Half messages, and what was delivered; ``forgets`` as Java's does how one ended."""

    def __init__(self, *, forgets: bool = False) -> None:
        self.steps = Steps()
        self.open: dict[str, StoredMessage] = {}
        self.row_of: dict[str, int] = {}
        self.delivered: Counter[int] = Counter()
        self.is_down = False
        self._forgets = forgets
        self._ended: dict[str, bool] = {}

    def prepare(self, row: int, place: str) -> SendReceipt:
        """Store the half message of a row."""
        self.steps.next()
        offset = len(self.row_of)
        message_id = f"{offset:032X}"
        self.row_of[message_id] = row
        self.open[message_id] = half_message(message_id, place)
        queue = MessageQueue("orders", "broker-a", 0)
        log_id = offset_id(HOST, 100 * offset)
        return SendReceipt(
            status=SendStatus.SEND_OK,
            message_id=message_id,
            offset_message_id=log_id,
            queue=queue,
            queue_offset=offset,
        )

    def commit(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        return self._end([half.message_id for half in halves], head, is_commit=True)

    def roll_back(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        return self._end([half.message_id for half in halves], head, is_commit=False)

    def end(self, message_id: str, *, is_commit: bool) -> None:
        """End a transaction, unless it has ended and the broker knows."""
        if message_id not in self._ended or self._forgets:
            self.delivered[self.row_of[message_id]] += is_commit
            self._ended[message_id] = is_commit
        self.open.pop(message_id, None)

    def _end(
        self, ids: Sequence[str], head: HalfListHead, *, is_commit: bool
    ) -> Mapping[int, OrbitError]:
        assert head.group == HEAD.group
        if self.is_down:
            error = RequestTimeout("no answer", address="broker-a", timeout_ms=1)
            return dict.fromkeys(range(len(ids)), error)
        for message_id in ids:
            self.steps.next()
            self.end(message_id, is_commit=is_commit)
        return {}


def half_message(message_id: str, place: str) -> StoredMessage:
    """Return a half message as a check shows it."""
    return StoredMessage(
        topic="orders",
        body=b"row",
        properties={"UNIQ_KEY": message_id, "PGROUP": HEAD.group, ORBIT_WRITE: place},
        queue_id=0,
        queue_offset=0,
        commit_log_offset=0,
        flag=0,
        sys_flag=4,
        born_timestamp_ms=0,
        born_host=HOST,
        store_timestamp_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=100,
    )


def send(files: LedgerFiles, broker: Broker, place: str, rows: Sequence[int]) -> None:
    """Do what a task does: send half messages, and list them."""
    with files.written(place) as target:
        listed = HalfListWriter(target, HEAD)
        for row in rows:
            listed.add([broker.prepare(row, place)])
        listed.end()
