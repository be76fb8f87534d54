"""Scans of a store while its broker writes: each gives whole messages, and all up to some place."""

from orbitmq import embedded
from orbitmq.blocking import Producer
from orbitmq.message.model import Message
from orbitmq.store.reader.reader import StoreReader
from orbitmq.threads import ThreadWorkers
from tests.spark.store_source.expected import Row
from tests.spark.store_source.reads import read

MESSAGES = 6_000
AT_ONCE = 100


def body(number: int) -> bytes:
    return b"%d " % number * (1 + number % 90)


def send(nameserver: str) -> None:
    with Producer("live", nameserver=nameserver) as producer:
        for first in range(0, MESSAGES, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            producer.send_many(
                Message("orders", body(number), keys=[str(number)]) for number in numbers
            )


def check(rows: list[Row]) -> None:
    """Check that nothing is torn, and that no queue has a gap."""
    ends: dict[object, int] = {}
    for row in rows:
        assert row["value"] == body(int(str(row["key"])))
        assert row["queue_offset"] == ends.get(row["queue_id"], 0)
        ends[row["queue_id"]] = ends.get(row["queue_id"], 0) + 1


def test_nothing_torn_is_returned_while_a_broker_writes() -> None:
    with embedded.start() as running, ThreadWorkers(1, name="sends") as workers:
        (directory,) = running.directories
        sending = workers.submit(send, running.nameserver)
        scans = []
        while not sending.done():
            rows = read(directory, columns="key,value,queue_id,queue_offset", minPartitions="3")
            check(rows)
            scans.append(len(rows))
        sending.result()
        every = read(directory, columns="key,value,queue_id,queue_offset")
        check(every)
        assert len(every) == MESSAGES == len(list(StoreReader(str(directory)).records()))
        assert scans == sorted(scans)
        assert len({*scans, 0, MESSAGES}) > 2  # some saw a part
