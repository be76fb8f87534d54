"""Real processes, killed at any moment: what they acknowledged is there, in order, without a gap.

The memory of the machine survives a killed process, so this shows recovery; what a power loss
leaves is shown on the simulated disk.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.randomness import SeededRandomness
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import InlineWorkers
from tests.architecture.sources import ROOT
from tests.store.crash_writer import QUEUES, settings

STORES = 50 if os.environ.get("ORBITMQ_SOAK") == "1" else 1
ROUNDS = 5  # of writers on one store


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


def assert_recovery_is_idempotent(store: MessageStore, home: Path, copy: Path) -> None:
    """Let another process find what this one has just recovered, as a kill would leave it now.

    And one more behind it, after an orderly stop.
    """
    # Not the lock: to close any descriptor of it would give it back.
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("lock"))
    assert (copy / "abort").exists()
    for _ in range(2):
        again = MessageStore(str(copy), store.settings, workers=InlineWorkers())
        again.open()
        assert contents(again) == contents(store)
        again.close()
    shutil.rmtree(copy)


def contents(store: MessageStore) -> object:
    """Return all that a store has: its log, queues, index, and what it could not read."""
    queues = {(queue.topic, queue.queue_id): [*queue.iterate(0)] for queue in store.queues}
    keys = store.index.query("orders", "paid", 1 << 20, 0, 1 << 62, kind=KeyKind.TAGS)
    assert keys
    return store.log.end, queues, stored_numbers(store), sorted({*keys}), store.damages


@pytest.mark.parametrize("seed", range(1, STORES + 1))
@pytest.mark.parametrize("mode", FlushMode)
def test_nothing_acknowledged_is_lost_when_writers_are_killed(
    tmp_path: Path, mode: FlushMode, seed: int
) -> None:
    chance = SeededRandomness(seed)
    first = 0
    for _ in range(ROUNDS):
        home = tmp_path / "store"
        last = acknowledged_until_killed(home, first, mode, lines=chance.below(300) + 1)
        store = MessageStore(str(home), settings(mode), workers=InlineWorkers())
        store.open()
        assert_recovery_is_idempotent(store, tmp_path / "store", tmp_path / "copy")
        numbers = stored_numbers(store)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last
        first = len(numbers)
        store.close()
