"""The cost of storing a message of 1 KB, in total and by part: ``make bench``."""

from collections.abc import Sequence
from itertools import chain
from time import thread_time_ns

import msgspec

from bench.codec import RECORD
from bench.measure import HOW, cpu_each, in_child, scratch, table, write
from bench.stores import SMALL, MeteredDisk, check_stored, in_turns, messages
from orbitmq.message import record
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode, StoreSettings

MESSAGES = 10_000
ROUNDS = 5
TURNS = (1, 8, 32, 256)
FEW, MANY = 4, 10_000
AIM = 6.0
"""µs per message, for turns of 32 to few queues, with the index."""

WITHOUT_INDEX = msgspec.structs.replace(SMALL, index_enabled=False)
# With SYNC_FLUSH only synced records are dispatched, and nothing is synced here.
LOG_ALONE = msgspec.structs.replace(SMALL, flush_mode=FlushMode.SYNC)


class Case(msgspec.Struct, frozen=True):
    """A store, and how many messages are appended to how many queues."""

    queues: int = FEW
    settings: StoreSettings = SMALL
    messages: int = MESSAGES
    metered: bool = False
    """Whether disk time is measured separately, which costs two clock reads per write."""


class Cost(msgspec.Struct, frozen=True):
    """CPU time per message of the appending thread, in µs, and the part spent in writes."""

    whole: float
    log_write: float
    queue_write: float
    index_write: float


def best(case: Case, turns: Sequence[int] = TURNS) -> dict[int, Cost]:
    """Return the cost per message for each turn size: the best of some rounds on one store.

    This runs in a process that is then killed: an orderly stop would sync thousands of files.
    """
    with scratch() as directory:
        rounds = in_child(measured, directory, case, turns)
    return {turn: min(costs, key=lambda cost: cost.whole) for turn, costs in rounds.items()}


def measured(directory: str, case: Case, turns: Sequence[int]) -> dict[int, list[Cost]]:
    """Return the cost of each round, by turn size; the store is left open."""
    given = messages(range(case.messages), case.queues)
    disk = MeteredDisk(directory)
    store = MessageStore(directory, case.settings, disk=disk if case.metered else None)
    store.open()
    costs: dict[int, list[Cost]] = {turn: [] for turn in turns}
    for _ in range(ROUNDS):
        for turn in turns:  # interleaved, so that a busy minute of the machine affects all
            costs[turn].append(one_round(store, in_turns(given, turn), disk))
    return costs


def one_round(store: MessageStore, given: list[Sequence[Incoming]], disk: MeteredDisk) -> Cost:
    """Append all messages once and return the cost."""
    disk.reset()
    append = store.append
    begin = thread_time_ns()
    results = [append(part) for part in given]
    store.queues.write()  # normally done by the next tick, but part of the cost
    spent = thread_time_ns() - begin
    check_stored(chain.from_iterable(results))
    parts = (disk.accounts[name].write_ns for name in ("commitlog", "consumequeue", "index"))
    count = sum(map(len, given))
    return Cost(*(nanoseconds / count / 1000 for nanoseconds in (spent, *parts)))


def encoded(count: int) -> float:
    """Return the cost of encoding one record."""

    def encode() -> int:
        for _ in range(count):
            record.encode(RECORD)
        return count

    return min(cpu_each(encode) for _ in range(ROUNDS))


def split(turns: Sequence[int], count: int = MESSAGES) -> dict[int, dict[str, float]]:
    """Return the parts of the cost of an append, for few queues and each turn size.

    The cost of a part is the difference to a store with that part disabled; the time of disk writes
    is measured.
    """
    log, no_index, whole = (
        best(Case(FEW, settings, count, metered=True), turns)
        for settings in (LOG_ALONE, WITHOUT_INDEX, SMALL)
    )
    encode = encoded(count)
    return {turn: parts(encode, log[turn], no_index[turn], whole[turn]) for turn in turns}


def parts(encode: float, log: Cost, no_index: Cost, whole: Cost) -> dict[str, float]:
    """Return the parts of a cost; the last is the total."""
    return {
        "record encoded": encode,
        "placed, results made": log.whole - log.log_write - encode,
        "log written": log.log_write,
        "read for dispatch, queue entries made": no_index.whole - log.whole - no_index.queue_write,
        "queues written": no_index.queue_write,
        "keys hashed and indexed": whole.whole - no_index.whole - whole.index_write,
        "index written": whole.index_write,
        "total, with disk measured": whole.whole,
    }


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/append.json``."""
    cases = [
        Case(queues, settings) for queues in (FEW, MANY) for settings in (SMALL, WITHOUT_INDEX)
    ]
    costs = [best(case) for case in cases]
    print(f"1 KB appended and dispatched, µs per message\n({HOW})")
    head = ["in turns of", f"{FEW} queues", "no index", f"{MANY:,} queues", "no index"]
    print(table(head, [[turn, *(cost[turn].whole for cost in costs)] for turn in TURNS]))
    print(f"target for turns of 32 to {FEW} queues: {AIM}\n")
    where = split((32, 1))
    head = [f"by part, {FEW} queues", *(f"turns of {turn}" for turn in where)]
    print(table(head, [[name, *(part[name] for part in where.values())] for name in where[32]]))
    figures = [
        {
            "queues": case.queues,
            "index": case.settings.index_enabled,
            "microseconds": {turn: found.whole for turn, found in cost.items()},
        }
        for case, cost in zip(cases, costs, strict=True)
    ]
    write("append", {"how": HOW, "aim": AIM, "figures": figures, "parts": where})


if __name__ == "__main__":
    main()
