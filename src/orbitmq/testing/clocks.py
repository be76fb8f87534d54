"""Virtual time: an hour of timeouts passes at once, and every run takes the same steps.

The standard loop stands on a selector that never waits. When no callback is ready it moves the
loop's time to the next timer; when there is no timer either, nothing can ever happen again, and it
raises :class:`Deadlock` with the tasks that wait and where. (uvloop keeps its own time and can't
be driven so.)

Laws of a virtual run:

- Time passes only while every task waits, and then jumps; code itself takes no time.
- No real thread: hand in :class:`InlineWorkers`. The loop's own executor runs inline too.
- Sockets work, but timers don't wait for them; join two ends in memory instead.

>>> async def main(clock: VirtualClock) -> int:
...     await asyncio.sleep(3600)
...     return clock.monotonic_ms()
>>> run_virtual(main)
3600000

"""

import asyncio
import inspect
import itertools
import selectors
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ParamSpec, TypeVar

from orbitmq.errors import OrbitError
from orbitmq.threads import Future

__all__ = ["Deadlock", "InlineWorkers", "VirtualClock", "VirtualLoop", "run_virtual"]

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""When a virtual run begins: 2023-11-14 22:13:20 UTC, a Tuesday without meaning."""

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
# The loop keeps one end of a socket pair registered, to be woken by; it is no sign of life.
_OWN_REGISTRATIONS = 1


class Deadlock(OrbitError):
    """No callback is ready, no timer is set, no I/O is awaited: the run can't go on."""


class _JumpingSelector(selectors.PollSelector):
    """Finds what is ready now; where another selector would wait, it moves time instead."""

    def __init__(self) -> None:
        super().__init__()
        # Whole nanoseconds: each jump moves time, where a sum of floats might stand still.
        self.now_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, after a jump of ``timeout`` seconds if nothing is."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None:
            self.now_ns += max(1, round(timeout * _NS_PER_S))
            return ready
        if len(self.get_map()) > _OWN_REGISTRATIONS:
            return super().select(None)
        raise Deadlock(_describe_deadlock(self.now_ns))


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number.

    The loop, and task groups, cancel the tasks of a set one by one; by address, that order would
    differ from run to run.
    """

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time begins at 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        self._task_numbers = itertools.count(1)
        super().__init__(self._jumping)
        # The base class runs a timer once it is due within this many seconds. The machine's own
        # figure, 1 ns, is lost in a float after some weeks, and a due timer would never run.
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

    def _number_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        assert inspect.iscoroutine(coro)
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
        """Let virtual time pass, and with it everything that is due until then."""
        await asyncio.sleep(seconds)

    def jump(self, delta_ms: int) -> None:
        """Move the time of day alone, either way, as setting a machine's clock does."""
        self._epoch_ms += delta_ms

    def __repr__(self) -> str:
        return f"<VirtualClock {self.now_ms()} ms, {self.monotonic_ms()} ms into the run>"


class InlineWorkers:
    """A :class:`orbitmq.threads.Workers` without threads: work is done when ``submit`` returns.

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
        except Exception as error:  # not lost: whoever asks for the result gets it
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Take no more."""
        self._closed = True


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run ``main`` in virtual time and return its result; what it leaves running is cancelled.

    Raises:
        Deadlock: every task waits for something that can't happen.

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
        f"nothing can happen any more at {now_ns / _NS_PER_S:.3f} s of virtual time: "
        f"no timer, no I/O, and every task waits ({len(tasks)}):{waiting}"
    )


def _describe(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    name = f"{task.get_name()} ({getattr(coro, '__qualname__', coro)})"
    while inspect.iscoroutine(coro) and inspect.iscoroutine(coro.cr_await):
        coro = coro.cr_await  # the innermost is where it waits
    if not inspect.iscoroutine(coro) or coro.cr_frame is None:
        return name
    return f"{name} in {coro.__qualname__}, {coro.cr_code.co_filename}:{coro.cr_frame.f_lineno}"
