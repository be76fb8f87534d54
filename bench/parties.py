"""The two brokers under comparison, each in its own process: orbitmq's and Java's.

Both use their default file sizes and sync in the background. Java's uses the garbage collector of
RocketMQ's start script, with a heap of one gigabyte instead of eight.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final

from bench.load import KILOBYTE, send_header
from orbitmq.errors import NetworkError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from tests.interop.java_cluster import JavaBroker, JavaNameserver
from tests.interop.java_server import MODULES_OPENED, PATIENT, free_port
from tests.interop.waiting import until

__all__ = ["JAVA", "JAVA_VERSION", "OURS", "PARTIES", "Party"]

JAVA_VERSION: Final = "5.4.0"
_FIRST_TOPIC: Final = "first"


class Party:
    """A running broker, and how long its start took."""

    def __init__(self, address: Address, nameserver: Address, pid: int, ready_ms: float) -> None:
        self.address = address
        self.nameserver = nameserver
        self.pid = pid
        self.ready_ms = ready_ms


@contextlib.contextmanager
def ours(directory: Path) -> Iterator[Party]:
    """Run ``orbitmq up``, nameserver included."""
    address = Address("127.0.0.1", free_port(below=2))
    nameserver = Address("127.0.0.1", free_port())
    command = [sys.executable, "-m", "orbitmq", "up", "--no-dashboard"]
    command += ["--nameserver-port", str(nameserver.port), "--broker-port", str(address.port)]
    command += ["--store", str(directory / "store")]
    directory.mkdir(parents=True)
    began = perf_counter()
    with (
        (directory / "output.log").open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            until(lambda: _serves(process, address), what="orbitmq stores a message")
            yield Party(address, nameserver, process.pid, (perf_counter() - began) * 1000)
        finally:
            process.kill()  # an orderly stop would sync ten thousand files


class _TunedBroker(JavaBroker):
    """Java's broker with production options; it is ready when it stores a message."""

    jvm_options: ClassVar[tuple[str, ...]] = (
        *("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m"),
        *("-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30"),
        *MODULES_OPENED,
    )

    def _is_ready(self) -> bool:
        return _stores(self.address)


@contextlib.contextmanager
def java(directory: Path) -> Iterator[Party]:
    """Run Java's broker, and its nameserver in another process."""
    default_sizes = {
        "mappedFileSizeCommitLog": 1024**3,
        "mappedFileSizeConsumeQueue": 300_000 * 20,
        "maxHashSlotNum": 5_000_000,
        "maxIndexNum": 5_000_000 * 4,
        "timerWheelEnable": True,  # off in tests, which would wait for its large file
    }
    with JavaNameserver(JAVA_VERSION, directory / "nameserver") as nameserver:
        broker = _TunedBroker(
            JAVA_VERSION,
            directory / "broker",
            nameserver=nameserver.address,
            settings=default_sizes,
        )
        began = perf_counter()
        with broker:
            ready_ms = (perf_counter() - began) * 1000
            yield Party(broker.address, nameserver.address, broker.pid, ready_ms)


def _serves(process: "subprocess.Popen[bytes]", address: Address) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"orbitmq ended with status {process.returncode} while it started")
    return _stores(address)


def _stores(address: Address) -> bool:
    """Return whether a broker stores a message; it creates the topic."""
    try:
        with BlockingConnection(address, settings=PATIENT) as connection:
            answer = connection.request(send_header(_FIRST_TOPIC, 0, 0), KILOBYTE)
    except NetworkError:
        return False
    return answer.code == ResponseCode.SUCCESS


OURS: Final = "orbitmq"
JAVA: Final = "Java"
PARTIES: Final = {OURS: ours, JAVA: java}
