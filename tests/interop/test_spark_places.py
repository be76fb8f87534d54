"""Where Spark may run: behind Spark Connect, and on a master with a worker. Each in processes."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from orbitmq import embedded
from tests.architecture.sources import ROOT
from tests.interop.java_server import free_port
from tests.interop.waiting import until
from tests.spark.traffic import Traffic

START_SECONDS = 120
pytestmark = pytest.mark.timeout(3 * START_SECONDS)


@pytest.fixture(scope="module")
def traffic() -> Iterator[Traffic]:
    with embedded.start(brokers=2) as cluster, Traffic(cluster.nameserver, "orders") as running:
        running.send(30)
        yield running


def check_round_trip(traffic: Traffic, directory: Path, kind: str, address: str) -> None:
    """Run the program, and check what it reports as read and written."""
    arguments = [traffic.nameserver, traffic.topic, str(directory), kind, address]
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.round_trip", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=workers_environment(),
        timeout=2 * START_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    read = json.loads(run.stdout.splitlines()[-1])
    assert read == {
        "batch": list(range(1, 30, 3)),
        "stream": list(range(30)),
        "written": [[number, "t1"] for number in range(1, 30, 3)],
    }


def workers_environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def test_behind_spark_connect(traffic: Traffic, tmp_path: Path) -> None:
    check_round_trip(traffic, tmp_path, "remote", "local[2]")


def test_on_a_master_with_a_worker(traffic: Traffic, tmp_path: Path) -> None:
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with contextlib.ExitStack() as running:
        logs = {"master": tmp_path / "master.log", "worker": tmp_path / "worker.log"}
        running.enter_context(daemon(logs, "master", *here, "--port", str(port)))
        until(
            lambda: "New state: ALIVE" in logs["master"].read_text(),
            what="the master",
            seconds=START_SECONDS,
        )
        size = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
        running.enter_context(daemon(logs, "worker", *here, *size, address))
        until(
            lambda: "Successfully registered" in logs["worker"].read_text(),
            what="the worker",
            seconds=START_SECONDS,
        )
        check_round_trip(traffic, tmp_path, "master", address)


@contextlib.contextmanager
def daemon(logs: Mapping[str, Path], kind: str, *arguments: str) -> Iterator[None]:
    """Run one of Spark's own daemons; at the end it is gone."""
    home = Path(pyspark.__file__).parent
    name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    with logs[kind].open("wb") as log:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", name, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**workers_environment(), "SPARK_HOME": str(home)},
        )
    try:
        yield
    finally:
        process.kill()  # the script has made way for Java
        process.wait()
