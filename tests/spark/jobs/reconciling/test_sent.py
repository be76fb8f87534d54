"""Receipts of all formats say the same; several reports about a message become one."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.reconciling.sent import SAID, Waiting, merged, of_outbox, of_receipts

AT_MS = 1_794_735_000_123
TEXT = "2026-11-15T09:30:00.123Z"
ROWS = [
    {"topic": "orders", "message_id": "A", "sent_at": AT_MS, "queue_id": 3, "queue_offset": 7},
    {"topic": "orders", "message_id": "B", "sent_at": AT_MS, "status": "FLUSH_DISK_TIMEOUT"},
    {"topic": "orders", "message_id": "C", "sent_at": AT_MS, "status": "SendFailed"},
]


def written(directory: Path, form: str) -> str:
    path = directory / f"receipts.{form}"
    names = ["topic", "message_id", "sent_at", "queue_id", "queue_offset", "status"]
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)))
    elif form == "csv":
        rows = [[str({**row, "sent_at": TEXT}.get(name, "")) for name in names] for row in ROWS]
        path.write_text("\n".join(",".join(row) for row in [names, *rows]))
    else:
        columns = {name: [row.get(name) for row in ROWS] for name in names}
        columns["sent_at"] = pa.array(columns["sent_at"], pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_formats(spark: SparkSession, tmp_path: Path, form: str) -> None:
    rows = of_receipts(spark, [written(tmp_path, form)]).orderBy("message_id").collect()
    assert [row.acknowledged for row in rows] == [True, True, False]
    assert {row.sent_ms for row in rows} == {AT_MS}
    assert (rows[0].queue_id, rows[0].queue_offset, rows[1].queue_offset) == (3, 7, None)


def test_times_without_a_zone_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """As pandas writes them; in the session's zone, which is UTC."""
    path = tmp_path / "receipts.parquet"
    names = {name: [row[name] for row in ROWS] for name in ("topic", "message_id")}
    times = pa.array([AT_MS] * len(ROWS), pa.timestamp("ms"))
    pq.write_table(pa.table({**names, "sent_at": times}), path)
    assert {row.sent_ms for row in of_receipts(spark, [str(path)]).collect()} == {AT_MS}


def test_a_place_that_cannot_be_read_is_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "receipts.csv"
    path.write_text("topic,message_id,sent_at,queue_id,queue_offset\norders,A,5,n/a,n/a\n")
    (row,) = of_receipts(spark, [str(path)]).collect()
    assert (row.message_id, row.queue_id, row.queue_offset) == ("A", None, None)


def test_a_file_without_ids(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "receipts.csv"
    path.write_text("topic,sent_at\norders,5\n")
    with pytest.raises(InvalidInput, match="lacks the column message_id"):
        of_receipts(spark, [str(path)])


def test_reports_about_one_message(spark: SparkSession, tmp_path: Path) -> None:
    names = [column.split()[0] for column in SAID.split(", ")]

    def said(**given: object) -> tuple[object, ...]:
        return tuple({**dict.fromkeys(names), "topic": "orders", **given}[name] for name in names)

    rows = [
        said(message_id="A", sent_ms=9, acknowledged=False, producer="trace"),
        said(message_id="A", sent_ms=5, acknowledged=True, producer="log", sequence=2, broker="a",
             queue_id=1, queue_offset=4),
        said(message_id="H", sent_ms=5, acknowledged=True, kind="half"),
        said(message_id="H", ended="ROLLBACK_MESSAGE"),
        said(message_id="H", ended="COMMIT_MESSAGE"),
        said(message_id="only recalled", recalled=True),
        said(message_id="", sent_ms=5),
    ]  # fmt: skip
    outbox = of_outbox(spark, [Waiting("orders", "W", 8)])
    found = merged(spark.createDataFrame(rows, SAID).unionByName(outbox))
    by_id = {row.message_id: row for row in found.collect()}
    assert set(by_id) == {"A", "H", "W"}
    one = by_id["A"]
    assert (one.sent_ms, one.acknowledged, one.producer, one.sequence) == (5, True, "log", 2)
    assert (one.broker, one.queue_id, one.queue_offset, one.kind) == ("a", 1, 4, "normal")
    assert (by_id["H"].ended, by_id["H"].kind) == ("COMMIT_MESSAGE", "half")
    assert (by_id["W"].waiting, by_id["W"].acknowledged) == (True, False)
