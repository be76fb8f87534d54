import subprocess
import sys
import threading

import pytest

from orbitmq.threads import DaemonWorkers, ThreadWorkers, Workers, start_thread


def test_work_runs_on_another_thread_of_that_name() -> None:
    with ThreadWorkers(1, name="flush") as workers:
        worker = workers.submit(threading.current_thread).result(timeout=10)
    assert worker is not threading.current_thread()
    assert worker.name.startswith("flush")


def test_as_many_run_at_once_as_there_are_workers() -> None:
    both_arrived = threading.Barrier(2, timeout=10)
    with ThreadWorkers(2, name="pair") as workers:
        meetings = [workers.submit(both_arrived.wait) for _ in range(2)]
        assert sorted(meeting.result(timeout=10) for meeting in meetings) == [0, 1]


def test_an_error_is_raised_by_the_result() -> None:
    with ThreadWorkers(1, name="parse") as workers:
        failed = workers.submit(int, "seven")
        with pytest.raises(ValueError, match="seven"):
            failed.result(timeout=10)


def test_closing_waits_for_what_runs_and_gives_up_the_rest() -> None:
    begun, release = threading.Event(), threading.Event()

    def block() -> str:
        begun.set()
        release.wait(10)
        return "finished"

    workers: Workers = ThreadWorkers(1, name="slow")
    running = workers.submit(block)
    waiting = workers.submit(block)
    begun.wait(10)
    closer = start_thread(workers.close, name="closer", daemon=True)
    while not waiting.cancelled():  # close() cancels before it waits
        threading.Event().wait(0)
    release.set()
    closer.join(10)
    assert running.result(timeout=0) == "finished"
    with pytest.raises(RuntimeError):
        workers.submit(block)


def test_finishing_does_all_that_was_given() -> None:
    workers = ThreadWorkers(1, name="slow")
    given = [workers.submit(int, str(number)) for number in range(10)]
    workers.finish()
    assert [one.result(timeout=0) for one in given] == list(range(10))
    with pytest.raises(RuntimeError):
        workers.submit(int)


EXIT = """
from orbitmq.threads import ThreadWorkers, at_exit
workers = ThreadWorkers(1, name="late")
at_exit(lambda: print(workers.submit(str.upper, "still at work").result()))
print("the end")
"""


def test_what_is_done_at_the_exit_can_still_use_threads() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.splitlines() == ["the end", "STILL AT WORK"]


@pytest.mark.parametrize("daemon", [True, False])
def test_a_started_thread_carries_its_name_and_runs(daemon: bool) -> None:
    seen: list[threading.Thread] = []
    thread = start_thread(
        lambda: seen.append(threading.current_thread()), name="greeter", daemon=daemon
    )
    thread.join(10)
    assert seen == [thread]
    assert (thread.name, thread.daemon) == ("greeter", daemon)


def test_workers_introduce_themselves() -> None:
    with ThreadWorkers(3, name="flush") as workers:
        assert repr(workers) == "<ThreadWorkers 'flush' count=3>"


def test_the_end_of_a_program_does_not_wait_for_daemon_workers() -> None:
    program = (
        "import time\n"
        "from orbitmq.threads import DaemonWorkers\n"
        "workers = DaemonWorkers(2, name='handler')\n"
        "print(workers.submit(sum, [1, 2]).result(), flush=True)\n"
        "workers.submit(time.sleep, 3600)\n"
        "workers.close(wait=False)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"3\n", b"")


def test_daemon_workers_start_threads_as_needed_and_close() -> None:
    workers: Workers = DaemonWorkers(2, name="handler")
    names = {workers.submit(lambda: threading.current_thread().name).result(10) for _ in range(9)}
    assert "handler_0" in names
    both_arrived = threading.Barrier(2, timeout=10)
    meetings = [workers.submit(both_arrived.wait) for _ in range(2)]
    assert sorted(meeting.result(timeout=10) for meeting in meetings) == [0, 1]
    with pytest.raises(ValueError, match="seven"):
        workers.submit(int, "seven").result(timeout=10)
    release, begun = threading.Event(), threading.Barrier(3, timeout=10)
    running = [workers.submit(lambda: begun.wait() >= 0 and release.wait(10)) for _ in range(2)]
    begun.wait()
    dropped = workers.submit(int)
    workers.close(wait=False)
    assert dropped.cancelled()
    release.set()
    workers.close()
    assert [one.result(timeout=10) for one in running] == [True, True]
    with pytest.raises(RuntimeError, match="closed"):
        workers.submit(int)
