"""What needs no Spark; the rest is in test_run, which runs all of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.errors import AnalysisException

from orbitmq.demo.figures import Batch, Total
from orbitmq.demo.pipeline import batches_of, spark_errors_wrapped, totals
from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Progress:
    timestamp: str
    took_ms: int
    numInputRows: int  # noqa: N815 - Spark's name

    @property
    def durationMs(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"triggerExecution": self.took_ms}


@dataclass
class Query:
    recentProgress: list[Progress] = field(default_factory=list)  # noqa: N815 - Spark's name


def test_a_batch_counts_at_its_end_and_only_with_rows() -> None:
    query = Query(
        [
            Progress("1970-01-01T00:00:05.000Z", 100, 0),
            Progress("1970-01-01T00:00:06.500Z", 250, 40),
        ]
    )
    assert batches_of(cast("StreamingQuery", query), since_ms=5_000) == (Batch(1_750, 40),)


def test_totals_have_the_most_frequent_state_first() -> None:
    found = totals({"paid": (3, 30), "placed": (5, 50)}, {"placed": (5, 50), "lost": (1, 9)})
    assert found == (
        Total("placed", 5, 50, 5, 50),
        Total("paid", 3, 30, 0, 0),
        Total("lost", 0, 0, 1, 9),
    )


def test_an_error_of_spark_becomes_one_of_ours_in_one_line() -> None:
    with pytest.raises(OrbitError) as caught, spark_errors_wrapped():
        raise AnalysisException("the path is taken\nby somebody\nelse")
    assert str(caught.value) == "Spark failed: the path is taken"
    assert isinstance(caught.value.__cause__, AnalysisException)
