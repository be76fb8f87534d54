"""The full numbers: ``make soak``.

Runs the whole suite with twenty times the random cases and with all real counterparts, which must
be installed, and writes the result to ``bench/results/soak.json``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree as ET

from bench.measure import machine, write

# Per test: with twenty times the cases a single test may take long.
TIMEOUT_S = 1800


def main() -> int:
    """Run the suite; return its exit status."""
    environment = os.environ | {"ORBITMQ_SOAK": "1", "ORBITMQ_INTEROP": "require"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        began = monotonic()
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "tests"),
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
    result = {
        "machine": machine(),
        "exit_status": run.returncode,
        "tests": int(suite.attrib["tests"]),
        "failures": int(suite.attrib["failures"]) + int(suite.attrib["errors"]),
        "skipped": int(suite.attrib["skipped"]),
        "seconds": round(seconds),
    }
    write("soak", result)
    return run.returncode


if __name__ == "__main__":
    raise SystemExit(main())
