"""What becomes of places that can't be read, as ``onCorrupt`` says: an error, a warning, or a row.

A task can't speak to the driver but by its rows, so a report is rows: of all columns two are set,
the place and the reason.
"""

import logging
from collections.abc import Iterator

import pyarrow as pa

from orbitmq.errors import StoreDamaged
from orbitmq.spark.columns.arrow_schema import as_arrow
from orbitmq.spark.store_source.options import OnCorrupt, StoreOptions
from orbitmq.spark.store_source.schema import CORRUPT, store_schema
from orbitmq.store.reader.reader import Damage, StoreReader

__all__ = ["CorruptPlaces"]

log = logging.getLogger("orbitmq.spark")


class CorruptPlaces:
    """The places that one task finds."""

    def __init__(self, reader: StoreReader, options: StoreOptions) -> None:
        self._reader = reader
        self._on_corrupt = options.on_corrupt
        self._columns = options.columns
        self._kept: list[Damage] = []

    def note(self, damage: Damage) -> None:
        """Take one place; raise StoreDamaged if that ends the read."""
        if self._on_corrupt is OnCorrupt.FAIL:
            raise StoreDamaged(
                f"{self._text(damage)}. Set onCorrupt to skip or report to read the rest",
                path=damage.where,
                position=damage.position,
            )
        if self._on_corrupt is OnCorrupt.SKIP:
            log.warning("skipped %s", self._text(damage))
        else:
            self._kept.append(damage)

    def reports(self) -> Iterator[pa.RecordBatch]:
        """Yield the places since the last call as rows that have two columns."""
        if not self._kept:
            return
        given = {
            "physical_offset": pa.array([one.position for one in self._kept], pa.int64()),
            CORRUPT: pa.array([self._text(one) for one in self._kept], pa.string()),
        }
        schema = as_arrow(store_schema(self._columns))
        count = len(self._kept)
        arrays = [
            given[field.name] if field.name in given else pa.nulls(count, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        self._kept = []

    def _text(self, damage: Damage) -> str:
        files = self._reader.segments
        held = (file.path for file in files if file.base <= damage.position < file.end)
        return f"{next(held, self._reader.log_directory)}: {damage}"
