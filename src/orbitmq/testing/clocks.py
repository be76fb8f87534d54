"""Virtual time: an hour of timeouts passes at once, and every run takes the same steps.

The standard loop uses a selector that never waits. When no callback is ready, it moves the loop's
time to the next timer. Without a timer nothing can ever happen again, and it raises
:class:`Deadlock` with all waiting tasks and where they wait. (uvloop keeps its own time and can't
be driven like this.)

Laws of a virtual run:

- Time passes only while every task waits, and then jumps; running code takes no time.
- There are no threads: use :class:`InlineWorkers`. The loop's executor runs inline too.
- Sockets work, but timers don't wait for them; connect both ends in memory instead.

>>> async def main(clock: VirtualClock) -> int:
...     await asyncio.sleep(3600)
...     return clock.monotonic_ms()
>>> run_virtual(main)
3600000

"""

import asyncio
import contextvars
import functools
import inspect
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, ParamSpec, TypeVar

from orbitmq.errors import OrbitError
from orbitmq.threads import Future

__all__ = [
    "Deadlock",
    "InlineWorkers",
    "LateWorkers",
    "VirtualClock",
    "VirtualLoop",
    "run_virtual",
]

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""When a virtual run begins: 2023-11-14 22:13:20 UTC."""

Belongs = Callable[[contextvars.Context], bool]

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
# The loop itself registers one end of a socket pair, to be woken up by.
_OWN_REGISTRATIONS = 1


class Deadlock(OrbitError):
    """No callback is ready, no timer is set, and no I/O is awaited: the run can't go on."""


class _JumpingSelector(selectors.PollSelector):
    """A selector that advances virtual time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        # Whole nanoseconds: adding a small jump to a float might not change it.
        self.now_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, advance time by ``timeout`` seconds."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None:
            self.now_ns += max(1, round(timeout * _NS_PER_S))
            return ready
        if len(self.get_map()) > _OWN_REGISTRATIONS:
            return super().select(None)
        raise Deadlock(_describe_deadlock(self.now_ns))


class _Diverting(deque[asyncio.Handle]):
    """What is ready to run; what belongs to something paused is held back."""

    def __init__(self, ready: deque[asyncio.Handle], is_held: Belongs) -> None:
        super().__init__(ready)
        self.held: list[asyncio.Handle] = []
        self._is_held = is_held

    def append(self, handle: asyncio.Handle) -> None:
        if self._is_held(_context_of(handle)):
            self.held.append(handle)
        else:
            super().append(handle)


def _context_of(handle: asyncio.Handle) -> contextvars.Context:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, and which remembers its context.

    The loop and task groups cancel the tasks of a set one by one; with the default hash, the
    address, that order would differ from run to run.
    """

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        number: int,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> None:
        self._number = number
        self.born_in = context or contextvars.copy_context()
        super().__init__(coro, context=self.born_in, **options)

    def drop(self) -> None:
        """Forget the task: nothing will ever wake it, and it must not be reported as pending."""
        asyncio.tasks._unregister_task(self)
        self._log_destroy_pending = False
        coro = self.get_coro()
        if inspect.iscoroutine(coro) and inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
            coro.close()  # it has not begun, so none of its code runs

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time begins at 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        self._task_numbers = itertools.count(1)
        super().__init__(self._jumping)
        self._ready: deque[asyncio.Handle]  # of the base class
        self._paused: list[Belongs] = []
        # The base class runs a timer that is due within this many seconds. The default, 1 ns, is
        # below the precision of a float after some weeks, and a due timer would never run.
        self._clock_resolution = 1e-6
        self.set_task_factory(self._number_task)

    def time(self) -> float:
        """Return the virtual seconds since the run began."""
        return self._jumping.now_ns / _NS_PER_S

    def time_ms(self) -> int:
        """Return the virtual milliseconds since the run began."""
        return self._jumping.now_ns // _NS_PER_MS

    def run_in_executor(  # type: ignore[override]  # the base class takes one executor, or none
        self, _executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run ``func`` at once, whatever the executor, and return its future."""
        return asyncio.wrap_future(InlineWorkers().submit(func, *args), loop=self)

    def pause(self, belongs: Belongs) -> None:
        """Hold back all callbacks, timers and tasks whose context matches, until ``resume``.

        Time goes on for them: timers that are due meanwhile fire after the pause, as after SIGSTOP.
        """
        self._paused.append(belongs)
        if not isinstance(self._ready, _Diverting):
            self._ready = _Diverting(self._ready, self._is_paused)
        for at, handle in enumerate(self._ready):
            if belongs(_context_of(handle)):
                self._ready.held.append(handle)
                # In its place, since the loop has counted what it runs in this round.
                self._ready[at] = asyncio.Handle(lambda: None, (), self)

    def resume(self, belongs: Belongs) -> None:
        """Run what ``pause`` with the same function held back, in its order."""
        self._paused.remove(belongs)
        assert isinstance(self._ready, _Diverting)
        held, self._ready.held = self._ready.held, []
        for handle in held:
            self._ready.append(handle)
        if not self._paused:
            self._ready = deque(self._ready)

    def _is_paused(self, context: contextvars.Context) -> bool:
        return any(belongs(context) for belongs in self._paused)

    def drop(self, belongs: Belongs) -> Sequence[asyncio.Task[Any]]:
        """Drop all callbacks, timers and tasks whose context matches; return the tasks.

        The caller must keep the tasks: a garbage-collected task is closed and runs its ``finally``.
        """
        # First, since only its callback may reference a task that is about to run.
        dropped = [
            task
            for task in sorted(asyncio.all_tasks(self), key=hash)
            if isinstance(task, _NumberedTask) and belongs(task.born_in)
        ]
        waiting: list[asyncio.Handle] = [*self._ready, *self._scheduled]  # type: ignore[attr-defined]
        if isinstance(self._ready, _Diverting):
            waiting += self._ready.held
        for handle in waiting:
            if belongs(_context_of(handle)):
                handle.cancel()
        for task in dropped:
            task.drop()
        return dropped

    def _number_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        assert isinstance(coro, Coroutine)  # also an async generator that is closed
        return _NumberedTask(coro, number=next(self._task_numbers), loop=loop, **options)


class VirtualClock:
    """A :class:`orbitmq.clock.Clock` that reads a virtual loop's time, from a fixed epoch on."""

    __slots__ = ("_epoch_ms", "_loop")

    def __init__(self, loop: VirtualLoop, *, epoch_ms: int = EPOCH_MS) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms

    def now_ms(self) -> int:
        """Return the virtual time of day in epoch milliseconds."""
        return self._epoch_ms + self._loop.time_ms()

    def monotonic_ms(self) -> int:
        """Return the virtual milliseconds since the run began."""
        return self._loop.time_ms()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)

    def jump(self, delta_ms: int) -> None:
        """Move the time of day, as setting a machine's clock does; monotonic time is unchanged."""
        self._epoch_ms += delta_ms

    def __repr__(self) -> str:
        return f"<VirtualClock {self.now_ms()} ms, {self.monotonic_ms()} ms into the run>"


