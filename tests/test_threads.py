import threading

import pytest

from orbitmq.threads import ThreadWorkers, Workers, start_thread


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


def test_a_failure_reaches_whoever_asks_for_the_result() -> None:
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
