from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq.errors import InvalidOption
from orbitmq.spark.streaming.refused_stream import RefusedStreamReader


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("getDefaultReadLimit", []),
        ("initialOffset", []),
        ("latestOffset", [{}, ReadAllAvailable()]),
        ("latestOffset", []),  # before 4.2
        ("read", [None]),
    ],
)
def test_a_refused_stream_says_why(call: str, arguments: list[Any]) -> None:
    reader = RefusedStreamReader(InvalidOption("no such thing", field="thing"))

    with pytest.raises(InvalidOption, match="no such thing"):
        getattr(reader, call)(*arguments)
