"""What topics offer to an archive; ``test_archive`` reads them."""

import pickle

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.embedded import RunningCluster
from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.archiving.feeds import topic_feed
from orbitmq.spark.jobs.archiving.manifest import ArchivedRange, Manifest, merged_ends
from orbitmq.spark.jobs.sources import Span, Topics


def test_the_work_follows_the_last_run(shared_cluster: RunningCluster) -> None:
    with Producer("shop", nameserver=shared_cluster.nameserver) as producer:
        producer.send_many(Message("feeds", b"x") for _ in range(10))
        feed = topic_feed(Topics(shared_cluster.nameserver, ("feeds",)), Span())
        feed = pickle.loads(pickle.dumps(feed))
        work = feed.work(None, 4)
        pieces = [piece for task in work.tasks for piece in task]
        assert sum(piece.end - piece.start for piece in pieces) == 10
        ranges: list[ArchivedRange] = []
        rows = [one for piece in pieces for one in feed.read(piece, ranges.append)]
        assert sum(one.rows for one in ranges) == 10
        assert {topic for topic, _ in rows} == {"feeds"}
        assert all(batch.schema == feed.schema for _, batch in rows)
        last = Manifest(
            run=1,
            made_at="",
            source=feed.kind,
            columns=(),
            staging="",
            files=(),
            ranges=(),
            ends=merged_ends([], ranges, []),
        )
        assert feed.work(last, 4).tasks == []
        producer.send(Message("feeds", b"y"))
        ((piece,),) = feed.work(last, 4).tasks
        assert piece.end - piece.start == 1


@pytest.mark.parametrize("option", ["columns", "includeProperties"])
def test_columns_are_not_chosen(option: str) -> None:
    with pytest.raises(InvalidInput, match=option):
        topic_feed(Topics("127.0.0.1:1", ("orders",), {option: "value"}), Span())


def test_a_range_of_times() -> None:
    feed = topic_feed(Topics("127.0.0.1:1", ("orders",)), Span(1_000, 2_000))
    assert (feed.options.start.timestamp_ms, feed.options.end.timestamp_ms) == (1_000, 2_000)
