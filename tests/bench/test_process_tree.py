import os
import signal
import subprocess
import sys

from bench.process_tree import CpuWatch, peak_mb, process_tree

SPINS = """
import resource, sys
while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def spinning(mark: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SPINS, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_children_are_counted_while_they_run_and_when_they_have_ended() -> None:
    with CpuWatch(os.getpid()) as ended, spinning("a mark") as child:
        with CpuWatch(os.getpid()) as running:
            assert child.stdout is not None
            assert child.stdout.readline() == "done\n"
            assert child.pid in {process.pid for process in process_tree(os.getpid())}
        assert (peak_mb(os.getpid(), "a mark") or 0) > 1
        ended.look()
        child.communicate()

    assert 0.2 < running.seconds <= ended.seconds + 0.05
    assert peak_mb(os.getpid(), "a mark") is None


def test_a_child_that_nobody_waits_for_is_counted() -> None:
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as in PySpark's daemon
    try:
        with CpuWatch(os.getpid()) as watch, spinning("ignored") as child:
            child.communicate()
    finally:
        signal.signal(signal.SIGCHLD, ignored)

    assert watch.seconds > 0.15  # what it used since it was last seen is lost


def test_what_was_used_before_does_not_count() -> None:
    with spinning("before") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        with CpuWatch(os.getpid()) as watch:
            pass
        child.communicate()

    assert watch.seconds < 0.2
