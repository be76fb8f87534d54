"""Threads: the only module that imports ``threading`` and ``concurrent.futures``.

State belongs to one event loop, so threads do only blocking work: a flush, a deletion, the
compression of a large body. Code takes :class:`Workers`, and a simulation passes workers that run
everything immediately.

>>> with ThreadWorkers(2, name="flush") as workers:
...     workers.submit(sum, [1, 2, 3]).result()
6

"""

import atexit
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

__all__ = [
    "CancelledError",
    "DaemonWorkers",
    "Event",
    "Future",
    "Lock",
    "RunningThread",
    "Slots",
    "Thread",
    "ThreadWorkers",
    "Workers",
    "at_exit",
    "running_threads",
    "start_thread",
    "thread_id",
]

P = ParamSpec("P")
T = TypeVar("T")

Event = threading.Event
Lock = threading.Lock
Slots = threading.BoundedSemaphore
Thread = threading.Thread
thread_id = threading.get_ident


class Workers(Protocol):
    """Runs blocking functions for an owner that may not block."""

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of ``work(*args, **kwargs)``; RuntimeError once closed.

        The queue is unbounded: the caller limits how much work is waiting.
        """
        ...

    def close(self, *, wait: bool = True) -> None:
        """Drop waiting work, accept no more, and wait for running work unless ``wait`` is False."""
        ...


class ThreadWorkers:
    """A fixed number of threads, started when there is work for them."""

    __slots__ = ("_count", "_executor", "_name")

    def __init__(self, count: int, *, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._count = count
        self._name = name

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of ``work(*args, **kwargs)``; RuntimeError once closed."""
        return self._executor.submit(work, *args, **kwargs)

    def close(self, *, wait: bool = True) -> None:
        """Drop waiting work, accept no more, and wait for running work unless ``wait`` is False."""
        self._executor.shutdown(wait=wait, cancel_futures=True)

    def finish(self) -> None:
        """Wait for all submitted work, and accept no more; must not be called by a worker."""
        self._executor.shutdown(wait=True)

    def __enter__(self) -> "ThreadWorkers":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ThreadWorkers {self._name!r} count={self._count}>"


class DaemonWorkers:
    """As ``ThreadWorkers``, for work of users that may hang: the program's end doesn't wait for it.

    A thread is started if there is work and none is idle, up to ``count``.
    """

    __slots__ = ("_count", "_guard", "_idle", "_is_closed", "_name", "_threads", "_waiting")

    def __init__(self, count: int, *, name: str) -> None:
        self._count = count
        self._name = name
        self._guard = Lock()  # for _threads and _is_closed
        self._idle = threading.Semaphore(0)
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._is_closed = False

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of ``work(*args, **kwargs)``; RuntimeError once closed."""
        future: Future[T] = Future()
        with self._guard:
            if self._is_closed:
                raise RuntimeError(f"{self!r} is closed")
            self._waiting.put((future, partial(work, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
                name = f"{self._name}_{len(self._threads)}"
                self._threads.append(start_thread(self._run, name=name, daemon=True))
        return future

    def close(self, *, wait: bool = True) -> None:
        """Drop waiting work, accept no more, and wait for running work unless ``wait`` is False."""
        with self._guard:
            self._is_closed = True
        with suppress(Empty):
            while True:
                if (dropped := self._waiting.get_nowait()) is not None:
                    dropped[0].cancel()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def __repr__(self) -> str:
        return f"<DaemonWorkers {self._name!r} count={self._count}>"

    def _run(self) -> None:
        while (given := self._next()) is not None:
            future, work = given
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # raised by the result
                    future.set_exception(error)
            del given, future, work  # not kept while it is idle

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        try:
            return self._waiting.get_nowait()
        except Empty:
            self._idle.release()  # the next submit starts no thread
            return self._waiting.get()


def start_thread(target: Callable[[], object], *, name: str, daemon: bool) -> Thread:
    """Start a thread that runs ``target``, and return it; the caller joins it.

    A daemon thread is killed when the program ends, so it must not own anything to be closed.

    >>> heard: list[str] = []
    >>> start_thread(lambda: heard.append("hello"), name="greeter", daemon=False).join()
    >>> heard
    ['hello']
    """
    thread = Thread(target=target, name=name, daemon=daemon)
    thread.start()
    return thread


def at_exit(work: Callable[[], object]) -> None:
    """Call ``work`` when the program ends, while threads can still be used.

    ``atexit`` runs too late: by then every executor is shut down. ``threading`` has an undocumented
    hook that runs earlier, which ``concurrent.futures`` uses itself; ``atexit`` is the fallback.
    """
    register: Callable[[Callable[[], object]], object]
    register = getattr(threading, "_register_atexit", atexit.register)
    register(work)


class RunningThread(NamedTuple):
    """A thread, and the innermost frame of what it was doing."""

    name: str
    id: int
    frame: FrameType


def running_threads() -> list[RunningThread]:
    """Return all threads that run Python code, by name; they go on meanwhile.

    >>> [thread.name for thread in running_threads() if thread.id == thread_id()]
    ['MainThread']
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return sorted(RunningThread(names.get(one, "unknown"), one, frame) for one, frame in frames)
