import os
import subprocess
import sys

from bench.process_tree import cpu_seconds, peak_mb, process_tree

SPINS = """
import resource, sys
while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def test_children_are_counted_while_they_run_and_when_they_have_ended() -> None:
    before = cpu_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", SPINS, "a mark"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        running = cpu_seconds(os.getpid()) - before
        assert child.pid in {process.pid for process in process_tree(os.getpid())}
        assert (peak_mb(os.getpid(), "a mark") or 0) > 1
        child.communicate()
    ended = cpu_seconds(os.getpid()) - before

    assert 0.25 < running <= ended
    assert peak_mb(os.getpid(), "a mark") is None
