"""The demo is the first thing a newcomer sees: it works, is quiet, and fits a terminal."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.blocking import PullConsumer
from orbitmq.demo.run import fresh_directory, run
from orbitmq.errors import InvalidInput
from tests.cli.running_servers import serving

TIMEOUT_S = 280  # half a minute, and longer where others are at work
ORDERS = 20
NO_SPARK = "import sys; sys.modules['pyspark'] = None; from orbitmq.cli.main import main; "
WITHOUT_SPARK = ("-c", NO_SPARK + "sys.exit(main())", "demo")
PORTS = ("--nameserver-port", "0", "--broker-port", "0")
MESSAGES = 59  # what happens to them: the shop's events are the same in each run


def ran(tmp_path: Path, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )


def check(done: "subprocess.CompletedProcess[str]", tmp_path: Path) -> str:
    """Check what holds with Spark and without; return the report."""
    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith("file://")) <= 79
    assert any(line.startswith(f"messages sent           {MESSAGES} in ") for line in lines)
    assert "order o-00000           failed 9 times, left 3 dead letters" in lines
    assert "transactions            50: 40 committed, 10 rolled back" in lines
    report = tmp_path / "orbitmq-demo" / "report.html"
    assert report.as_uri() in lines
    return report.read_text()


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_whole_demo_in_eighty_columns(tmp_path: Path) -> None:
    done = ran(tmp_path, "-m", "orbitmq", "demo", ORBITMQ_DEMO_SECONDS="0.09")
    page = check(done, tmp_path)
    lines = done.stdout.splitlines()
    assert f"placed      {ORDERS:>12}" in done.stdout
    assert "Topic and files have the same rows, in order for each customer." in lines
    assert "The broker's key index finds order o-00000: placed, paid, shipped." in lines
    said = " ".join(done.stdout.split())
    assert f"{MESSAGES} found, 0 lost, 0 duplicated, 0 out of order." in said
    assert "Listeners of shop-billing failed on 9 of " in said
    assert f"archive     {MESSAGES} rows of the broker's own files in " in done.stdout
    assert page.count("<svg") == 2
    assert ">equal<" in page
    home = tmp_path / "orbitmq-demo"
    assert any((home / "orders").glob("*.parquet"))
    for link in re.findall(r'href="(.*?)"', page):
        assert "<svg" in (home / link).read_text()


def test_without_spark_it_says_so_and_shows_the_rest(tmp_path: Path) -> None:
    done = ran(tmp_path, *WITHOUT_SPARK, ORBITMQ_DEMO_SECONDS="0.09")
    assert ">all<" in check(done, tmp_path)
    greeting, rest = done.stdout.split("\nA nameserver and a broker in this process\n")
    assert "pip install 'orbitmq[spark]'" in greeting
    assert "Spark" not in rest
    assert "Parquet" not in rest


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "orbitmq", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as demo:
        assert demo.stdout is not None
        try:
            assert any(" sent " in line for line in demo.stdout)
            demo.send_signal(signal.SIGINT)
            _, said = demo.communicate(timeout=TIMEOUT_S)
        except BaseException:
            demo.kill()
            raise
    assert said == ""
    assert demo.returncode == 128 + signal.SIGINT


def test_a_broker_serves_what_it_leaves(tmp_path: Path) -> None:
    check(ran(tmp_path, *WITHOUT_SPARK, "--orders", str(ORDERS)), tmp_path)
    store = str(tmp_path / "orbitmq-demo" / "store" / "broker-a")
    with serving("up", *PORTS, "--store", store) as up:
        nameserver = up.ready_line().partition("nameserver=")[2].partition(" ")[0]
        with PullConsumer("shop", nameserver=nameserver, consume_from="first") as consumer:
            consumer.subscribe("shop-orders")
            found = 0
            while found < MESSAGES:
                messages = consumer.poll(timeout_ms=30_000)
                assert messages
                found += len(messages)
        up.process.send_signal(signal.SIGTERM)
        assert up.end().status == 0
    assert found == MESSAGES


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan"])
def test_a_bad_number_of_seconds_is_refused(seconds: str, tmp_path: Path) -> None:
    done = ran(tmp_path, "-m", "orbitmq", "demo", ORBITMQ_DEMO_SECONDS=seconds)
    assert done.returncode == 2
    assert done.stderr == (
        f"orbitmq: ORBITMQ_DEMO_SECONDS is {seconds!r}; it must be a number of seconds above 0, "
        "such as 2\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_its_directory_is_replaced(tmp_path: Path) -> None:
    home = fresh_directory(tmp_path / "below" / "demo")
    (home / "old").touch()
    assert [path.name for path in fresh_directory(home).iterdir()] == [".orbitmq-demo"]


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert fresh_directory(tmp_path) == tmp_path


@pytest.mark.parametrize("name", [".", "precious.txt"])
def test_files_that_are_not_the_demos_are_not_deleted(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious.txt").write_text("precious")
    with pytest.raises(InvalidInput, match="has files that are not the demo's"):
        run(str(tmp_path / name), orders=1)
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_a_shop_without_orders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--orders is 0; it must be at least 1"):
        run(str(tmp_path / "demo"), orders=0)
    assert not (tmp_path / "demo").exists()
