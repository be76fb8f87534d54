"""The full numbers: ``make soak``, or ``make soak PARTS="store spark"`` for some parts.

A part is a folder of tests, or one file of them, such as ``tests/spark/test_kills.py``.

Runs the whole suite with twenty times the random cases and with all real counterparts, which must
be installed. The suite runs by parts, since all of it takes hours: the result of each is written to
``bench/results/soak.json`` when it ends, with the commit that it was made on, so that what was cut
off goes on with the parts that are missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import TypedDict
from xml.etree import ElementTree as ET

from bench.measure import RESULTS, machine, write

# Per test: with twenty times the cases a single test may take long.
TIMEOUT_S = 1800

TESTS = Path("tests")
OTHERS = "others"
"""The tests that lie in no folder of their own."""


class Part(TypedDict):
    """What a part of the suite came to."""

    commit: str
    exit_status: int
    tests: int
    failed: list[str]
    skipped: int
    seconds: int


def main() -> int:
    """Run the parts that were asked for; return 0 if all of them passed."""
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(parts())}")
    asked: list[str] = parser.parse_args().parts or list(parts())
    if unknown := [name for name in asked if not paths_of(name)]:
        parser.error(f"no {', '.join(unknown)}; there are files of tests, and {', '.join(parts())}")
    results: dict[str, Part] = earlier()
    for name in asked:
        results[name] = run_part(name)
        write("soak", {"machine": machine(), "parts": dict(sorted(results.items()))})
    return int(any(results[name]["exit_status"] for name in asked))


def parts() -> dict[str, list[str]]:
    """Return the paths of each part of the suite."""
    found = {
        path.name: [str(path)]
        for path in sorted(TESTS.iterdir())
        if path.is_dir() and any(path.rglob("test_*.py"))
    }
    return found | {OTHERS: [str(path) for path in sorted(TESTS.glob("test_*.py"))]}


def paths_of(part: str) -> list[str]:
    """Return the paths of a part, a folder or a file; none if there is no such part."""
    is_file = Path(part).parts[:1] == TESTS.parts and Path(part).is_file()
    return [part] if is_file else parts().get(part, [])


def earlier() -> dict[str, Part]:
    """Return the results of an earlier run, of the parts that still exist."""
    file = RESULTS / "soak.json"
    found = json.loads(file.read_text()).get("parts", {}) if file.exists() else {}
    return {name: part for name, part in found.items() if paths_of(name)}


def run_part(name: str) -> Part:
    """Run a part of the suite with full numbers."""
    print(f"soak: {name}", flush=True)
    environment = os.environ | {"ORBITMQ_SOAK": "1", "ORBITMQ_INTEROP": "require"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        began = monotonic()
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", *paths_of(name)),
                *("--timeout", str(TIMEOUT_S), f"--junitxml={report}"),
                # As `make test`: one more than there are cores, since many tests wait for others;
                # those that share servers and Java processes stay together.
                *("-n", str((os.cpu_count() or 1) + 1)),
                *("--dist", "loadgroup", "--no-loadscope-reorder", "--max-worker-restart", "0"),
            ],
            env=environment,
            check=False,
        )
        seconds = monotonic() - began
        suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    return {
        "commit": commit(),
        "exit_status": run.returncode,
        "tests": int(suite.attrib["tests"]),
        "failed": failed(suite),
        "skipped": int(suite.attrib["skipped"]),
        "seconds": round(seconds),
    }


def failed(suite: ET.Element) -> list[str]:
    """Return the tests of a report that failed."""
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def commit() -> str:
    """Return the commit that the files are of, marked if they have changes beside results."""
    name = ["git", "rev-parse", "--short", "HEAD"]
    told = subprocess.run(name, capture_output=True, text=True, check=True).stdout.strip()
    changes = ["git", "diff", "--quiet", "HEAD", "--", ".", ":!bench/results"]
    return told + "-changed" * subprocess.run(changes, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
