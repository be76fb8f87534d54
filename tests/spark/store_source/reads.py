"""Reads a store as Spark does, without Spark."""

from pathlib import Path

from orbitmq.spark.store_source.options import StoreOptions, store_options
from orbitmq.spark.store_source.partitions import plan
from orbitmq.spark.store_source.rows import read_part
from tests.spark.store_source.expected import Row

EVERYTHING = {"includeProperties": "true", "include": "halves,delayed,system"}


def options_of(directory: str | Path, **given: str) -> StoreOptions:
    return store_options({"path": str(directory), **given})


def read(directory: str | Path, **given: str) -> list[Row]:
    """Return all rows; properties are sorted pairs."""
    return rows_of_options(options_of(directory, **given))


def rows_of_options(options: StoreOptions) -> list[Row]:
    rows: list[Row] = []
    for part in plan(options):
        for batch in read_part(part, options):
            batch.validate(full=True)
            rows += batch.to_pylist()
    for row in rows:
        if row.get("properties") is not None:
            row["properties"] = sorted(row["properties"])  # type: ignore[call-overload]
    return rows
