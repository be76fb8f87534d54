"""What storing a message of 1 KB costs, whole and by part: ``make bench``."""

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
"""For turns of 32 to few queues, with the index."""

WITHOUT_INDEX = msgspec.structs.replace(SMALL, index_enabled=False)
# A store that syncs first dispatches only what is on the disk, and nobody syncs here.
LOG_ALONE = msgspec.structs.replace(SMALL, flush_mode=FlushMode.SYNC)


class Case(msgspec.Struct, frozen=True):
    """A store, and what is appended to it: so many messages, to so many queues."""

    queues: int = FEW
    settings: StoreSettings = SMALL
    messages: int = MESSAGES
    metered: bool = False
    """Whether the disk's part is told apart; each write costs two looks at the clock more."""


class Cost(msgspec.Struct, frozen=True):
    """What a message costs the thread that appends it, in µs, and the disk's part of it."""

    whole: float
    log_write: float
    queue_write: float
    index_write: float


def best(case: Case, turns: Sequence[int] = TURNS) -> dict[int, Cost]:
    """Return what a message costs in turns of so many: the best of some rounds on one store.

    In a process that is killed then: stopping in order would sync thousands of files.
    """
    with scratch() as directory:
        rounds = in_child(measured, directory, case, turns)
    return {turn: min(costs, key=lambda cost: cost.whole) for turn, costs in rounds.items()}


def measured(directory: str, case: Case, turns: Sequence[int]) -> dict[int, list[Cost]]:
    """Return what each round costs, for each size of a turn; the store is left open."""
    given = messages(range(case.messages), case.queues)
    disk = MeteredDisk(directory)
    store = MessageStore(directory, case.settings, disk=disk if case.metered else None)
    store.open()
    costs: dict[int, list[Cost]] = {turn: [] for turn in turns}
    for _ in range(ROUNDS):
        for turn in turns:  # in between, so that a busy minute of the machine meets them all
            costs[turn].append(one_round(store, in_turns(given, turn), disk))
    return costs


def one_round(store: MessageStore, given: list[Sequence[Incoming]], disk: MeteredDisk) -> Cost:
    """Return what it costs to append all that is given, once."""
    disk.reset()
    append = store.append
    begin = thread_time_ns()
    results = [append(part) for part in given]
    store.queues.write()  # what would wait for a tick is part of the price
    spent = thread_time_ns() - begin
    check_stored(chain.from_iterable(results))
    parts = (disk.accounts[name].write_ns for name in ("commitlog", "consumequeue", "index"))
    count = sum(map(len, given))
    return Cost(*(nanoseconds / count / 1000 for nanoseconds in (spent, *parts)))


def encoded(count: int) -> float:
    """Return what laying out one record costs."""

    def encode() -> int:
        for _ in range(count):
            record.encode(RECORD)
        return count

    return min(cpu_each(encode) for _ in range(ROUNDS))


def split(turns: Sequence[int], count: int = MESSAGES) -> dict[int, dict[str, float]]:
    """Return where the time of an append goes, for few queues and each size of a turn.

    Each part is what is missing when the store is told to leave it out; what the disk takes of it
    is metered.
    """
    log, no_index, whole = (
        best(Case(FEW, settings, count, metered=True), turns)
        for settings in (LOG_ALONE, WITHOUT_INDEX, SMALL)
    )
    encode = encoded(count)
    return {turn: parts(encode, log[turn], no_index[turn], whole[turn]) for turn in turns}


def parts(encode: float, log: Cost, no_index: Cost, whole: Cost) -> dict[str, float]:
    """Return the parts of a cost, of which the last is all of it."""
    return {
        "record laid out": encode,
        "placed, results made": log.whole - log.log_write - encode,
        "log written": log.log_write,
        "read for dispatch, queue entries made": no_index.whole - log.whole - no_index.queue_write,
        "queues written": no_index.queue_write,
        "keys hashed and indexed": whole.whole - no_index.whole - whole.index_write,
        "index written": whole.index_write,
        "all of it, metered": whole.whole,
    }


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/append.json``."""
    cases = [
        Case(queues, settings) for queues in (FEW, MANY) for settings in (SMALL, WITHOUT_INDEX)
    ]
    costs = [best(case) for case in cases]
    print(f"1 KB appended and dispatched, µs a message\n({HOW})")
    head = ["in turns of", f"{FEW} queues", "no index", f"{MANY:,} queues", "no index"]
    print(table(head, [[turn, *(cost[turn].whole for cost in costs)] for turn in TURNS]))
    print(f"the aim, for turns of 32 to {FEW} queues, is {AIM}\n")
    where = split((32, 1))
    head = [f"where it goes, {FEW} queues", *(f"turns of {turn}" for turn in where)]
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
