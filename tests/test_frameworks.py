"""docs/frameworks.md: its programs, under the servers and tools that they are written for."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path

import pytest

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.embedded import RunningCluster
from orbitmq.message.ids import parse_unique_id
from tests.architecture.documents import Document
from tests.architecture.sources import ROOT
from tests.interop.waiting import until

BLOCKS = Document("", (ROOT / "docs/frameworks.md").read_text()).blocks
PROGRAMS = {
    name[1]: block.text for block in BLOCKS if (name := re.match(r"# (\S+\.py)\n", block.text))
}
CELL = next(block.text for block in BLOCKS if block.text.startswith("# in a cell"))
WORKER = (
    *("-m", "celery", "--app=tasks", "worker", "--loglevel=INFO"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
)
PID_BITS = 0xFFFF  # what a message id has of the number of its process


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with embedded.start() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with the programs of the page, and the queue of Celery's tasks."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data_in").mkdir()  # Celery's names for where its file transport reads and writes
    (tmp_path / "data_out").symlink_to("data_in")
    return tmp_path


def environment(place: Path, cluster: RunningCluster) -> Mapping[str, str]:
    return {
        **os.environ,
        "HOME": str(place),
        "NAMESRV_ADDR": cluster.nameserver,
        "CELERY_BROKER_URL": "filesystem://",
    }


class Program:
    """A running program and what it has printed."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    def printed(self, pattern: str, times: int = 1) -> list[str]:
        """Wait until it has printed this so many times; return the group of each."""

        def look() -> list[str] | None:
            has_ended = self.process.poll() is not None
            text = self._log.read_text()
            found: list[str] = re.findall(pattern, text)
            assert len(found) >= times or not has_ended, text
            return found if len(found) >= times else None

        return until(look, what=f"{pattern} of {self.process.args!r}")

    def stop(self) -> str:
        """Let SIGTERM end it; return all it printed."""
        self.process.terminate()
        self.process.wait(timeout=60)
        return self._log.read_text()


