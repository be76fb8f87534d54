"""Small logs in temporary directories, for tests of the store."""

from orbitmq.message.host import Host
from orbitmq.message.scan import Scan
from orbitmq.store.disk.disk import Disk
from orbitmq.store.log.append import Incoming
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segments import Segments
from orbitmq.store.serving.pull_reader import GetMessageResult
from orbitmq.store.settings import StoreSettings

HERE = Host.parse("127.0.0.1:10911")
THERE = Host.parse("127.0.0.1:54321")
NOW = 1_700_000_000_000


def incoming(
    body: bytes = b"body", *, topic: str = "orders", queue_id: int = 0, **fields: object
) -> Incoming:
    given = {
        "topic": topic, "queue_id": queue_id, "body": body, "properties": b"TAGS\x01paid\x02",
        "born_timestamp_ms": NOW, "born_host": THERE, "store_host": HERE,
    }  # fmt: skip
    return Incoming(**{**given, **fields})  # type: ignore[arg-type]


def records_of(pulled: GetMessageResult) -> list[memoryview]:
    """Return the records of a pull one by one."""
    return [record.raw for view in pulled.views for record in Scan(view)]


def new_log(disk: Disk, directory: str, **settings: object) -> tuple[CommitLog, Segments]:
    chosen = StoreSettings(**{"segment_bytes": 4096, **settings})  # type: ignore[arg-type]
    chain = Segments(disk, f"{directory}/commitlog", chosen.segment_bytes)
    chain.load()
    return CommitLog(chain, chosen, lambda _topic, _queue: 0), chain
