import json
from pathlib import Path

from bench.measure import RESULTS
from bench.spark import QUEUES, TOPIC
from bench.spark_queries import KAFKA, OURS, Findings, Spent
from bench.store_scan import QUERIES, parts, rows
from orbitmq.spark.store_source.options import store_options
from tests.architecture.sources import ROOT
from tests.spark.store_source.made_logs import LogMaker
from tests.spark.store_source.reads import rows_of_options


def test_the_first_messages_are_sources_of_that_many(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    for number in range(200):
        maker.add(topic=TOPIC.encode(), queue_id=number % 5 % QUEUES)
    store = Path(maker.write(queues=True))
    for source in parts(store, [20, 77, 200]):
        found = rows_of_options(store_options(source.options))
        assert len(found) == source.messages
        assert {row["topic"] for row in found} == {TOPIC}


def test_ratios_stand_beside_their_aims() -> None:
    spent = {OURS: Spent(1.0, 1.0), KAFKA: Spent(4.0, 2.0)}
    found = Findings({query.name: spent for query in QUERIES}, [], [])
    assert rows(found)[0] == ["counted", 1.0, 4.0, 0.25, 1.0, 2.0, 0.5, 0.4]
    alone = Findings({query.name: {OURS: Spent(1.0, 1.0)} for query in QUERIES}, [], [])
    assert rows(alone)[0] == ["counted", 1.0, None, None, 1.0, None, None, 0.4]


def test_the_docs_reckon_with_what_was_measured() -> None:
    found = json.loads((RESULTS / "store_scan.json").read_text())
    counted, value, parquet = (
        found["queries"][query.name][OURS]["cpu_s"] / found["messages"] * 1e6
        for query in QUERIES[:3]
    )
    page = " ".join((ROOT / "docs/spark.md").read_text().split())
    assert (
        f"costs {counted:.1f} µs of CPU to count, {value:.1f} µs with its value and "
        f"{parquet:.1f} µs as Parquet"
    ) in page
    seconds = [round(8.8e9 * round(each, 1) / 1e6 / 400) for each in (counted, value, parquet)]
    assert f"need {seconds[0]} s, {seconds[1]} s or {seconds[2]} s" in page
