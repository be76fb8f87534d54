"""The one loop thread of a process: who shares it, when it ends, and what interrupts a call."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from orbitmq.client.core import loop_thread
from orbitmq.client.core.loop_thread import LoopThread, Waiter, lease
from orbitmq.errors import NotRunning, WrongLoop
from orbitmq.threads import Future
from tests.interop.waiting import until
from tests.net.test_fork import said_in_a_fork


async def nothing() -> None:
    """Close a user that has nothing to close."""


async def doubled(number: int) -> int:
    return 2 * number


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    leased = lease("test", nothing)
    yield leased
    leased.leave("test", linger_ms=0)
    leased.join()


def test_a_call_returns_what_the_coroutine_returns_or_raises(thread: LoopThread) -> None:
    assert thread.call(doubled, 21) == 42
    with pytest.raises(TypeError):
        thread.call(doubled, None)  # type: ignore[arg-type]


def test_users_share_one_thread_and_it_ends_after_the_last() -> None:
    first, second = lease("one", nothing), lease("two", nothing)
    assert first is second
    first.leave("one", linger_ms=0)
    assert first.call(doubled, 1) == 2
    second.leave("two", linger_ms=0)
    second.leave("two", linger_ms=0)
    first.join()
    with pytest.raises(NotRunning, match="has ended"):
        first.call(doubled, 1)
    assert repr(first) == "<LoopThread ended, 0 users>"


def test_a_user_that_comes_while_it_lingers_gets_the_same_thread() -> None:
    first = lease("one", nothing)
    first.leave("one", linger_ms=60_000)
    second = lease("two", nothing)
    assert second is first
    second.leave("two", linger_ms=0)
    first.join()


def test_work_in_flight_when_the_thread_ends_fails_with_not_running() -> None:
    thread = lease("one", nothing)
    future: Future[None] = Future()
    thread.begin(future, forever)
    thread.leave("one", linger_ms=0)
    assert isinstance(future.exception(timeout=10), NotRunning)
    thread.join()


def test_to_cancel_the_future_is_to_cancel_the_work(thread: LoopThread) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await forever()
        finally:
            ended.set()

    future: Future[None] = Future()
    thread.begin(future, work)
    assert begun.wait(10)
    assert future.cancel()
    assert ended.wait(10)


def test_what_is_cancelled_before_its_turn_is_not_begun(thread: LoopThread) -> None:
    begun = threading.Event()

    async def work() -> None:
        begun.set()

    future: Future[None] = Future()
    future.cancel()
    thread.begin(future, work)
    thread.call(nothing)  # calls have their turn in order
    assert not begun.is_set()


def test_an_interrupt_while_waiting_cancels_the_work(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await forever()
        finally:
            ended.set()

    def interrupted(_call: object) -> None:
        """Wait as one does when Ctrl-C is pressed."""
        assert begun.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop_thread._Call, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.call(work)
    assert ended.wait(10)


def test_an_interrupt_before_the_work_has_begun_prevents_it(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, let_go, begun = threading.Event(), threading.Event(), threading.Event()

    async def hold() -> None:
        holds.set()
        assert let_go.wait(10)

    async def work() -> None:
        begun.set()

    def interrupted(_call: object) -> None:
        raise KeyboardInterrupt

    holding: Future[None] = Future()
    thread.begin(holding, hold)
    assert holds.wait(10)  # from here on the loop comes to nothing else
    with monkeypatch.context() as patch:
        patch.setattr(loop_thread._Call, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.call(work)
    let_go.set()
    thread.call(nothing)  # calls have their turn in order
    assert not begun.is_set()


def test_a_call_in_flight_when_the_thread_ends_fails_with_not_running() -> None:
    thread = lease("one", nothing)

    async def leave_and_wait() -> None:
        thread.leave("one", linger_ms=0)
        await forever()

    with pytest.raises(NotRunning):
        thread.call(leave_and_wait)
    thread.join()


# Calls without a task


def never(waiter: Waiter[int]) -> None:
    """Leave a waiter without an outcome."""


def test_a_waiter_returns_what_it_gets_first_or_raises_it(thread: LoopThread) -> None:
    def answer(waiter: Waiter[int]) -> None:
        assert not waiter.done()
        waiter.set_result(42)
        waiter.set_exception(OSError("too late"))
        waiter.set_result(43)
        assert waiter.done()

    def refuse(waiter: Waiter[int]) -> None:
        waiter.set_exception(OSError("the disk is full"))
        waiter.set_result(43)

    assert thread.call_for(answer, never) == 42
    with pytest.raises(OSError, match="the disk is full"):
        thread.call_for(refuse, never)


def test_calls_that_wait_for_the_loop_are_taken_in_one_turn(thread: LoopThread) -> None:
    holds, let_go = threading.Event(), threading.Event()
    turns: list[list[int]] = []

    async def hold() -> None:
        holds.set()
        assert let_go.wait(10)

    def note(number: int, waiter: Waiter[int]) -> None:
        if not turns:
            asyncio.get_running_loop().call_soon(turns.append, [])
        turns.append([number])
        waiter.set_result(number)

    holding: Future[None] = Future()
    thread.begin(holding, hold)
    assert holds.wait(10)  # from here on the loop takes no calls
    with ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(thread.call_for, partial(note, n), never) for n in range(16)]
        until(lambda: len(thread._calls) == 16, what="all calls wait", seconds=10)
        let_go.set()
        assert [call.result(timeout=10) for call in calls] == list(range(16))
    thread.call(nothing)
    assert turns[-1] == [], "the turn ended after the last of them"
    assert sorted(turns[:-1]) == [[number] for number in range(16)]


def test_an_interrupt_while_waiting_cancels_what_a_waiter_waits_for(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    waiters: list[Waiter[int]] = []

    def begin(waiter: Waiter[int]) -> None:
        waiters.append(waiter)
        begun.set()

    def cancel(waiter: Waiter[int]) -> None:
        assert waiters == [waiter]
        assert waiter.done()
        waiter.set_result(42)  # as an answer that comes now; it is ignored
        cancelled.set()

    def interrupted(_waiter: object) -> None:
        """Wait as one does when Ctrl-C is pressed."""
        assert begun.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(Waiter, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.call_for(begin, cancel)
    assert cancelled.wait(10)


def test_an_interrupt_before_the_loop_takes_a_call_prevents_it(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, let_go = threading.Event(), threading.Event()

    async def hold() -> None:
        holds.set()
        assert let_go.wait(10)

    def interrupted(_waiter: object) -> None:
        raise KeyboardInterrupt

    begun: list[Waiter[int]] = []
    holding: Future[None] = Future()
    thread.begin(holding, hold)
    assert holds.wait(10)
    with monkeypatch.context() as patch:
        patch.setattr(Waiter, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.call_for(begun.append, never)
    let_go.set()
    thread.call(nothing)  # calls have their turn in order
    assert not begun


def test_an_interrupt_of_a_wake_up_does_not_stop_later_calls(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    with monkeypatch.context() as patch:
        patch.setattr(thread, "_loop", loop)
        patch.setattr(loop, "call_soon_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.hand_over(lambda: None)
    loop.close()
    later: Future[int] = Future()
    thread.begin(later, partial(doubled, 21))
    assert later.result(10) == 42


def test_a_waiter_without_an_outcome_when_the_thread_ends_fails_with_not_running() -> None:
    thread = lease("one", nothing)

    def leave(_waiter: Waiter[int]) -> None:
        thread.leave("one", linger_ms=0)

    with pytest.raises(NotRunning, match="has ended"):
        thread.call_for(leave, never)
    thread.join()
    with pytest.raises(NotRunning, match="has ended"):
        thread.call_for(leave, never)


def test_a_thread_with_a_loop_of_its_own_may_not_wait(thread: LoopThread) -> None:
    async def main() -> None:
        with pytest.raises(WrongLoop, match=r"asyncio\.to_thread"):
            thread.check("the producer")
        with pytest.raises(WrongLoop, match=r"asyncio\.to_thread"):
            lease("another", nothing)

    asyncio.run(main())
    thread.check("the producer")


def test_a_child_process_has_a_thread_of_its_own(thread: LoopThread) -> None:
    def attempt() -> None:
        own = lease("child", nothing)
        assert own is not thread
        assert own.call(doubled, 21) == 42
        thread.check("the producer")

    assert said_in_a_fork(attempt).startswith("the producer was opened before this process")
    assert thread.call(doubled, 21) == 42


def test_the_end_of_the_program_closes_users_and_warns_of_each() -> None:
    closed: list[str] = []

    async def close_one() -> None:
        closed.append("one")

    async def close_two() -> None:
        closed.append("two")
        raise OSError("the disk is full")

    thread = lease("one", close_one)
    lease("two", close_two)
    with pytest.warns(ResourceWarning) as warned:
        thread.end_with_program()
    assert closed == ["one", "two"]
    assert [str(one.message).split()[0] for one in warned] == ["'one'", "'two'"]
    thread.join()
