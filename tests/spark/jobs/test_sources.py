"""A job reads a topic as the rows that were asked for."""

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.sources import Span, Store, Topics, rows


def test_the_rows_of_topics(spark: SparkSession) -> None:
    with embedded.start() as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            for topic in ("orders", "refunds", "other"):
                producer.send(Message(topic, topic.encode(), properties={"colour": "blue"}))
        source = Topics(cluster.nameserver, ("orders", "refunds"))
        found = rows(spark, source, ["value", "properties"]).collect()
        assert sorted(bytes(row.value) for row in found) == [b"orders", b"refunds"]
        assert {row.properties["colour"] for row in found} == {"blue"}
        assert rows(spark, source, ["value"], Span(end_ms=1_000)).count() == 0


def test_no_topic_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        Topics("127.0.0.1:9876", ())


def test_a_source_shows_no_secret() -> None:
    source = Topics("127.0.0.1:9876", ("orders",), {"secretKey": "open sesame"})
    assert "sesame" not in repr(source)
    assert repr(Store("data", ("a", "b"))) == "<Store data a,b>"
