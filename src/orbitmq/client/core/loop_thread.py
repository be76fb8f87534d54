"""Threads with an event loop: for code that has none, and for what user code must not delay.

::

    first lease() ──▶ running ──▶ the last leave() ──▶ lingering ── lease() ──▶ running
                        │                                  └── linger_ms passed ──▶ ended
                        └── the program ends: users are closed, with a ResourceWarning ──▶ ended

    call, call_for ──▶ handed over, many in one wake-up ──▶ task, or a function that gets the Waiter
         ▲                                                                 │
         └────────────── the calling thread waits on a lock ◀── outcome ───┘

All users of a thread's name share it: the objects of ``orbitmq.blocking`` one, the memberships of
consumers another (``second_loop``). A forked child starts a thread of its
own with its first lease; objects from before the fork raise WrongProcess.
"""

import asyncio
import logging
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar

from orbitmq.errors import NotRunning, WrongLoop
from orbitmq.net.event_loop import new_event_loop
from orbitmq.net.fork import check_process, process_token
from orbitmq.threads import Future, Lock, ThreadWorkers, at_exit, start_thread

__all__ = ["BLOCKING", "LoopThread", "Waiter", "before_loop_ends", "check_no_loop", "lease"]

log = logging.getLogger("orbitmq.client")

BLOCKING: Final = "orbitmq-blocking"
"""The name of the thread of ``orbitmq.blocking``."""
_CALLBACK_THREADS: Final = 4

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[P, Coroutine[object, object, T]]
Close = Callable[[], Coroutine[object, object, None]]


