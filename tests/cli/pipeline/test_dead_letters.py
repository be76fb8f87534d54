"""``orbitmq pipeline dead-letters`` lists what died, and sends it again."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq import embedded
from orbitmq.blocking import Admin
from orbitmq.cli.main import main
from tests.interop.waiting import until
from tests.spark.jobs.dead_letter_story import SENT, die


def test_lines_json_a_report_and_a_re_drive(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "dead.html"
    with embedded.start() as cluster:
        asked = ["pipeline", "dead-letters", "--nameserver", cluster.nameserver]
        assert main(asked) == 0
        assert capsys.readouterr().out == "There are no dead letters.\n"
        die(cluster.nameserver, "billing", SENT[:6])
        causes = ["--cause-property", "x-cause"]
        assert main([*asked, *causes, "--group", "billing", "--report", str(report)]) == 0
        printed = capsys.readouterr().out
        assert main([*asked, *causes, "--json", "--where", "topic = 'orders'"]) == 0
        found = json.loads(capsys.readouterr().out)
        again = [*asked, "--redrive", "--where", "tags = 'paid'", "--json"]
        assert main([*again, "--dry-run"]) == 0
        planned = json.loads(capsys.readouterr().out)
        assert main([*again, "--to", "origin", "--max", "2"]) == 0
        done = json.loads(capsys.readouterr().out)
        with Admin(nameserver=cluster.nameserver) as admin:
            copies = until(
                lambda: (
                    those
                    if len(
                        those := [
                            *admin.messages_between("orders"),
                            *admin.messages_between("refunds"),
                        ]
                    )
                    == 8
                    else None
                ),
                what="the copies",
            )
        assert main([*asked, "--group", "nobody", "--redrive", "--where", "true"]) == 0
        assert capsys.readouterr().out == "There are no dead letters.\n"
    assert all(len(line) <= 80 for line in printed.splitlines() if "Report" not in line)
    assert "Letters    6, " in printed
    assert "timeout after N ms" in printed
    assert found["letters"] == sum(one.topic == "orders" for one in SENT[:6])
    assert (planned["sent"], planned["is_dry_run"]) == (3, True)
    assert (done["sent"], done["refused"]) == (2, [])
    assert sum("REDRIVEN_FROM" in one.properties for one in copies) == 2
    assert "Dead letters of billing" in report.read_text()
    assert spark.range(2).count() == 2  # the session goes on


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--redrive"], "needs --where"),
        (["--dry-run"], "--dry-run is for --redrive"),
        (["--to", "origin"], "--to is for --redrive"),
        (["--max", "0"], "--max is for --redrive"),
        (["--redrive", "--where", "true", "--report", "x.html"], "leave out --report"),
        (["--redrive", "--where", "true", "--max", "-1"], "at least 1"),
        (["--store", "x", "--nameserver", "127.0.0.1:1"], "not both"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "dead-letters", *words]) == 2
    assert said in capsys.readouterr().err
