"""How fast a store starts after a crash and after an orderly stop: ``make bench``.

The process dies before its first checkpoint, so the start after the crash reads the whole log.
"""

import shutil
from pathlib import Path
from time import perf_counter, process_time

import msgspec

from bench.measure import HOW, MB, Cell, in_child, scratch, table, write
from bench.stores import SMALL, check_stored, chunks
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings

MESSAGES = 100_000
QUEUES = 4
ROUNDS = 3
AIM_MB_PER_S = 400
SETTINGS = msgspec.structs.replace(SMALL, segment_bytes=64 * 1024 * 1024)
WITHOUT_INDEX = msgspec.structs.replace(SETTINGS, index_enabled=False)

# what is measured → the directories lost in the crash, and the settings of the start
CASES: dict[str, tuple[tuple[str, ...], StoreSettings]] = {
    "queues there, index cut": ((), SETTINGS),
    "queues there, no index": ((), WITHOUT_INDEX),
    "queues lost, no index": (("consumequeue",), WITHOUT_INDEX),
    "queues and index lost": (("consumequeue", "index"), SETTINGS),
}


class Start(msgspec.Struct, frozen=True):
    """The cost of a start."""

    cpu_s: float
    wall_s: float
    """Syncs included: a start flushes everything it has read."""
    read_mb: float
    log_mb: float

    @property
    def mb_per_s(self) -> float:
        """MB read per second of CPU time."""
        return self.read_mb / self.cpu_s


def fill(directory: str, settings: StoreSettings, messages: int, queues: int) -> None:
    """Fill a store without closing it; the process then dies."""
    store = MessageStore(directory, settings)
    store.open()
    for chunk in chunks(messages, queues):  # without tick(), which would write a checkpoint
        check_stored(store.append(chunk))


def opened(directory: str, settings: StoreSettings) -> tuple[MessageStore, Start]:
    """Start a store; return it, and the cost of the start."""
    store = MessageStore(directory, settings)
    progress = [0]
    begin, begin_cpu = perf_counter(), process_time()
    store.open(progress=lambda done, _total: progress.append(done))
    cpu_s, wall_s = process_time() - begin_cpu, perf_counter() - begin
    unused = -store.log.end % settings.segment_bytes  # the rest of the last file
    read = min(max(0, max(progress) - unused), store.log.end)
    start = Start(cpu_s=cpu_s, wall_s=wall_s, read_mb=read / MB, log_mb=store.log.end / MB)
    return store, start


def started(directory: str, settings: StoreSettings, *, stop: bool = False) -> Start:
    """Start a store; stop it orderly, or leave it open until the process dies."""
    store, start = opened(directory, settings)
    if stop:
        store.close()
    return start


def crashed(
    directory: str, lost: tuple[str, ...], settings: StoreSettings, rounds: int = ROUNDS
) -> Start:
    """Return the best of some starts after a crash; each start ends in a crash again."""
    starts = []
    for _ in range(rounds):
        for name in lost:
            shutil.rmtree(Path(directory, name))
        starts.append(in_child(started, directory, settings))
    return min(starts, key=lambda start: start.cpu_s)


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/recover.json``."""
    with scratch() as directory:
        in_child(fill, directory, SETTINGS, MESSAGES, QUEUES)
        found = {what: crashed(directory, *case) for what, case in CASES.items()}
        in_child(started, directory, SETTINGS, stop=True)
        stops = [in_child(started, directory, SETTINGS, stop=True) for _ in range(ROUNDS)]
        found["after a stop in order"] = min(stops, key=lambda start: start.cpu_s)
    print(f"a start with {MESSAGES:,} messages of 1 KB in {QUEUES} queues\n({HOW})")
    rows: list[list[Cell]] = [
        [what, start.log_mb, start.read_mb, start.cpu_s, start.wall_s, start.mb_per_s]
        for what, start in found.items()
    ]
    print(table(["after a crash", "log MB", "MB read", "CPU s", "s", "MB/s of CPU"], rows))
    print(f"target after a crash: {AIM_MB_PER_S} MB/s\n")
    figures = {what: msgspec.structs.asdict(start) for what, start in found.items()}
    write("recover", {"how": HOW, "messages": MESSAGES, "queues": QUEUES, "figures": figures})


if __name__ == "__main__":
    main()