class LoopThread:
    """The loop thread; get it by ``lease``, and call ``leave`` when done."""

    def __init__(self, name: str = BLOCKING) -> None:
        self._process = process_token()
        self._guard = Lock()  # for _users, _calls, _is_called and _has_ended
        self._users: dict[object, Close] = {}
        self._calls: list[Callable[[], None]] = []
        self._waiting: set[Waiter[Any]] = set()
        self._is_called = False
        self._has_ended = False
        self._lingering: asyncio.TimerHandle | None = None
        self.callbacks = ThreadWorkers(_CALLBACK_THREADS, name="orbitmq-callbacks")
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = start_thread(partial(self._run, started), name=name, daemon=True)
        self._loop, self._end = started.result()

    def __repr__(self) -> str:
        state = "ended" if self._has_ended else "running"
        return f"<LoopThread {state}, {len(self._users)} users>"

    # Calls

    def check(self, caller: object) -> None:
        """Check that the caller may wait for the loop thread.

        Raise WrongProcess after a fork, and WrongLoop if the calling thread runs an event loop,
        which waiting would block.
        """
        check_process(self._process, caller)
        check_no_loop(caller)

    def call(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a coroutine function on the loop, and return its result or raise its error.

        If waiting is interrupted, such as by Ctrl-C, the work is cancelled. NotRunning if the
        thread has ended.
        """
        return self._outcome(_Call(self._loop, partial(work, *args, **kwargs)))

    def call_for(
        self, begin: Callable[["Waiter[T]"], None], cancel: Callable[["Waiter[T]"], None]
    ) -> T:
        """Call ``begin`` on the loop with a waiter, and return or raise what the waiter gets.

        It costs less than ``call``, for what needs no task. If waiting is interrupted, ``cancel``
        is called on the loop. NotRunning if the thread has ended.
        """
        return self._outcome(_Handed(begin, cancel))

    def _outcome(self, waiter: "_Begun[T]") -> T:
        self._waiting.add(waiter)
        try:
            self.hand_over(waiter.begin)
            waiter.wait()
        except BaseException:
            waiter.abandon()
            self._on_loop(waiter.cancel)
            raise
        finally:
            self._waiting.discard(waiter)
        try:
            return waiter.result()
        finally:
            del waiter  # it holds the error, whose traceback holds this frame

    def begin(self, future: Future[T], work: Work[[], T]) -> None:
        """Run a coroutine function on the loop, and set its result or error on the future.

        Cancelling the future cancels the work. NotRunning if the thread has ended.
        """
        self.hand_over(partial(self._begin, future, work, copy_context()))

    def hand_over(self, call: Callable[[], None]) -> None:
        """Call a function on the loop, in one wake-up with others that are handed over now.

        It must not raise. NotRunning if the thread has ended.
        """
        with self._guard:
            if self._has_ended:
                raise _ended()
            self._calls.append(call)
            if not self._is_called:  # else the loop is about to wake up
                self._loop.call_soon_threadsafe(self._take_calls)
                self._is_called = True  # not earlier: Ctrl-C may interrupt the wake-up

    def _take_calls(self) -> None:
        with self._guard:
            calls, self._calls = self._calls, []
            self._is_called = False
        for call in calls:
            call()

    def _on_loop(self, call: Callable[[], object]) -> None:
        """Call a function on the loop, unless that has ended and is cancelling all its tasks."""
        with self._guard:
            if not self._has_ended:
                self._loop.call_soon_threadsafe(call)

    def _begin(self, future: Future[T], work: Work[[], T], context: Context) -> None:
        if future.cancelled():
            future.set_running_or_notify_cancel()  # notifies as_completed() and wait()
            return
        # The caller's context: a span of the calling thread is the parent of ours.
        task = self._loop.create_task(_run_into(future, work), context=context)
        # The method of the base class: callbacks added to a subclass run on other threads.
        Future.add_done_callback(future, partial(self._cancel, task))

    def _cancel(self, task: asyncio.Task[None], future: Future[T]) -> None:
        if future.cancelled():
            self._on_loop(task.cancel)

    # Life

    def take(self, user: object, close: Close) -> bool:
        """Add a user, with what closes it if the program ends; False if the thread has ended."""
        with self._guard:
            if not self._has_ended:
                self._users[user] = close
            return not self._has_ended

    def leave(self, user: object, *, linger_ms: int) -> None:
        """Remove a user; the thread ends ``linger_ms`` after the last. A repeat does nothing."""
        with self._guard:
            if self._users.pop(user, None) is not None and not self._users:
                self._loop.call_soon_threadsafe(self._linger, linger_ms / 1000)

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def end_with_program(self) -> None:
        """Close the users that were not closed, warn about each, and end the thread."""
        with self._guard:
            users = dict(self._users)
        closing: list[Future[None]] = [Future() for _ in users]
        for future, close in zip(closing, users.values(), strict=True):
            self.begin(future, close)
        for user, future in zip(users, closing, strict=True):
            if (error := future.exception()) is not None:
                log.error("%r could not be closed: %s", user, error)
            self.leave(user, linger_ms=0)
        self._linger_no_more()
        self.join()
        for user in users:
            warnings.warn(
                f"{user!r} was closed by the end of the program; close it, or use 'with'",
                ResourceWarning,
                stacklevel=1,
                source=user,
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
            if not self._users:
                # Calls that were handed over before have started by the time the loop ends.
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
            for waiter in list(self._waiting):  # what the loop has left undone
                waiter.set_exception(_ended())
            self.callbacks.finish()

    async def _serve(
        self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]"
    ) -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        for close in _before_end:
            await close()


class Waiter(Generic[T]):
    """A thread that waits for an outcome; costs a seventh of a concurrent Future.

    The loop sets the outcome; all but the first are ignored.
    """

    __slots__ = ("_error", "_is_done", "_result", "_settled")

    def __init__(self) -> None:
        self._result: T
        self._error: BaseException | None = None
        self._is_done = False
        self._settled = Lock()  # held until there is an outcome
        self._settled.acquire()

    def done(self) -> bool:
        """Return whether it has an outcome, or waits no more."""
        return self._is_done

    def set_result(self, result: T, /) -> None:
        """Return ``result`` to the thread."""
        if not self._is_done:
            self._is_done = True
            self._result = result
            self._settled.release()

    def set_exception(self, error: BaseException, /) -> None:
        """Raise ``error`` in the thread; work that was cancelled was so by the end of the loop."""
        if not self._is_done:
            self._is_done = True
            self._error = _ended() if isinstance(error, asyncio.CancelledError) else error
            self._settled.release()

    def wait(self) -> None:
        """Block the calling thread until there is an outcome."""
        self._settled.acquire()

    def abandon(self) -> None:
        """Ignore the outcome: the thread waits no more."""
        self._is_done = True

    def result(self) -> T:
        """Return the result, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._result


class _Begun(Waiter[T], ABC):
    """A waiter whose work begins on the loop."""

    __slots__ = ()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def cancel(self) -> None: ...


class _Handed(_Begun[T]):
    """Work that gets the waiter itself."""

    __slots__ = ("_begin", "_cancel")

    def __init__(
        self, begin: Callable[[Waiter[T]], None], cancel: Callable[[Waiter[T]], None]
    ) -> None:
        super().__init__()
        self._begin = begin
        self._cancel = cancel

    def begin(self) -> None:
        """Start the work, unless the thread waits no more."""
        if not self._is_done:
            self._begin(self)

    def cancel(self) -> None:
        """Cancel the work."""
        self._cancel(self)


class _Call(_Begun[T]):
    """A coroutine function that is run as a task."""

    __slots__ = ("_context", "_loop", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[[], T]) -> None:
        super().__init__()
        self._loop = loop
        self._work = work
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the work, in the caller's context: a span of its thread is the parent of ours."""
        if not self._is_done:
            self._task = self._loop.create_task(self._do(), context=self._context)

    def cancel(self) -> None:
        """Cancel the work."""
        if self._task is not None:
            self._task.cancel()

    async def _do(self) -> None:
        try:
            result = await self._work()
        except Exception as error:
            self.set_exception(error)
        except BaseException as error:
            self.set_exception(error)
            raise
        else:
            self.set_result(result)


async def _run_into(future: Future[T], work: Work[[], T]) -> None:
    """Do the work, and set its result or error on the future.

    Not in a callback of the task: that would wait for another turn of the loop.
    """
    try:
        result = await work()
    except asyncio.CancelledError:
        if future.set_running_or_notify_cancel():  # else the caller cancelled it
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
        "the loop thread of orbitmq.blocking has ended, since all its producers are closed or the "
        "program is ending; end threads before closing the producer that they use, or create a new "
        "producer",
        state="closed",
    )


