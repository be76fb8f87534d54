from bench.spark import BODY_BYTES, TOPIC, body, fill, growth_rows, ours, query_rows
from bench.spark_queries import KAFKA, OURS, Growth, Spent
from orbitmq import embedded
from orbitmq.spark.options.options import read_options
from orbitmq.spark.reading.batch_reader import BatchReader
from tests.spark.traffic import taken


def test_the_first_messages_are_sources_of_that_many() -> None:
    with embedded.start() as running:
        fill(running.nameserver, 200)
        for source in ours(running.nameserver, [50, 200]):
            options = read_options(dict(source.options), streaming=False)
            rows = taken(BatchReader(options))
            assert len(rows) == source.messages
            assert {row["topic"] for row in rows} == {TOPIC}


def test_bodies_differ_and_are_of_one_size() -> None:
    assert {len(body(number)) for number in range(1_000)} == {BODY_BYTES}
    assert len({body(number) for number in range(1_000)}) == 1_000


def test_figures_over_their_target_are_marked() -> None:
    spent = {OURS: Spent(5.0, 1.0), KAFKA: Spent(4.0, 1.0)}

    assert query_rows({"counted": spent})[0][-1] == "CPU, wall"
    assert query_rows({"Parquet, all columns": spent})[0][-1] == ""  # there is no aim
    assert query_rows({"counted": {OURS: Spent(5.0, 1.0)}})[0][2] is None


def test_growth_is_told_by_the_message() -> None:
    row = growth_rows([Growth(1_000_000, Spent(4.0, 3.0), 250.0)])[0]

    assert row == ["1,000,000", 4.0, 4.0, 3.0, 250.0]
