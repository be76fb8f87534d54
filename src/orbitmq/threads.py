"""Threads: the only module that imports ``threading`` and ``concurrent.futures``.

State belongs to one event loop, so threads do only blocking work: a flush, a deletion, the
compression of a large body. Code takes :class:`Workers`, and a simulation passes workers that run
everything immediately.

>>> with ThreadWorkers(2, name="flush") as workers:
...     workers.submit(sum, [1, 2, 3]).result()
6

"""

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

__all__ = [
    "CancelledError",
    "Future",
    "Lock",
    "Slots",
    "Thread",
    "ThreadWorkers",
    "Workers",
    "at_exit",
    "start_thread",
]

P = ParamSpec("P")
T = TypeVar("T")

Lock = threading.Lock
Slots = threading.BoundedSemaphore
Thread = threading.Thread


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
