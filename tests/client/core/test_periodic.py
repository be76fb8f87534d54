"""Periodic work, on virtual time."""

import asyncio
import logging

import pytest

from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.testing.clocks import VirtualClock, run_virtual


def test_a_fault_is_logged_and_the_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(len(done))
        if len(done) == 2:
            raise ValueError("no")

    async def main(clock: VirtualClock) -> None:
        task = asyncio.create_task(run_periodically(1_000, work, "routes can't be refreshed"))
        await clock.sleep(3.5)
        await cancel_all([task])
        assert task.cancelled()
        await clock.sleep(10)

    with caplog.at_level(logging.ERROR, "orbitmq.client"):
        run_virtual(main)
    assert done == [0, 1, 2]
    (record,) = caplog.records
    assert record.getMessage() == "routes can't be refreshed; trying again after the next interval"


def test_what_is_given_up_may_end_as_it_likes() -> None:
    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("no")

    async def main(clock: VirtualClock) -> bool:
        task = asyncio.create_task(fail_at_the_end())
        await clock.sleep(0)
        await cancel_all([task])
        return task.done()

    assert run_virtual(main)
