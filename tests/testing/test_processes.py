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


def test_a_paused_process_runs_nothing_until_it_is_resumed_and_then_all_in_order() -> None:
    async def main(clock: VirtualClock) -> tuple[list[str], list[str]]:
        ran: list[str] = []
        queue: asyncio.Queue[str] = asyncio.Queue()

        async def work() -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(3, ran.append, "a timer of 3 s")
            loop.call_later(2, ran.append, "a timer of 2 s")
            loop.call_later(30, ran.append, "a timer of 30 s")
            while True:
                ran.append(await queue.get())

        process, other = Process("paused"), Process("other")
        process.start(work())
        await clock.sleep(1)
        queue.put_nowait("a message from before")  # its reader is ready, and has not run
        process.pause()
        queue.put_nowait("a message from the pause")
        other.start(clock.sleep(1))
        await clock.sleep(10)
        meanwhile = list(ran)
        process.resume()
        process.resume()  # has no effect
        await clock.sleep(1)
        before_the_end = list(ran)
        await clock.sleep(60)
        assert ran == [*before_the_end, "a timer of 30 s"]
        process.kill()
        process.discard()
        return meanwhile, before_the_end

    meanwhile, after = run_virtual(main)
    assert meanwhile == []
    assert sorted(after) == [
        "a message from before",
        "a message from the pause",
        "a timer of 2 s",
        "a timer of 3 s",
    ]
    assert after.index("a timer of 2 s") < after.index("a timer of 3 s")


def test_of_two_paused_processes_each_is_resumed_alone_and_a_kill_drops_what_was_held() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        ran: list[tuple[str, int]] = []

        async def work(name: str) -> None:
            await clock.sleep(1)
            ran.append((name, clock.monotonic_ms()))

        processes = [Process(name) for name in ("first", "second", "third")]
        for process in processes:
            process.start(work(process.name))
        await clock.sleep(0.5)
        for process in processes:
            process.pause()
        first, second, third = processes
        await clock.sleep(4.5)
        third.kill()
        second.resume()
        await clock.sleep(5)
        first.resume()
        await clock.sleep(5)
        third.resume()
        await clock.sleep(5)
        return ran

    assert run_virtual(main) == [("second", 5_000), ("first", 10_000)]
