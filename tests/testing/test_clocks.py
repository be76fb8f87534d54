import asyncio
import os
import socket
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orbitmq.testing.clocks import (
    Deadlock,
    InlineWorkers,
    LateWorkers,
    VirtualClock,
    VirtualLoop,
    run_virtual,
)

HOUR_S = 3600


def test_an_hour_of_timeouts_passes() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        for _ in range(HOUR_S):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), timeout=1)
        return clock.monotonic_ms(), clock.now_ms()

    assert run_virtual(main) == (3_600_000, 1_700_003_600_000)


def test_timers_run_in_the_order_of_their_moments() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        loop = asyncio.get_running_loop()

        def note(name: str) -> None:
            seen.append((name, clock.monotonic_ms()))

        loop.call_later(2.0, note, "late")
        loop.call_later(0.1, note, "early")
        loop.call_at(1.0, note, "middle")
        loop.call_soon(note, "soon")
        await asyncio.sleep(3)
        return seen

    assert run_virtual(main) == [("soon", 0), ("early", 100), ("middle", 1000), ("late", 2000)]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=8))
@example([10**10 - 7] * 100)  # thirty years: a float of seconds can't resolve nanoseconds
def test_a_sleep_lasts_what_it_says_up_to_rounding(sleeps_ms: list[int]) -> None:
    async def main(clock: VirtualClock) -> int:
        for sleep_ms in sleeps_ms:
            await asyncio.sleep(sleep_ms / 1000)
        return clock.monotonic_ms()

    assert run_virtual(main) == pytest.approx(sum(sleeps_ms), abs=1)


def test_code_takes_no_time() -> None:
    async def main(clock: VirtualClock) -> int:
        for _ in range(1000):
            await asyncio.sleep(0)
        return clock.monotonic_ms()

    assert run_virtual(main) == 0


def test_a_cancelled_sleep_does_not_move_time() -> None:
    async def main(clock: VirtualClock) -> int:
        sleeper = asyncio.create_task(asyncio.sleep(HOUR_S))
        await asyncio.sleep(1)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        return clock.monotonic_ms()

    assert run_virtual(main) == 1000


def test_the_time_of_day_may_jump_and_the_other_clock_does_not() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        await asyncio.sleep(5)
        clock.jump(-10_000)
        return clock.now_ms(), clock.monotonic_ms()

    assert run_virtual(main) == (1_700_000_000_000 - 5_000, 5_000)


def test_a_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def main(clock: VirtualClock) -> None:
        await asyncio.sleep(2.5)
        await asyncio.create_task(wait_for_nobody(), name="the forgotten one")

    with pytest.raises(Deadlock) as caught:
        run_virtual(main)
    text = str(caught.value)
    assert "at 2.500 s of virtual time" in text
    assert "all 2 tasks wait" in text
    assert "the forgotten one" in text
    assert "wait_for_nobody" in text
    assert "Event.wait" in text


def test_a_result_and_an_error_come_out() -> None:
    async def fail(clock: VirtualClock) -> None:
        await asyncio.sleep(1)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_virtual(fail)


def test_awaited_input_is_no_deadlock() -> None:
    async def main(clock: VirtualClock) -> bytes:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(b"ping")
            return await asyncio.get_running_loop().sock_recv(ours, 4)

    assert run_virtual(main) == b"ping"


@pytest.mark.parametrize("submit", ["workers", "executor", "to_thread"])
def test_blocking_work_runs_inline_and_can_be_awaited(submit: str) -> None:
    async def main(clock: VirtualClock) -> int:
        values = [3, 1, 2]
        if submit == "workers":
            return await asyncio.wrap_future(InlineWorkers().submit(sum, values))
        if submit == "executor":
            return await asyncio.get_running_loop().run_in_executor(None, sum, values)
        return await asyncio.to_thread(sum, values)

    assert run_virtual(main) == 6


def test_a_callback_of_inline_work_reaches_the_loop() -> None:
    async def main(clock: VirtualClock) -> str:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[str] = loop.create_future()

        def flush() -> None:
            loop.call_soon_threadsafe(arrived.set_result, "flushed")

        InlineWorkers().submit(flush)
        return await arrived

    assert run_virtual(main) == "flushed"


def test_a_failure_of_inline_work_waits_in_its_future() -> None:
    future = InlineWorkers().submit(int, "seven")
    with pytest.raises(ValueError, match="seven"):
        future.result()


def test_closed_workers_take_no_more() -> None:
    workers = InlineWorkers()
    workers.close()
    with pytest.raises(RuntimeError, match="closed"):
        workers.submit(sum, [1])


def test_tasks_of_a_group_are_cancelled_in_the_order_they_were_made() -> None:
    order: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(HOUR_S)
        finally:
            order.append(number)

    async def main(clock: VirtualClock) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            raise LookupError

    with pytest.raises(ExceptionGroup):
        run_virtual(main)
    assert order == list(range(40))


HISTORY = """
import asyncio
from orbitmq.randomness import SeededRandomness
from orbitmq.testing.clocks import run_virtual

async def main(clock):
    chance, history = SeededRandomness(3), []

    async def work(name):
        try:
            for _ in range(3):
                await asyncio.sleep(chance.below(1000) / 1000)
                history.append((name, clock.now_ms()))
            await asyncio.Event().wait()
        finally:
            history.append((name, "stopped"))

    tasks = {asyncio.create_task(work(f"worker-{n}")) for n in range(20)}
    await asyncio.wait(tasks, timeout=60)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return history

print(run_virtual(main))
"""


def test_every_run_takes_the_same_steps() -> None:
    def run(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", HISTORY]
        return subprocess.run(
            command, env=environment, capture_output=True, check=True, text=True
        ).stdout

    histories = {run(seed) for seed in ("0", "1", "12345")}
    assert len(histories) == 1
    assert "worker-19" in histories.pop()


def test_a_clock_introduces_itself() -> None:
    async def main(clock: VirtualClock) -> str:
        await asyncio.sleep(0.25)
        return repr(clock)

    assert run_virtual(main) == "<VirtualClock 1700000000250 ms, 250 ms into the run>"


def test_the_loop_can_be_used_alone() -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.sleep(7))
        assert loop.time() == 7.0
    finally:
        loop.close()


def test_late_workers_finish_in_their_time_or_when_a_caller_blocks() -> None:
    done: list[str] = []

    async def main(clock: VirtualClock) -> None:
        workers = LateWorkers(lambda: 5.0)
        awaited = asyncio.wrap_future(workers.submit(done.append, "awaited"))
        assert done == []
        await awaited
        assert (done, clock.monotonic_ms()) == (["awaited"], 5000)
        workers.submit(done.append, "blocked on").result()
        workers.submit(done.append, "closed")
        workers.close()
        assert (done[1:], clock.monotonic_ms()) == (["blocked on", "closed"], 5000)
        with pytest.raises(RuntimeError, match="closed"):
            workers.submit(done.append, "too late")
        await clock.sleep(60)

    run_virtual(main)
    assert done == ["awaited", "blocked on", "closed"]


def test_late_workers_hand_on_what_was_raised() -> None:
    async def main(clock: VirtualClock) -> None:
        work = LateWorkers(lambda: 1.0).submit(int, "seven")
        assert isinstance(work.exception(), ValueError)
        with pytest.raises(ValueError, match="seven"):
            await asyncio.wrap_future(LateWorkers(lambda: 1.0).submit(int, "seven"))

    run_virtual(main)
