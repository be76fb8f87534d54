import asyncio

import pytest

from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.processes import Killed, Process


def test_a_killed_process_runs_nothing_of_what_it_began() -> None:
    ran: list[str] = []

    async def work(clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, ran.append, "a timer")
        child = asyncio.create_task(sleep_then_note(clock))
        try:
            await child
        finally:
            ran.append("finally")

    async def sleep_then_note(clock: VirtualClock) -> None:
        await clock.sleep(5)
        ran.append("a task of a task")

    async def main(clock: VirtualClock) -> list[str]:
        process = Process("broker")
        process.start(work(clock))
        await clock.sleep(1)
        process.kill()
        await clock.sleep(60)
        return list(ran)

    assert run_virtual(main) == []


def test_a_kill_leaves_the_others_alone() -> None:
    async def main(clock: VirtualClock) -> tuple[int, bool, bool]:
        first, second = Process("first"), Process("second")
        first.start(clock.sleep(5))
        going_on = second.start(clock.sleep(5))
        await clock.sleep(1)
        first.kill()
        await going_on
        return clock.monotonic_ms(), first.is_alive, second.is_alive

    assert run_virtual(main) == (5000, False, True)


def test_waiting_for_a_killed_process_raises() -> None:
    async def main(clock: VirtualClock) -> None:
        process = Process("broker")
        waiting = asyncio.create_task(process.run(clock.sleep(60)))
        await clock.sleep(1)
        process.kill()
        with pytest.raises(Killed, match="broker was killed"):
            await waiting
        assert repr(process) == "<Process broker killed>"

    run_virtual(main)


def test_what_a_process_returns_and_raises_reaches_who_waits() -> None:
    async def fail() -> None:
        raise ValueError("the port is in use")

    async def seven() -> int:
        return 7

    async def main(clock: VirtualClock) -> int:
        process = Process("broker")
        with pytest.raises(ValueError, match="in use"):
            await process.run(fail())
        return await process.run(seven())

    assert run_virtual(main) == 7


def test_a_task_that_had_not_begun_never_begins() -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("begun")

    async def main(clock: VirtualClock) -> None:
        process = Process("broker")
        process.start(work())
        process.kill()
        await clock.sleep(1)

    run_virtual(main)
    assert ran == []


def test_what_a_kill_dropped_is_let_go_while_the_loop_runs() -> None:
    ran: list[str] = []

    async def work(clock: VirtualClock) -> None:
        try:
            await clock.sleep(5)
        finally:
            ran.append("finally")
            await clock.sleep(1)
            ran.append("never reached")

    async def main(clock: VirtualClock) -> None:
        process = Process("broker")
        process.start(work(clock))
        await clock.sleep(1)
        process.kill()
        process.discard()
        await clock.sleep(60)

    run_virtual(main)
    assert ran == ["finally"]
