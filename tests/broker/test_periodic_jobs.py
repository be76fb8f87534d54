"""Jobs at their pace, on virtual time."""

import logging

import pytest

from orbitmq.broker.periodic_jobs import PeriodicJobs
from orbitmq.testing.clocks import VirtualClock, run_virtual


def test_each_job_is_called_at_its_own_pace() -> None:
    calls: list[str] = []

    async def main(clock: VirtualClock) -> None:
        beat = PeriodicJobs(clock)
        beat.add(lambda: calls.append("always"))
        beat.add(lambda: calls.append("each second"), 1_000)
        beat.add(lambda: calls.append("as set"), lambda: 500)
        beat.start()
        await clock.sleep(2.05)
        beat.stop()
        await clock.sleep(10)

    run_virtual(main)
    assert [calls.count(job) for job in ("always", "each second", "as set")] == [20, 2, 4]


def test_a_job_that_fails_does_not_keep_the_others_from_their_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    async def main(clock: VirtualClock) -> None:
        beat = PeriodicJobs(clock)
        beat.add(fail)
        beat.add(lambda: calls.append(1))
        beat.start()
        await clock.sleep(0.35)
        beat.stop()

    with caplog.at_level(logging.ERROR, "orbitmq.broker"):
        run_virtual(main)
    assert len(calls) == 3
    assert len(caplog.records) == 3
