"""Small stores, for tests of a store as a whole."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from orbitmq.clock import Clock
from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import Disk
from orbitmq.store.log.append import PutResult
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.store.logs import NOW, incoming

SMALL = {"segment_bytes": 4096, "queue_file_entries": 5, "index_slots": 20, "index_entries": 50}


class HandClock:
    """A clock that goes when a test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


class HandWorkers:
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: work(*args, **kwargs)))
        return future

    def run(self) -> None:
        future, work = self.waiting.pop(0)
        try:
            future.set_result(work())
        except DiskFailed as error:
            future.set_exception(error)

    def close(self, *, wait: bool = True) -> None:
        pass


class AskedWorkers(HandWorkers):
    """Does work when somebody blocks on it, or when the test says so."""

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        asked = _Asked(self.do_all)
        self.waiting.append((asked, lambda: work(*args, **kwargs)))
        return asked

    def do_all(self) -> None:
        while self.waiting:
            self.run()


class _Asked(Future[Any]):
    def __init__(self, do: Callable[[], None]) -> None:
        super().__init__()
        self._do = do

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            self._do()
        return super().exception(timeout)


def opened(
    disk: Disk,
    directory: str = "/store",
    mode: FlushMode = FlushMode.ASYNC,
    *,
    clock: Clock | None = None,
    memory_limit: int | None = None,
    **settings: object,
) -> MessageStore:
    """Return an open store of small files, whose work is done at once."""
    chosen = StoreSettings(**{**SMALL, "flush_mode": mode, **settings})  # type: ignore[arg-type]
    store = MessageStore(
        directory,
        chosen,
        disk=disk,
        clock=clock or HandClock(),
        workers=InlineWorkers(),
        pid=7,
        memory_limit=memory_limit,
    )
    store.open()
    return store


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Return the bodies of a queue, read through its entries; the offsets have no gap."""
    queue = store.queues.queue(topic, queue_id)
    if queue is None:
        return []
    found = []
    for offset, entry in queue.iterate(queue.min_offset):
        view = store.record(entry.commit_log_offset)
        assert view is not None
        assert (view.queue_offset, view.size) == (offset, entry.size)
        found.append(bytes(view.body))
    assert len(found) == queue.max_offset - queue.min_offset
    return found


def put(store: MessageStore, *names: bytes, queue_id: int = 0) -> list[PutResult]:
    """Append a message for each name, which is its body forty times over."""
    return store.append([incoming(name * 40, queue_id=queue_id) for name in names])


def flush(store: MessageStore) -> None:
    """Have all of the log on the disk."""
    told: list[bool] = []
    store.when_durable(store.log.end, told.append)
    store.flush_soon()
    assert told == [True]
