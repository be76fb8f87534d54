"""A broker whose process may open few files: clients can't take those of the store."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from orbitmq.errors import NetworkError
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from tests.broker.exchanges import pull_header, send_header, sent
from tests.interop.java_server import PATIENT, free_port
from tests.interop.waiting import until

LIMIT = 1024
CROWD = 600
LARGE = b"x" * 100_000
BROKER = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from orbitmq.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def a_broker(directory: Path) -> Iterator[tuple[Address, int]]:
    """Run a broker that may have ``LIMIT`` descriptors; yield where it is, and its process."""
    port = free_port(below=2, above=1)
    said = {"listenPort": port, "storePathRootDir": directory, "mappedFileSizeCommitLog": 1 << 20}
    command = [sys.executable, "-c", BROKER, "broker", *(f"--set={k}={v}" for k, v in said.items())]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith(b"ready"), (directory / "log").read_text()
        yield Address("127.0.0.1", port), process.pid
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def a_crowd(address: Address, count: int) -> Iterator[None]:
    """Hold some connections that say nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(address))
        yield


def connected(address: Address) -> BlockingConnection:
    return BlockingConnection(address, settings=PATIENT)


def accepts(address: Address) -> bool:
    try:
        with connected(address) as another:
            return sent(another, "orders", b"another") > 0
    except NetworkError:
        return False


def test_a_crowd_of_connections_leaves_the_store_its_files(tmp_path: Path) -> None:
    with a_broker(tmp_path) as (address, _), connected(address) as ours:
        assert sent(ours, "orders", b"first") == 0
        with a_crowd(address, CROWD):
            for number in range(30):
                assert sent(ours, f"topic-{number}", LARGE) == 0
        until(lambda: accepts(address), what="another connection is served")
    log = (tmp_path / "log").read_text()
    assert 1 <= log.count("which is the limit") <= 10
    assert "too many open files" not in log


def test_a_store_without_descriptors_says_so_and_goes_on(tmp_path: Path) -> None:
    with a_broker(tmp_path) as (address, pid), connected(address) as ours:
        sent(ours, "orders", b"first")
        few = len(os.listdir(f"/proc/{pid}/fd")) + 10
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, LIMIT))
        stored = 1
        with a_crowd(address, 60):
            answer = ours.request(send_header("orders"), LARGE)
            while answer.code == ResponseCode.SUCCESS:
                stored += 1
                answer = ours.request(send_header("orders"), LARGE)
            # For a queue, or a file of the log.
            assert "Too many open files" in (answer.remark or "")
            pulled = ours.request(pull_header("orders", 0))
            if pulled.code == ResponseCode.SUCCESS:  # its queue may have been closed
                assert next(one.body for one in decode_all(pulled.body)) == b"first"
            else:
                assert "Too many open files" in (pulled.remark or "")
        until(
            lambda: ours.request(send_header("orders"), b"more").code == ResponseCode.SUCCESS,
            what="messages are accepted again",
        )
        assert sent(ours, "orders", b"last") >= stored + 1
