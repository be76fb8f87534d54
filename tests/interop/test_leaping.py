"""Time that a test moves on."""

import asyncio

from tests.interop.leaping import leap, run_leaping


def test_what_is_due_within_a_leap_is_done_after_it() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        is_due = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(600, done.append, "due")
        loop.call_later(600, is_due.set)
        loop.call_later(3_600, done.append, "not due yet")
        leap(600)
        async with asyncio.timeout(60):
            await is_due.wait()
        return done

    assert run_leaping(main()) == ["due"]


def test_time_may_pass_by_leaps_alone() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0)
        stood = loop.time() - began
        leap(600)
        return stood, loop.time() - began

    assert run_leaping(main(), pace=0) == (0, 600)
