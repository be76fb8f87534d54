"""A process that stores parcels in a directory, and says which are safe, until it is killed.

Run as ``python -m tests.interop.store_writer DIRECTORY FIRST STORE_HOST``; the parcels are
``FIRST``, ``FIRST + 1``, … Each line on stdout is a parcel that was acknowledged: its number, its
offset in the queue, and the offsets of its messages in the log.
"""

import os
import subprocess
import sys
from pathlib import Path

from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.architecture.sources import ROOT
from tests.interop.java_server import Settings
from tests.interop.parcels import parcel

OUR_SIZES = StoreSettings(
    segment_bytes=128 * 1024, queue_file_entries=25, index_slots=200, index_entries=600
)
"""Small, so that a few hundred messages roll every kind of file.

Index files not smaller: Java names them by the millisecond, and loses one that fills in less.
"""
JAVA_SIZES: Settings = {
    "mappedFileSizeCommitLog": OUR_SIZES.segment_bytes,
    "mappedFileSizeConsumeQueue": OUR_SIZES.queue_file_entries * 20,
    "maxHashSlotNum": OUR_SIZES.index_slots,
    "maxIndexNum": OUR_SIZES.index_entries,
    # After a crash 5.4.0 reads at most so many files again.
    "commitLogRecoverMaxNum": 1_000,
    "waitTimeMillsInSendQueue": 10_000,  # a busy machine is no reason to refuse a message
}
TURN_MAX = 5
"""Parcels that the writer stores at once."""


def open_store(directory: Path) -> MessageStore:
    """Open a store of ours, without threads."""
    store = MessageStore(str(directory), OUR_SIZES, workers=InlineWorkers(), pid=os.getpid())
    store.open()
    return store


def put(store: MessageStore, numbers: range, store_host: Host) -> list[list[StoredMessage]]:
    """Store parcels in one turn; return the messages of each."""
    parcels = [parcel(number) for number in numbers]
    results = store.append([one.incoming(store_host) for one in parcels])
    assert {result.status for result in results} == {PutStatus.PUT_OK}, results
    return [
        one.stored(result.queue_offset, result.offsets, store_host)
        for one, result in zip(parcels, results, strict=True)
    ]


def write_until_killed(directory: Path, first: int, store_host: Host) -> None:
    store = open_store(directory)
    while True:
        turn = range(first, first + 1 + first % TURN_MAX)
        lines = b""
        for number, messages in zip(turn, put(store, turn, store_host), strict=True):
            offsets = " ".join(str(message.commit_log_offset) for message in messages)
            lines += b"%d %d %s\n" % (number, messages[0].queue_offset, offsets.encode())
        # One write: what a pipe has taken, a killed writer can't take back.
        os.write(1, lines)
        store.tick()
        first = turn.stop


def stored_until_killed(
    directory: Path, first: int, store_host: Host, *, count: int
) -> tuple[list[StoredMessage], int]:
    """Run a writer, kill it after so many parcels; return what it promised, and the next number."""
    command = [
        *(sys.executable, "-m", "tests.interop.store_writer"),
        *(str(directory), str(first), str(store_host)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(count)]
        writer.kill()
        lines += [line for line in writer.stdout if line.endswith(b"\n")]
    promised: list[StoredMessage] = []
    for line in lines:
        number, queue_offset, *offsets = map(int, line.split())
        promised += parcel(number).stored(queue_offset, offsets, store_host)
        first = number + 1
    # One turn may be stored that it did not come to tell of; its numbers are not used again.
    return promised, first + TURN_MAX


if __name__ == "__main__":
    write_until_killed(Path(sys.argv[1]), int(sys.argv[2]), Host.parse(sys.argv[3]))