def check_no_loop(caller: object) -> None:
    """Raise WrongLoop if the calling thread runs an event loop, which waiting would block."""
    if asyncio._get_running_loop() is not None:
        raise WrongLoop(
            f"{caller} would block the event loop that runs on this thread; use the async client "
            "(orbitmq.Producer) with 'await' here, or call this through asyncio.to_thread"
        )


_before_end: list[Close] = []


def before_loop_ends(close: Close) -> None:
    """Call a coroutine function on each loop thread before its loop ends."""
    _before_end.append(close)


_lease_guard = Lock()
_current: dict[str, LoopThread] = {}
_is_watching_exit = False


def lease(user: object, close: Close, name: str = BLOCKING) -> LoopThread:
    """Return the thread of a name, started if there is none; call ``leave`` when done.

    ``close`` closes the user, on the loop, if the program ends without a ``leave``. WrongLoop if
    the thread is that of ``orbitmq.blocking``, and the calling thread runs an event loop.
    """
    global _is_watching_exit  # noqa: PLW0603 - one exit per process
    if name == BLOCKING:
        check_no_loop(user)
    with _lease_guard:
        if not _is_watching_exit:
            at_exit(_end_with_program)
            _is_watching_exit = True
        thread = _current.get(name)
        if thread is None or not thread.take(user, close):
            thread = _current[name] = LoopThread(name)
            thread.take(user, close)
        return thread


def _end_with_program() -> None:
    for thread in list(_current.values()):
        thread.end_with_program()


def _forget() -> None:
    # In a forked child: the threads exist only in the parent, and the lock may be held forever.
    global _lease_guard  # noqa: PLW0603 - one per process
    _lease_guard = Lock()
    _current.clear()


os.register_at_fork(after_in_child=_forget)
