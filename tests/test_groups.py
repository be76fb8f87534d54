"""Tests that share something costly run in one process."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests import groups
from tests.architecture.sources import ROOT

HERE = Path(__file__).parent


def test_files_that_share_a_fixture_are_a_group() -> None:
    of = {
        name: groups.group_of(HERE / f"{name}.py")
        for name in (
            *("spark/test_source", "interop/test_spark_batch", "interop/test_producer"),
            *("interop/test_mqadmin", "interop/test_store_exchange", "wire/test_codes"),
        )
    }
    assert of == {
        "spark/test_source": "spark",
        "interop/test_spark_batch": "spark",
        "interop/test_producer": "java servers",
        "interop/test_mqadmin": "java clients",
        "interop/test_store_exchange": "interop/test_store_exchange",
        "wire/test_codes": "wire/test_codes",
    }


def test_what_takes_long_begins_first() -> None:
    files = [*HERE.rglob("test_*.py")]
    order = [groups.group_of(file) for file in sorted(files, key=groups.position)]
    assert order[0] == "spark"
    assert order.index("spark/test_kills") < order.index("wire/test_codes")
    assert {*groups._LONG} <= {*order}, "a file was renamed"


def test_a_run_keeps_them_together() -> None:
    files = (
        "tests/wire/test_codes.py",
        "tests/message/test_flags.py",
        "tests/message/test_host.py",
    )
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", *files]
    ran = subprocess.run(
        [*command, "--no-loadscope-reorder", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    processes = defaultdict(set)
    for process, file in re.findall(r"^\[(gw\d)\].* (tests/\S+?)::", ran.stdout, re.MULTILINE):
        processes[file].add(process)
    assert processes.keys() == {*files}
    assert all(len(used) == 1 for used in processes.values()), processes
