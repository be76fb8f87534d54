"""One thread with an event loop, for code that has none; see ``orbitmq.blocking``.

::

    first lease() ──▶ running ──▶ the last leave() ──▶ lingering ── lease() ──▶ running
                        │                                  └── its time over ──▶ ended
                        └── the program ends: guests are closed, with a ResourceWarning ──▶ ended

All guests of a process share the thread. A child process has none of it: its first lease starts a
thread of its own, and what was leased before the fork says that it belongs to the parent.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Final, Generic, ParamSpec, TypeVar

from orbitmq.client.core.client_core import ClientCore
from orbitmq.errors import NotRunning, WrongLoop
from orbitmq.net.event_loop import new_event_loop
from orbitmq.net.fork import check_process, process_token
from orbitmq.threads import Future, Lock, ThreadWorkers, at_exit, start_thread

__all__ = ["LoopThread", "lease"]

log = logging.getLogger("orbitmq.client")

_CALLBACK_THREADS: Final = 4

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[P, Coroutine[object, object, T]]
Close = Callable[[], Coroutine[object, object, None]]


class LoopThread:
    """The thread; get it by ``lease``, and ``leave`` it in the end.

    Attributes:
        callbacks: threads for functions of users that are told of results.

    """

    def __init__(self) -> None:
        self._process = process_token()
        self._guard = Lock()  # over the guests, and over whether calls are taken
        self._guests: dict[object, Close] = {}
        self._calls: list[Callable[[], None]] = []
        self._is_called = False
        self._has_ended = False
        self._lingering: asyncio.TimerHandle | None = None
        self.callbacks = ThreadWorkers(_CALLBACK_THREADS, name="orbitmq-callbacks")
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = start_thread(
            partial(self._run, started), name="orbitmq-blocking", daemon=True
        )
        self._loop, self._end = started.result()

    def __repr__(self) -> str:
        state = "ended" if self._has_ended else "running"
        return f"<LoopThread {state}, {len(self._guests)} guests>"

    # Calls

    def check(self, caller: object) -> None:
        """Refuse to be waited for where that can't be.

        Raises:
            WrongProcess: the process has been forked since the lease.
            WrongLoop: the calling thread runs an event loop, which waiting would hold up.

        """
        check_process(self._process, caller)
        check_no_loop(caller)

    def call(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a coroutine function on the loop, wait, and return what it returns.

        If waiting is interrupted, such as by Ctrl-C, the work is cancelled.

        Raises:
            NotRunning: the thread has ended.
            BaseException: what the work raises.

        """
        call = _Call(self._loop, partial(work, *args, **kwargs))
        self._hand_over(call.begin)
        try:
            call.wait()
        except BaseException:
            self._on_loop(call.give_up)
            raise
        try:
            return call.outcome()
        finally:
            del call  # it holds the error, whose traceback holds this frame

    def begin(self, future: Future[T], work: Work[[], T]) -> None:
        """Run a coroutine function on the loop, and give the future what becomes of it.

        To cancel the future is to cancel the work.

        Raises:
            NotRunning: the thread has ended.

        """
        self._hand_over(partial(self._begin, future, work, copy_context()))

    def _hand_over(self, call: Callable[[], None]) -> None:
        """Have a function called on the loop, together with others that are handed over now."""
        with self._guard:
            if self._has_ended:
                raise _ended()
            self._calls.append(call)
            if not self._is_called:  # one wake-up for all that come before it is awake
                self._is_called = True
                self._loop.call_soon_threadsafe(self._take_calls)

    def _take_calls(self) -> None:
        with self._guard:
            calls, self._calls = self._calls, []
            self._is_called = False
        for call in calls:
            call()

    def _on_loop(self, call: Callable[[], object]) -> None:
        """Have a function called on the loop; if that has ended, all tasks are being cancelled."""
        with self._guard:
            if not self._has_ended:
                self._loop.call_soon_threadsafe(call)

    def _begin(self, future: Future[T], work: Work[[], T], context: Context) -> None:
        if future.cancelled():
            future.set_running_or_notify_cancel()  # tells those who wait for one of several
            return
        # The caller's context: a span of the calling thread is the parent of ours.
        task = self._loop.create_task(_carry(future, work), context=context)
        # Of the base class: what users add to a future of theirs runs elsewhere.
        Future.add_done_callback(future, partial(self._cancel, task))

    def _cancel(self, task: asyncio.Task[None], future: Future[T]) -> None:
        if future.cancelled():
            self._on_loop(task.cancel)

    # Life

    def take(self, guest: object, close: Close) -> bool:
        """Have a guest, whom ``close`` closes if the program ends before; False once ended."""
        with self._guard:
            if not self._has_ended:
                self._guests[guest] = close
            return not self._has_ended

    def leave(self, guest: object, *, linger_ms: int) -> None:
        """Have one guest less; so long after the last, the thread ends. Twice is no error."""
        with self._guard:
            if self._guests.pop(guest, None) is not None and not self._guests:
                self._loop.call_soon_threadsafe(self._linger, linger_ms / 1000)

    def join(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def end_with_program(self) -> None:
        """Close the guests that nobody closed, warn of each, and end the thread."""
        with self._guard:
            guests = dict(self._guests)
        closing: list[Future[None]] = [Future() for _ in guests]
        for future, close in zip(closing, guests.values(), strict=True):
            self.begin(future, close)
        for guest, future in zip(guests, closing, strict=True):
            if (error := future.exception()) is not None:
                log.error("%r could not be closed: %s", guest, error)
            self.leave(guest, linger_ms=0)
        self._linger_no_more()
        self.join()
        for guest in guests:
            warnings.warn(
                f"{guest!r} was closed by the end of the program; close it, or use 'with'",
                ResourceWarning,
                stacklevel=1,
                source=guest,
            )

    def _linger_no_more(self) -> None:
        with self._guard:
            if not self._has_ended:
                self._loop.call_soon_threadsafe(self._linger, 0.0)

    def _linger(self, seconds: float) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = self._loop.call_later(seconds, self._end_if_empty)

    def _end_if_empty(self) -> None:
        with self._guard:
            if not self._guests:
                # Calls that were taken before have begun by the time that the loop sees this.
                self._has_ended = True
                self._loop.call_soon_threadsafe(self._end.set)

    def _run(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            with self._guard:
                self._has_ended = True
            self.callbacks.finish()

    async def _serve(
        self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]"
    ) -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        await ClientCore.close_unused()


class _Call(Generic[T]):
    """Work that one thread waits for: a future with one reader, which costs a seventh of one.

    Args:
        loop: where the work is done.
        work: what to do.

    """

    __slots__ = ("_context", "_ended", "_error", "_given_up", "_loop", "_result", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[[], T]) -> None:
        self._loop = loop
        self._work = work
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._given_up = False
        self._result: T
        self._error: BaseException | None = None
        self._ended = Lock()  # taken until the work has ended
        self._ended.acquire()

    def begin(self) -> None:
        """Begin the work, in the caller's context: a span of its thread is the parent of ours."""
        if not self._given_up:
            self._task = self._loop.create_task(self._do(), context=self._context)

    def wait(self) -> None:
        """Wait, on the calling thread, until the work has ended."""
        self._ended.acquire()

    def give_up(self) -> None:
        """Cancel the work: nobody waits for it any more."""
        self._given_up = True
        if self._task is not None:
            self._task.cancel()

    def outcome(self) -> T:
        """Return what the work has returned, or raise what it has raised."""
        if self._error is not None:
            raise self._error
        return self._result

    async def _do(self) -> None:
        try:
            self._result = await self._work()
        except asyncio.CancelledError:
            self._error = _ended()
            raise
        except Exception as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._ended.release()


async def _carry(future: Future[T], work: Work[[], T]) -> None:
    """Do the work, and give the future what becomes of it.

    Not a callback of the task: that would wait for another turn of the loop.
    """
    try:
        result = await work()
    except asyncio.CancelledError:
        if future.set_running_or_notify_cancel():  # else it was the caller who cancelled
            future.set_exception(_ended())
        raise
    except Exception as error:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _ended() -> NotRunning:
    return NotRunning(
        "the thread of orbitmq.blocking has ended, since all that used it is closed, or the "
        "program is ending; have threads end before the producer that they use, or make a new one",
        state="closed",
    )


def check_no_loop(caller: object) -> None:
    """Refuse to wait on a thread that runs an event loop.

    Raises:
        WrongLoop: it does.

    """
    if asyncio._get_running_loop() is not None:
        raise WrongLoop(
            f"{caller} would hold up the event loop that runs on this thread; use the classes of "
            "orbitmq.client with 'await' here, or call this by asyncio.to_thread"
        )


_lease_guard = Lock()
_current: LoopThread | None = None
_is_watching_exit = False


def lease(guest: object, close: Close) -> LoopThread:
    """Return the thread of this process, started if there is none; ``leave`` it in the end.

    Args:
        guest: who uses it.
        close: closes the guest, on the loop, should the program end without a ``leave``.

    Raises:
        WrongLoop: the calling thread runs an event loop of its own.

    """
    global _current, _is_watching_exit  # noqa: PLW0603 - one thread, and one exit, per process
    check_no_loop(guest)
    with _lease_guard:
        if not _is_watching_exit:
            at_exit(_end_with_program)
            _is_watching_exit = True
        if _current is None or not _current.take(guest, close):
            _current = LoopThread()
            _current.take(guest, close)
        return _current


def _end_with_program() -> None:
    if _current is not None:
        _current.end_with_program()


def _forget() -> None:
    # They are the parent's: its threads are not here, and one of them may have held the lock.
    global _lease_guard, _current
    _lease_guard, _current = Lock(), None


os.register_at_fork(after_in_child=_forget)
