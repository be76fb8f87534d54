"""Stores to measure: their messages, how they are filled, and a disk that measures its calls."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from time import perf_counter_ns, thread_time_ns

from orbitmq.message import properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.host import Host
from orbitmq.store.disk.disk import DiskFile, RealDisk
from orbitmq.store.log.append import Incoming, PutResult
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings

KILOBYTE = bytes(range(256)) * 4
TURN = 32
CHUNK = 125 * TURN  # divides the powers of ten that are measured
QUEUES_OF_A_TOPIC = 8
_HERE = Host.parse("127.0.0.1:10911")
_THERE = Host.parse("127.0.0.1:54321")
_BORN_MS = 1_700_000_000_000

SMALL = StoreSettings(
    segment_bytes=256 * 1024 * 1024,
    queue_file_entries=30_000,
    index_slots=500_000,
    index_entries=2_000_000,
)
"""File sizes for stores of some hundred MB."""


def messages(numbers: range, queues: int, body: bytes = KILOBYTE) -> list[Incoming]:
    """Return messages as a broker receives them: seven properties, all keys different."""
    return [
        Incoming(
            topic=f"orders-{number % queues // QUEUES_OF_A_TOPIC}",
            queue_id=number % queues % QUEUES_OF_A_TOPIC,
            body=body,
            properties=properties.encode(
                {
                    "KEYS": f"o-{number}",
                    "TAGS": "paid",
                    "WAIT": "true",
                    "UNIQ_KEY": f"7F00000100002A9F00000A1B{number:08X}",
                    "MSG_REGION": "DefaultRegion",
                    "TRACE_ON": "true",
                    "CLUSTER": "DefaultCluster",
                }
            ),
            born_timestamp_ms=_BORN_MS,
            born_host=_THERE,
            store_host=_HERE,
        )
        for number in numbers
    ]


def in_turns(given: Sequence[Incoming], size: int = TURN) -> list[Sequence[Incoming]]:
    """Split messages into turns of ``size``."""
    return [given[begin : begin + size] for begin in range(0, len(given), size)]


def chunks(count: int, queues: int, body: bytes = KILOBYTE) -> Iterator[list[Incoming]]:
    """Yield ``count`` messages in chunks: ten million don't fit into memory."""
    for begin in range(0, count, CHUNK):
        yield messages(range(begin, min(begin + CHUNK, count)), queues, body)


class Owner:
    """The thread that owns a store, like a broker's loop: it appends, and calls ``tick``."""

    def __init__(self, directory: str, settings: StoreSettings) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.store = MessageStore(directory, settings, post=self._calls.put)

    def fill(self, chunks: Iterable[list[Incoming]]) -> Iterator[float]:
        """Append chunk by chunk; yield the CPU time of this thread per message, in µs.

        The time between chunks and the time of syncing workers are not counted.

        Raises:
            RuntimeError: a message was not stored.
        """
        for chunk in chunks:
            parts = in_turns(chunk)
            begin = thread_time_ns()
            results = [self.store.append(part) for part in parts]
            spent = thread_time_ns() - begin
            check_stored(chain.from_iterable(results))
            yield spent / len(chunk) / 1000
            self.store.tick()
            while not self._calls.empty():
                self._calls.get()()


def check_stored(results: Iterable[PutResult]) -> None:
    """Raise RuntimeError if a put failed: a refusal is fast and would falsify the figure."""
    for result in results:
        if not result.status.is_stored:
            raise RuntimeError(f"a message was not stored: {result.status.name} {result.remark}")


@dataclass(slots=True)
class Account:
    """Disk calls of one part of a store."""

    writes: int = 0
    write_ns: int = 0
    """CPU time of the thread that wrote."""
    syncs: int = 0
    sync_ns: int = 0
    """Wall time: a sync waits."""


class MeteredDisk(RealDisk):
    """The real disk, with an account for each part of a store: commitlog, index, …."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.accounts: defaultdict[str, Account] = defaultdict(Account)

    def reset(self) -> None:
        """Reset all accounts; open files keep using theirs."""
        for account in self.accounts.values():
            account.writes = account.write_ns = account.syncs = account.sync_ns = 0

    # A store needs only the DiskFile protocol.
    def open(  # type: ignore[override]
        self, path: str, *, create: bool = False, writable: bool = True
    ) -> DiskFile:
        """Open a file whose writes and syncs go to the account of its part."""
        part = path.removeprefix(self._directory).lstrip("/").partition("/")[0]
        account = self.accounts[part]
        return MeteredFile(super().open(path, create=create, writable=writable), account)


class MeteredFile:
    """A file that measures its writes and syncs."""

    __slots__ = ("_account", "_file", "allocate", "close", "extend", "map", "read")

    def __init__(self, file: DiskFile, account: Account) -> None:
        self._file = file
        self._account = account
        self.allocate, self.extend = file.allocate, file.extend
        self.map, self.read, self.close = file.map, file.read, file.close

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._file.path

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self._file.size

    @property
    def data_end(self) -> int:
        """Where the last hole begins."""
        return self._file.data_end

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers and count the CPU time."""
        begin = thread_time_ns()
        self._file.write(buffers, offset)
        self._account.write_ns += thread_time_ns() - begin
        self._account.writes += 1

    def sync(self) -> None:
        """Sync and count the wall time."""
        begin = perf_counter_ns()
        self._file.sync()
        self._account.sync_ns += perf_counter_ns() - begin
        self._account.syncs += 1
