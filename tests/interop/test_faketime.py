"""A process with a clock of its own: what is set, and what stays as it is."""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq import embedded
from orbitmq.net.address import Address
from tests.interop import faketime
from tests.interop.faketime import FakeClock, forget_clock_of
from tests.interop.waiting import until

HOUR_S = 3_600
PROGRAM = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic_ns(), flush=True)
"""


class Times(NamedTuple):
    """What a process said, and when it was asked and answered by CLOCK_MONOTONIC, which is one."""

    now_s: float
    monotonic_ns: int
    asked_ns: int
    answered_ns: int


class Speaking:
    """A program that says what time it is."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **clock.environment},
        )

    def says(self) -> Times:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked_ns = time.monotonic_ns()
        print(file=self.process.stdin, flush=True)
        now_s, monotonic_ns = self.process.stdout.readline().split()
        return Times(float(now_s), int(monotonic_ns), asked_ns, time.monotonic_ns())

    def is_ahead(self, seconds: int) -> bool:
        return abs(self.says().now_s - time.time() - seconds) < HOUR_S / 2


@pytest.fixture
def speaking(tmp_path: Path, needs_faketime: None) -> Iterator[Speaking]:
    program = Speaking(FakeClock(tmp_path / "clock"))
    with program.process:
        yield program
        program.process.kill()
    forget_clock_of(program.process.pid)


def test_the_time_of_day_is_set_and_nothing_else(speaking: Speaking) -> None:
    for ahead_s in (0, HOUR_S, -HOUR_S, 0):
        speaking.clock.set(ahead_s)
        until(functools.partial(speaking.is_ahead, ahead_s), what="the clock is set")
        said = speaking.says()
        assert said.asked_ns <= said.monotonic_ns <= said.answered_ns


def test_a_killed_process_leaves_nothing(speaking: Speaking) -> None:
    left = [
        Path(f"/dev/shm/{name}_{speaking.process.pid}")
        for name in ("faketime_shm", "sem.faketime_sem")
    ]
    speaking.says()
    speaking.process.kill()
    speaking.process.wait()
    assert all(one.exists() for one in left)
    forget_clock_of(speaking.process.pid)
    assert not any(one.exists() for one in left)


def test_a_clock_that_a_broker_does_not_go_by_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(tmp_path / "clock")
    monkeypatch.setattr(faketime, "until", functools.partial(until, seconds=0.1))
    with embedded.start() as cluster:
        (broker,) = map(Address.parse, cluster.brokers)
        clock.set(0, seen_by=broker)
        with pytest.raises(TimeoutError, match="3600 s ahead"):
            clock.set(HOUR_S, seen_by=broker)
