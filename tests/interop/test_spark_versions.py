"""The oldest supported Spark, in a separate environment; for ``make soak``."""

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from orbitmq import embedded
from tests.architecture.sources import ROOT
from tests.spark.traffic import Traffic

OLDEST = "4.1"
INSTALL_SECONDS = RUN_SECONDS = 600
COUNT = 30

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("ORBITMQ_SOAK") != "1",
        reason=f"PySpark {OLDEST} is half a gigabyte to install: ORBITMQ_SOAK=1 does it",
    ),
    pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS),
]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python that has the oldest PySpark, and orbitmq as a user installs it."""
    directory = tmp_path / "environment"
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    install = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run(
        [*install, f"pyspark=={OLDEST}.*", f"{ROOT}[spark]"], timeout=INSTALL_SECONDS, check=True
    )
    return python


def test_the_oldest_spark_reads_and_writes_and_says_that_it_cannot_stream(
    python: Path, tmp_path: Path
) -> None:
    with embedded.start() as running, Traffic(running.nameserver, "orders") as traffic:
        traffic.send(COUNT)
        program = ["tests.spark.old_spark_program", running.nameserver, "orders", str(tmp_path)]
        run = subprocess.run(
            [str(python), "-m", *program],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=RUN_SECONDS,
            check=False,
        )

    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["version"].startswith(f"{OLDEST}.")
    assert found["read"] == list(range(COUNT))
    assert found["written"] == [[0, 1, 2], [0, 1, 2]]
    assert f"Spark {found['version']} can't stream from RocketMQ" in found["refused"]
