"""What all jobs share: their source, their range of times, and the reason of a failure."""

import argparse
import re
from pathlib import Path

import pytest

from orbitmq.cli.pipeline.arguments import (
    add_job,
    add_source,
    add_span,
    check_report,
    count,
    finish,
    quantity,
    source_of,
    span_of,
)
from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.sources import Span, Store, Topics


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    job = add_job(commands, "archive", "write topics to files", examples="  …", status="0")
    add_source(job)
    add_span(job)
    return parser.parse_args(["archive", *words])


def test_topics_of_a_cluster() -> None:
    topics = ("--topic", "a", "--topic", "b")
    found = source_of(parsed("--nameserver", "127.0.0.1:1", *topics, "--option", "tls=true"))
    assert found == Topics("127.0.0.1:1", ("a", "b"), {"tls": "true"})


def test_the_nameserver_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:7")
    assert source_of(parsed("--topic", "a")) == Topics("127.0.0.1:7", ("a",))
    monkeypatch.delenv("NAMESRV_ADDR")
    assert source_of(parsed("--topic", "a")) == Topics("127.0.0.1:9876", ("a",))


def test_a_store_with_all_its_topics_or_some() -> None:
    assert source_of(parsed("--store", "data")) == Store("data")
    assert source_of(parsed("--store", "data", "--topic", "a")) == Store("data", ("a",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--topic"),
        (("--store", "data", "--nameserver", "127.0.0.1:1"), "not both"),
        (("--topic", "a", "--option", "tls"), "KEY=VALUE"),
    ],
)
def test_a_source_must_be_clear(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        source_of(parsed(*words))


def test_a_range_of_times() -> None:
    span = span_of(parsed("--from", "2026-11-15T09:30+00:00", "--until", "2026-11-15T09:31+00:00"))
    assert span == Span(1_794_735_000_000, 1_794_735_060_000)
    assert span_of(parsed()) == Span()
    with pytest.raises(InvalidInput, match="before it begins"):
        span_of(parsed("--from", "2026-11-15T09:30", "--until", "2026-11-15T09:30"))


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "soon"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        quantity(text)
    with pytest.raises(ValueError, match=text):
        count(text)


def test_quantities() -> None:
    assert (quantity("0.5"), quantity("0"), count("20")) == (0.5, 0.0, 20)


def test_a_page_that_cannot_be_written_is_refused_before_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"  # root, who may write everywhere, is asked about it too
    monkeypatch.setattr("os.access", lambda path, _mode: path != closed)
    closed.mkdir()
    for page, reason in (
        (tmp_path, "is a directory; name a file in it"),
        (tmp_path / "missing" / "page.html", f"create {tmp_path / 'missing'} first"),
        (closed / "page.html", "permission denied"),
    ):
        given = argparse.Namespace(report=str(page))
        with pytest.raises(InvalidInput, match=re.escape(f"--report {page} ")) as refused:
            check_report(given)
        assert str(refused.value).endswith(reason)
    check_report(argparse.Namespace(report=str(tmp_path / "page.html")))
    assert list(tmp_path.iterdir()) == [closed]


def test_figures_are_printed_though_the_page_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = argparse.Namespace(json=False, report=str(tmp_path / "missing" / "page.html"))
    with pytest.raises(FileNotFoundError):
        finish(given, {}, ["Equal."], "<html>")
    assert capsys.readouterr().out == "Equal.\n"
