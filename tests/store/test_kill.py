"""Real processes, killed at any moment: what they acknowledged is there, in order, without a gap.

The memory of the machine survives a killed process, so this shows recovery; what a power loss
leaves is shown on the simulated disk.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.randomness import SeededRandomness
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import InlineWorkers
from tests.architecture.sources import ROOT
from tests.store.crash_writer import QUEUES, settings

ROUNDS = 250 if os.environ.get("ORBITMQ_SOAK") == "1" else 5


def acknowledged_until_killed(directory: Path, first: int, mode: FlushMode, lines: int) -> int:
    """Run a writer, kill it after some acknowledgements; return the last one it gave."""
    command = [
        sys.executable,
        "-m",
        "tests.store.crash_writer",
        str(directory),
        str(first),
        mode.value,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        last = first - 1
        for _ in range(lines):
            last = int(writer.stdout.readline())
        writer.kill()
        rest = writer.stdout.read().splitlines()
    return int(rest[-1]) if rest else last


def stored_numbers(store: MessageStore) -> list[int]:
    numbers = []
    for queue_id in range(QUEUES):
        queue = store.queues.queue("orders", queue_id)
        assert queue is not None
        found = []
        for offset, entry in queue.iterate(0):
            view = store.record(entry.commit_log_offset)
            assert view is not None
            assert view.queue_offset == offset
            found.append(int(bytes(view.body).split()[0]))
        assert found == sorted(found)
        numbers += found
    return sorted(numbers)


@pytest.mark.parametrize("mode", FlushMode)
def test_nothing_acknowledged_is_lost_when_writers_are_killed(
    tmp_path: Path, mode: FlushMode
) -> None:
    chance = SeededRandomness(1)
    first = 0
    for _ in range(ROUNDS):
        last = acknowledged_until_killed(tmp_path, first, mode, lines=chance.below(300) + 1)
        store = MessageStore(str(tmp_path), settings(mode), workers=InlineWorkers())
        store.open()
        numbers = stored_numbers(store)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last
        first = len(numbers)
        store.close()