@contextlib.contextmanager
def running(place: Path, cluster: RunningCluster, *arguments: str) -> Iterator[Program]:
    """Run a program and its children; end them all by SIGKILL: Celery takes 5 s to stop."""
    log = place / f"{arguments[-1]}.log"
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [sys.executable, "-u", *arguments],
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=place,
            env=environment(place, cluster),
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Program(process, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def requested(address: str, method: str, path: str) -> str:
    connection = HTTPConnection(address, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        assert response.status == 200
        return response.read().decode()


def ids_in(cluster: RunningCluster, topic: str = "orders") -> set[str]:
    return {one.message_id for one in cluster.messages(topic)}


@pytest.mark.parametrize("way", ["--preload --threads=4", "--worker-class=sync"])
def test_both_workers_of_gunicorn_send(way: str, place: Path, cluster: RunningCluster) -> None:
    listen = "--workers=2 --bind=127.0.0.1:0"
    with running(place, cluster, "-m", "gunicorn", *listen.split(), *way.split(), "app") as server:
        (address,) = server.printed(r"Listening at: http://(\S+)")
        workers = {int(pid) & PID_BITS for pid in server.printed(r"worker with pid: (\d+)", 2)}
        sent: dict[int, str] = {}

        def both_have_sent() -> bool:
            message_id = requested(address, "GET", "/")
            sent[parse_unique_id(message_id).pid] = message_id
            return len(sent) == 2

        until(both_have_sent, what="a message of each worker")
        assert sent.keys() == workers
        assert {*sent.values()} <= ids_in(cluster)
        assert "Traceback" not in server.stop()
        assert server.process.returncode == 0


def test_an_application_of_fastapi_sends(place: Path, cluster: RunningCluster) -> None:
    with running(place, cluster, "-m", "uvicorn", "--port=0", "main:app") as server:
        (address,) = server.printed(r"running on http://(\S+)")
        said = literal_eval(requested(address, "POST", "/orders/o-42"))
        (message,) = cluster.messages("orders")
        assert said == {"id": message.message_id}
        assert message.keys == ("o-42",)
        ended = server.stop()
        assert "Application shutdown complete" in ended
        assert "Traceback" not in ended


def test_a_task_in_a_forked_worker_of_celery_sends(place: Path, cluster: RunningCluster) -> None:
    """Also if the parent has sent before: the thread of its loop is not there in the child."""
    (place / "warm.py").write_text("""
import os

from celery.signals import worker_process_shutdown

import tasks
from orbitmq import Message
from orbitmq.blocking import Producer

producer = Producer("parent")
producer.start()
producer.send(Message("boots", b"booted"))


@worker_process_shutdown.connect
def tell(**_):
    os.write(2, f"at last {tasks.producer}\\n".encode())
""")
    with Producer("carts", nameserver=cluster.nameserver) as producer:
        producer.send(Message("carts", b"full", keys=["o-42"]))
    options = "--pool=prefork --concurrency=2 --max-tasks-per-child=1 --include=warm"
    with (
        running(place, cluster, *WORKER, *options.split()) as worker,
        running(place, cluster, "start_tasks.py"),
    ):
        (message_id,) = worker.printed(r"ForkPoolWorker.* succeeded in .* '(\w+)'")
        (message,) = cluster.messages("orders")
        assert (message.message_id, message.keys) == (message_id, ("o-42",))
        assert parse_unique_id(message_id).pid != worker.process.pid & PID_BITS
        assert len(cluster.messages("boots")) == 1
        assert worker.printed("at last (.*)") == ["<blocking Producer shop closed>"]


def test_a_task_sends_where_celery_does_not_fork(place: Path, cluster: RunningCluster) -> None:
    program = PROGRAMS["tasks.py"].replace("worker_process_", "worker_")
    assert program != PROGRAMS["tasks.py"]
    (place / "tasks.py").write_text(program + 'pay.delay("o-42")\n')
    with running(place, cluster, *WORKER, "--pool=threads") as worker:
        (message_id,) = worker.printed(r"succeeded in .* '(\w+)'")
        assert message_id in ids_in(cluster)


def test_processes_of_a_pool_send(place: Path, cluster: RunningCluster) -> None:
    with running(place, cluster, "pool.py") as program:
        (printed,) = program.printed(r"\[.*\]")
        assert {*literal_eval(printed)} == ids_in(cluster)
        assert program.process.wait(timeout=60) == 0


def test_a_cell_of_a_notebook_sends_and_a_blocking_call_is_refused(
    place: Path, cluster: RunningCluster
) -> None:
    """Compile a cell as notebooks do, with await at the top level, and run it on a loop."""
    (place / "notebook.py").write_text(f"""
import ast, asyncio
from orbitmq import blocking, errors

async def notebook():
    names = {{}}
    await eval(compile({CELL!r}, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    try:
        blocking.Producer("shop", nameserver=names["cluster"].nameserver).start()
    except errors.WrongLoop:
        print("refused")
    names["cluster"].close()

asyncio.run(notebook())
""")
    with running(place, cluster, "notebook.py") as program:
        assert program.process.wait(timeout=60) == 0
        assert program.printed(r"(?s).*") == ["SEND_OK\nrefused\n", ""]


def test_a_consumer_is_a_program_that_sigterm_ends(place: Path, cluster: RunningCluster) -> None:
    with Producer("shop", nameserver=cluster.nameserver) as producer:
        producer.send(Message("orders", b"paid", keys=["o-42"]))
    with running(place, cluster, "consume.py") as program:
        assert program.printed("billed .*") == ["billed ('o-42',)"]
        program.stop()
        assert program.process.returncode == 0


def test_a_producer_made_before_a_fork_is_started_after_it() -> None:
    """The first rule of docs/frameworks.md, which all others rest on."""
    program = """
import os
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.errors import WrongProcess

producer = Producer("shop")

def in_child(work):
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
    except WrongProcess:
        os._exit(7)
    os._exit(0)

def worker():
    producer.start()
    producer.send(Message("orders", b"paid"))
    producer.close()

print([in_child(worker) for _ in range(2)])
producer.start()
print(in_child(lambda: producer.send(Message("orders", b"paid"))))
producer.send(Message("orders", b"shipped"))
producer.close()
"""
    with embedded.start() as cluster:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NAMESRV_ADDR": cluster.nameserver},
        )
        assert ran.stdout == "[0, 0]\n7\n"
        bodies = sorted(one.body for one in cluster.messages("orders"))
        assert bodies == [b"paid", b"paid", b"shipped"]