class InlineWorkers:
    """A :class:`orbitmq.threads.Workers` without threads: ``submit`` runs the work at once.

    >>> InlineWorkers().submit(sum, [1, 2, 3]).result()
    6
    """

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed = False

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the finished future of ``work(*args, **kwargs)``; RuntimeError once closed."""
        if self._closed:
            raise RuntimeError("these workers are closed; submit before close()")
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # not lost: result() raises it
            future.set_exception(error)
        return future

    def close(self, *, wait: bool = True) -> None:  # noqa: ARG002 - there is no thread
        """Refuse further work."""
        self._closed = True


class LateWorkers:
    """Workers without threads whose work takes virtual time, like a slow sync.

    >>> async def main(clock: VirtualClock) -> int:
    ...     workers = LateWorkers(lambda: 0.25)
    ...     await asyncio.wrap_future(workers.submit(sum, [1, 2, 3]))
    ...     return clock.monotonic_ms()
    >>> run_virtual(main)
    250

    Blocking on a future, as a stop does, runs its work at once. ``delay_s`` returns how long the
    next piece of work takes, in seconds.
    """

    __slots__ = ("_closed", "_delay_s", "_loop", "_waiting")

    def __init__(self, delay_s: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[_LateFuture[Any], None] = {}
        self._closed = False

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of ``work(*args, **kwargs)``; RuntimeError once closed."""
        if self._closed:
            raise RuntimeError("these workers are closed; submit before close()")
        future: _LateFuture[T] = _LateFuture(functools.partial(work, *args, **kwargs))
        future.set_running_or_notify_cancel()
        self._waiting[future] = None
        future.add_done_callback(lambda _done: self._waiting.pop(future, None))
        self._loop.call_later(self._delay_s(), future.do_work)
        return future

    def close(self, *, wait: bool = True) -> None:  # noqa: ARG002 - there is no thread
        """Run the pending work, and refuse further work."""
        self._closed = True
        for future in list(self._waiting):
            future.do_work()


class _LateFuture(Future[T]):
    """A future that runs its work when a caller blocks on it."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work: Callable[[], T] | None = work

    def do_work(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            try:
                self.set_result(work())
            except Exception as error:  # not lost: result() raises it
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> T:
        self.do_work()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.do_work()
        return super().exception(timeout)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run ``main`` in virtual time and return its result; tasks left running are cancelled.

    Raise Deadlock if every task waits for something that can never happen.
    """

    async def with_clock() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return await main(VirtualClock(loop))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(with_clock())


def _describe_deadlock(now_ns: int) -> str:
    tasks = sorted(asyncio.all_tasks(), key=hash)
    waiting = "".join(f"\n  {_describe(task)}" for task in tasks)
    return (
        f"deadlock at {now_ns / _NS_PER_S:.3f} s of virtual time: "
        f"no timer, no I/O, and all {len(tasks)} tasks wait:{waiting}"
    )


def _describe(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    name = f"{task.get_name()} ({getattr(coro, '__qualname__', coro)})"
    while inspect.iscoroutine(coro) and inspect.iscoroutine(coro.cr_await):
        coro = coro.cr_await  # the innermost coroutine is the one that waits
    if not inspect.iscoroutine(coro) or coro.cr_frame is None:
        return name
    return f"{name} in {coro.__qualname__}, {coro.cr_code.co_filename}:{coro.cr_frame.f_lineno}"
