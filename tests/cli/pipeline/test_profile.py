"""``orbitmq pipeline profile`` prints figures and writes a page."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.cli.main import main


@pytest.mark.usefixtures("spark")
def test_lines_json_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "orders.html"
    with embedded.start() as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            for number in range(20):
                producer.send(Message("orders", bytes(1_000), keys=[f"o-{number % 5}"]))
        asked = ["pipeline", "profile", "--nameserver", cluster.nameserver, "--topic", "orders"]
        assert main([*asked, "--report", str(report)]) == 0
        printed = capsys.readouterr().out
        assert main([*asked, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main([*asked, "--until", "2020-01-01"]) == 1
    assert all(len(line) <= 80 for line in printed.splitlines() if "Report" not in line)
    assert "Messages   20, 19.5 KiB" in printed
    assert found["messages"] == 20
    assert found["topics"][0]["keys"] == 5
    assert "Profile of orders" in report.read_text()


def test_spark_s_failure_is_one_line(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["pipeline", "profile", "--nameserver", "127.0.0.1:1", "--topic", "orders"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("orbitmq: ")
    assert "127.0.0.1:1" in line
    assert spark.range(2).count() == 2  # the session goes on
