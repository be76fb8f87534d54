import subprocess
import sys


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "orbitmq", "store", "inspect", "/no/such/directory"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 2
    assert ended.stderr.startswith("orbitmq: ")
    assert ended.stderr.count("\n") == 1
