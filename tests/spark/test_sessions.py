"""What a kill of a session reaches: also processes that have a group of their own."""

import subprocess
import sys

from tests.spark.sessions import kill_session, members

LEAVES_ITS_GROUP = """
import os, signal
if os.fork() == 0:
    os.setpgid(0, 0)
os.write(1, b"%d\\n" % os.getpid())  # at once: both write to this pipe
signal.pause()
"""


def test_it_reaches_other_groups() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVES_ITS_GROUP],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        try:
            told = {int(process.stdout.readline()) for _ in range(2)}
            assert set(members(process.pid)) == told
        finally:
            kill_session(process.pid)
        assert members(process.pid) == []
    assert process.returncode == -9
