"""Threads with an event loop: for code that has none, and for what user code must not delay.

::

    first lease() ──▶ running ──▶ the last leave() ──▶ lingering ── lease() ──▶ running
                        │                                  └── linger_ms passed ──▶ ended
                        └── the program ends: users are closed, with a ResourceWarning ──▶ ended

All users of a thread's name share it: the objects of ``orbitmq.blocking`` one, the memberships of
consumers another (``second_loop``). A forked child starts a thread of its
own with its first lease; objects from before the fork raise WrongProcess.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Final, Generic, ParamSpec, TypeVar

from orbitmq.errors import NotRunning, WrongLoop
from orbitmq.net.event_loop import new_event_loop
from orbitmq.net.fork import check_process, process_token
from orbitmq.threads import Future, Lock, ThreadWorkers, at_exit, start_thread

__all__ = ["BLOCKING", "LoopThread", "before_loop_ends", "check_no_loop", "lease"]

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
        call = _Call(self._loop, partial(work, *args, **kwargs))
        self.hand_over(call.begin)
        try:
            call.wait()
        except BaseException:
            self._on_loop(call.cancel)
            raise
        try:
            return call.result()
        finally:
            del call  # it holds the error, whose traceback holds this frame

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
                self._is_called = True
                self._loop.call_soon_threadsafe(self._take_calls)

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
            self.callbacks.finish()

    async def _serve(
        self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]"
    ) -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        for close in _before_end:
            await close()


class _Call(Generic[T]):
    """Work that one thread waits for; costs a seventh of a concurrent Future."""

    __slots__ = ("_cancelled", "_context", "_ended", "_error", "_loop", "_result", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[[], T]) -> None:
        self._loop = loop
        self._work = work
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._result: T
        self._error: BaseException | None = None
        self._ended = Lock()  # held until the work has ended
        self._ended.acquire()

    def begin(self) -> None:
        """Start the work, in the caller's context: a span of its thread is the parent of ours."""
        if not self._cancelled:
            self._task = self._loop.create_task(self._do(), context=self._context)

    def wait(self) -> None:
        """Block the calling thread until the work has ended."""
        self._ended.acquire()

    def cancel(self) -> None:
        """Cancel the work."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        """Return the result of the work, or raise its error."""
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
