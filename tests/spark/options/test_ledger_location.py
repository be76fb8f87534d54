from pathlib import Path

import pytest

from orbitmq.spark.options.ledger_location import absolute


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/data/ledger/", "/data/ledger"),
        ("file:///data/ledger", "/data/ledger"),
        ("file:/data/ledger", "/data/ledger"),
        ("hdfs://head:8020/ledger", "hdfs://head:8020/ledger"),
        ("s3a://bucket/a b/ledger/", "s3://bucket/a b/ledger"),
        ("/data/a:b/ledger", "/data/a:b/ledger"),
    ],
)
def test_a_location_is_the_same_in_every_process(given: str, found: str) -> None:
    assert absolute(given) == found


def test_a_relative_path_is_one_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("checkpoint/ledger") == str(tmp_path / "checkpoint" / "ledger")
