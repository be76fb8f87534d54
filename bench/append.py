"""What storing a message costs: ``make bench``. CPU time, the system's part included."""

from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import process_time_ns

from bench.measure import Figure, report
from orbitmq.message import properties
from orbitmq.message.host import Host
from orbitmq.store.commit_log import Appended
from orbitmq.store.dispatch import Dispatcher
from orbitmq.store.message_store import MessageStore
from orbitmq.store.put import Incoming
from orbitmq.store.settings import StoreSettings, delay_levels

BODY = bytes(range(256)) * 4  # 1 KB
MESSAGES = 30_000
ROUNDS = 5
HERE = Host.parse("127.0.0.1:10911")
THERE = Host.parse("127.0.0.1:54321")
SMALL_INDEX = {"index_slots": 500_000, "index_entries": 2_000_000}


def messages(count: int, queues: int) -> list[Incoming]:
    """Return messages as a broker gets them: seven properties, every unique key another one."""
    return [
        Incoming(
            topic=f"orders-{number % queues // 8}",
            queue_id=number % queues % 8,
            body=BODY,
            properties=properties.encode(
                {
                    "KEYS": f"o-{number}",
                    "TAGS": "paid",
                    "WAIT": "true",
                    "UNIQ_KEY": f"7F00000100002A9F00000A1B{number:08X}",
                    "MSG_REGION": "DefaultRegion",
                    "TRACE_ON": "true",
                    "CLUSTER": "DefaultCluster",
                }
            ),
            born_timestamp_ms=1_700_000_000_000,
            born_host=THERE,
            store_host=HERE,
        )
        for number in range(count)
    ]


def per_message(count: int, work: Callable[[], object]) -> float:
    """Return the CPU time of work on so many messages, in µs each."""
    begin = process_time_ns()
    work()
    return (process_time_ns() - begin) / count / 1000


def stored(turn: int, queues: int, *, index: bool = True) -> float:
    """Return what a message costs that is appended and dispatched, in turns of so many."""
    given = messages(MESSAGES, queues)
    turns = [given[begin : begin + turn] for begin in range(0, len(given), turn)]
    settings = StoreSettings(
        segment_bytes=256 * 1024 * 1024,
        queue_file_entries=30_000,
        index_enabled=index,
        index_slots=SMALL_INDEX["index_slots"],
        index_entries=SMALL_INDEX["index_entries"],
    )
    with TemporaryDirectory(prefix="orbitmq-bench-") as directory:
        store = MessageStore(directory, settings)
        store.open()
        append = store.append

        def run() -> None:
            for messages_of_turn in turns:
                append(messages_of_turn)

        best = min(per_message(MESSAGES, run) for _ in range(ROUNDS))
        store.close()
    return best


def parts(turn: int) -> tuple[float, float]:
    """Return what the log alone and reading records for dispatch cost, per message."""
    given = messages(MESSAGES, 4)
    turns = [given[begin : begin + turn] for begin in range(0, len(given), turn)]
    with TemporaryDirectory(prefix="orbitmq-bench-") as directory:
        store = MessageStore(directory, StoreSettings(segment_bytes=256 * 1024 * 1024))
        store.open()
        appended: list[Appended] = []

        def run() -> None:
            appended.clear()
            for messages_of_turn in turns:
                appended.extend(store.log.append(messages_of_turn, 1_700_000_000_000)[1])

        log = min(per_message(MESSAGES, run) for _ in range(ROUNDS))
        dispatcher = Dispatcher(delay_levels(store.settings.message_delay_level))

        def read() -> None:
            for one in appended:
                dispatcher.entries_of(one.filed, one.size)

        entries = min(per_message(MESSAGES, read) for _ in range(ROUNDS))
        store.close()
    return log, entries


def figures() -> list[Figure]:
    """Measure everything."""
    found = []
    for turn in (32, 1):
        log, entries = parts(turn)
        found += [
            Figure(f"1 KB appended to the log, turns of {turn}", log),
            Figure(f"read for dispatch, turns of {turn}", entries),
        ]
    for turn, queues in ((32, 4), (1, 4), (32, 10_000), (1, 10_000)):
        aim = 6.0 if (turn, queues) == (32, 4) else None
        what = f"appended and dispatched, turns of {turn}, {queues} queues"
        found.append(Figure(what, stored(turn, queues), aim))
    what = "appended and dispatched, turns of 32, 4 queues, no index"
    found.append(Figure(what, stored(32, 4, index=False)))
    return found


if __name__ == "__main__":
    report("append", figures())
