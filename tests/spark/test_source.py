import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import MapType, StringType, StructField, StructType

import pyspark_rocketmq
from orbitmq.embedded import RunningCluster
from orbitmq.errors import (
    InvalidColumn,
    InvalidInput,
    InvalidOption,
    NoRoute,
    SparkTooOld,
    UnknownOption,
)
from orbitmq.spark.reading.batch_reader import BatchReader, FilteringBatchReader
from orbitmq.spark.schema import DEFAULT_COLUMNS, READ_COLUMNS, read_schema
from orbitmq.spark.source import RocketMQSource
from orbitmq.spark.streaming.refused_stream import RefusedStreamReader
from orbitmq.spark.streaming.stream_reader import StreamReader
from orbitmq.spark.writing.writer import RocketMQStreamWriter
from tests.spark.shown import last_line

NOWHERE = {"nameserver": "127.0.0.1:1", "subscribe": "orders"}
"""Options of a cluster that doesn't exist: any request fails."""


def source(**options: str) -> RocketMQSource:
    return RocketMQSource(CaseInsensitiveDict({**NOWHERE, **options}))


def test_spark_finds_the_source_by_its_package_name() -> None:
    assert pyspark_rocketmq.DefaultSource is RocketMQSource
    assert RocketMQSource.name() == "rocketmq"


def test_a_schema_needs_no_cluster() -> None:
    assert source().schema().fieldNames() == list(DEFAULT_COLUMNS)
    assert source(columns="tags").schema().simpleString() == "struct<tags:string>"


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},  # nothing to read for a batch
        {"maxOffsetsPerTrigger": "10"},
        {"endingOffsets": "latest"},
    ],
)
def test_a_schema_is_given_for_either_kind_of_read(options: dict[str, str]) -> None:
    assert source(**options).schema().fieldNames() == list(DEFAULT_COLUMNS)


def test_options_that_suit_no_read_are_refused_as_the_kind_they_look_like() -> None:
    with pytest.raises(InvalidOption, match=r"^minPartitions"):
        source(maxOffsetsPerTrigger="10", minPartitions="none").schema()
    with pytest.raises(InvalidOption, match=r"^minPartitions"):
        source(endingOffsets="latest", minPartitions="none").schema()
    with pytest.raises(UnknownOption, match="did you mean minPartitions"):
        source(minPartition="3").schema()


def test_readers_are_made_without_a_cluster() -> None:
    schema = source().schema()

    assert type(source().reader(schema)) is BatchReader
    assert type(source(pushFilters="true").reader(schema)) is FilteringBatchReader
    assert type(source().streamReader(schema)) is StreamReader


def test_a_refused_stream_raises_at_its_first_call() -> None:
    reader = source(endingOffsets="latest").streamReader(source().schema())

    assert isinstance(reader, RefusedStreamReader)
    with pytest.raises(InvalidOption, match="endingOffsets is an option of batch reads"):
        reader.getDefaultReadLimit()


def test_a_spark_that_cannot_stream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.2")
    reader = source().streamReader(source().schema())

    with pytest.raises(
        SparkTooOld, match="Spark 4.1.2 can.t stream .* Spark 4.2 or later"
    ) as caught:
        reader.initialOffset()
    assert caught.value.least == "4.2"


def test_a_user_schema_selects_columns() -> None:
    own = StructType().add("tags", "string").add("queue_offset", "long")

    assert source().reader(own)._options.columns == ("tags", "queue_offset")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "kind"), [("body", "binary"), ("queue_offset", "string")])
def test_a_user_schema_has_no_unknown_columns(name: str, kind: str) -> None:
    with pytest.raises(InvalidColumn, match=name):
        source().reader(StructType().add(name, kind))


TAGS = StructField("tags", StringType())


@pytest.mark.parametrize(
    ("options", "fields", "what"),
    [
        ({}, [], "has no columns"),
        ({}, [TAGS, TAGS], "column tags is twice in the given schema"),
        ({}, [StructField("tags", StringType(), nullable=False)], "has NOT NULL; leave that out"),
        (
            {},
            [StructField("properties", MapType(StringType(), StringType(), False))],
            "has map<string,string> without null values",
        ),
        ({"columns": "key"}, [TAGS], "column tags is in the given schema, but the option columns"),
    ],
    ids=["empty", "twice", "not-null", "map", "columns"],
)
def test_a_schema_that_no_row_can_have_is_refused_before_a_task_starts(
    options: dict[str, str], fields: list[StructField], what: str
) -> None:
    with pytest.raises(InvalidColumn, match=what):
        source(**options).reader(StructType(fields))
    with pytest.raises(InvalidColumn, match=what):
        source(**options).streamReader(StructType(fields)).initialOffset()


def test_a_user_schema_may_have_some_of_the_selected_columns() -> None:
    reader = source(columns="key,tags").reader(StructType([TAGS]))

    assert reader._options.columns == ("tags",)  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{}, {"includeProperties": "false"}])
def test_a_user_schema_that_names_properties_is_enough_to_read_them(
    options: dict[str, str],
) -> None:
    reader = source(**options).reader(read_schema(["value", "properties"]))

    assert reader._options.columns == ("value", "properties")  # type: ignore[attr-defined]
    assert source(includeProperties="true").schema().fieldNames() == list(READ_COLUMNS)


def test_writers_check_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in the processes that commit, which ask no nameserver.
    monkeypatch.setattr("orbitmq.spark.writing.writer.is_committing", lambda: True)
    to_topic = RocketMQSource(CaseInsensitiveDict({"nameserver": "127.0.0.1:1", "topic": "orders"}))
    value = StructType().add("value", "binary")

    assert type(to_topic.streamWriter(value, False)) is RocketMQStreamWriter
    with pytest.raises(InvalidInput, match="overwritten"):
        to_topic.writer(value, True)
    with pytest.raises(InvalidColumn, match="colour"):
        to_topic.streamWriter(value.add("colour", "string"), False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscrbe": "orders"}, "there is no option 'subscrbe'; did you mean subscribe?"),
        ({"subscribe": "nobody-knows"}, f"{NoRoute.__name__}: topic nobody-knows is missing"),
    ],
)
def test_our_message_is_the_last_thing_that_the_user_sees(
    spark: SparkSession, shared_cluster: RunningCluster, options: dict[str, str], sentence: str
) -> None:
    read = spark.read.format("rocketmq").options(nameserver=shared_cluster.nameserver, **options)

    with pytest.raises(AnalysisException) as caught:
        read.load().collect()

    assert last_line(caught.value).startswith("orbitmq.errors.")
    last = str(caught.value).rpartition("orbitmq.errors.")[2]
    assert sentence in last.removesuffix(" SQLSTATE: 38000")
    assert "Traceback" not in last
