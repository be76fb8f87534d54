"""Exactly once, shown by kills: a stream into files, whose driver is killed at any time.

The driver and its Java get SIGKILL while messages flow: once in the first batch, then somewhere.
Its workers end when they notice, and may write for a moment more. ``ORBITMQ_SOAK=1`` kills forty
times.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from orbitmq.clock import SystemClock, pause
from orbitmq.embedded import RunningCluster
from orbitmq.randomness import SeededRandomness
from tests.architecture.sources import ROOT
from tests.spark.traffic import Traffic

KILLS = 40 if os.environ.get("ORBITMQ_SOAK") == "1" else 2
PACE_MS = 30
"""Between messages: they flow all the time, and are not a load."""
START_SECONDS = 240
"""For Java, Spark and the first batch, on a machine that does other things as well."""
END_SECONDS = START_SECONDS * (1 + KILLS // 10)
"""The same, and for the batches that kills have left."""


class Driver:
    """One process with a stream, in a ``with`` statement; killed with its Java."""

    def __init__(
        self,
        nameserver: str,
        topic: str,
        directory: Path,
        *more: str,
        module: str = "tests.spark.stream_driver",
    ) -> None:
        arguments = [nameserver, topic, str(directory), *more]
        with (directory / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
            )

    def send_until(self, traffic: Traffic, planned: Path) -> None:
        """Let messages flow until the batch of a file in the checkpoint is planned."""
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + START_SECONDS * 1000
        while not planned.exists():
            assert clock.monotonic_ms() < deadline_ms, "no batch in time: see driver.log"
            assert self._process.poll() is None, "the driver ended by itself: see driver.log"
            traffic.send(3)
            pause(PACE_MS)

    def kill(self) -> None:
        assert self._process.poll() is None, "the driver ended by itself: see driver.log"
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        return self._process.wait(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()


@pytest.mark.timeout(900 if KILLS < 10 else 7200)
def test_each_message_is_in_the_files_once(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    chance = SeededRandomness(7)
    offsets = tmp_path / "checkpoint" / "offsets"
    start: dict[str, int] = {}
    with Traffic(shared_cluster.nameserver, "killed", queues=3) as traffic:
        traffic.send(50)
        for kill in range(KILLS):
            # The first one dies in the first batch, where a start of "latest" is easily lost.
            batch = offsets / str(last_batch(offsets) + 1 + chance.below(3) if kill else 0)
            with Driver(shared_cluster.nameserver, "killed", tmp_path, "latest") as driver:
                driver.send_until(traffic, batch)
                pause(chance.below(500) if kill else 0)
                driver.kill()
            if not kill:  # Spark forgets a batch when a hundred others have followed
                start = json.loads(batch.read_text().splitlines()[-1])["killed"]
            traffic.send(10)
        with Driver(shared_cluster.nameserver, "killed", tmp_path, "latest", "drain") as driver:
            assert driver.end() == 0

    expected = traffic.from_offsets(start)
    assert json.loads((tmp_path / "numbers.json").read_text()) == expected
    assert 0 < len(expected) <= len(traffic.places) - 50  # it began at the end


def last_batch(offsets: Path) -> int:
    """Return the number of the last batch that was planned, -1 if there is none."""
    found = offsets.iterdir() if offsets.is_dir() else ()
    return max((int(file.name) for file in found if file.name.isdecimal()), default=-1)
