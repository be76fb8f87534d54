"""The demo is the first thing a newcomer sees: it works, fits a terminal, and doesn't pretend."""

import subprocess
import sys


def test_the_demo_shows_what_there_is_in_eighty_columns() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "orbitmq.demo"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stderr == ""
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("There is no consumer yet" in line for line in lines)
    sent = [line.split()[1] for line in lines if line.startswith("sent ")]
    pulled = [line.split()[1] for line in lines if line.startswith("pulled ")]
    assert sent == pulled
    assert len(pulled) == 3
    assert "REQUEST_CODE_NOT_SUPPORTED" in run.stdout
    assert any(line.startswith("tagged paid: ") for line in lines)
    assert "key o-43 leads to offset 1 of queue 0" in run.stdout
    assert "3 messages of queue 0 of orders are there" in run.stdout
