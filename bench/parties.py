"""The two brokers under comparison, each in its own process: orbitmq's and Java's.

Both use their default file sizes and sync in the background, unless ``settings`` says otherwise, by
RocketMQ's names. Java's uses the garbage collector of RocketMQ's start script, with a heap of one
gigabyte instead of eight.
"""

import contextlib
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import ClassVar, Final, Self

from bench.load import KILOBYTE, Target, send_header
from orbitmq.errors import NetworkError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from tests.interop.java_cluster import JavaBroker, JavaNameserver
from tests.interop.java_server import MODULES_OPENED, PATIENT, free_port
from tests.interop.waiting import until

__all__ = [
    "JAVA",
    "JAVA_VERSION",
    "OURS",
    "PARTIES",
    "Java",
    "Ours",
    "Party",
    "Settings",
    "TunedBroker",
    "both",
    "stores",
]

JAVA_VERSION: Final = "5.4.0"
OURS: Final = "orbitmq"
JAVA: Final = "Java"
Settings = Mapping[str, str | int]
_FIRST_TOPIC: Final = "first"
_START_S: Final = 120


class Party(ABC):
    """A broker with a nameserver; in a ``with`` statement it runs, and at the end it is killed."""

    ready_ms: float
    """From the start of the broker's process to the response to a first send."""
    store: Path
    """The directory of the broker's files."""

    @property
    @abstractmethod
    def address(self) -> Address:
        """Where the broker serves."""

    @property
    @abstractmethod
    def nameserver(self) -> Address:
        """Where its nameserver serves."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process of the broker."""

    @abstractmethod
    def start(self) -> None:
        """Start the broker, on its files if it ran before; return when it stores a message."""

    @abstractmethod
    def kill(self) -> None:
        """End the broker at once, as a crash would."""

    def target(self, topic: str) -> Target:
        """Return the broker as a target of loads on a topic."""
        return Target(self.address, self.pid, topic)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()  # an orderly stop would sync ten thousand files


class Ours(Party):
    """``orbitmq up``, with the nameserver in the same process.

    Args:
        directory: where its files go; it is created.
        settings: beyond the defaults.
        program: the command that starts orbitmq.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings | None = None,
        program: tuple[str, ...] = ("-m", "orbitmq"),
    ) -> None:
        self._address = Address("127.0.0.1", free_port(below=2))
        self._nameserver = Address("127.0.0.1", free_port())
        self._directory = directory
        self.store = directory / "store"
        self._command = [sys.executable, *program, "up", "--no-dashboard"]
        self._command += ["--nameserver-port", str(self._nameserver.port)]
        self._command += ["--broker-port", str(self._address.port)]
        self._command += ["--store", str(self.store)]
        for key, value in (settings or {}).items():
            self._command += ["--set", f"{key}={value}"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> Address:
        return self._address

    @property
    def nameserver(self) -> Address:
        return self._nameserver

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        began = perf_counter()
        with (self._directory / "output.log").open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        until(self._serves, what="orbitmq stores a message", seconds=_START_S)
        self.ready_ms = (perf_counter() - began) * 1000

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _serves(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = self._directory / "output.log"
            status = f"orbitmq ended with status {self._process.returncode} while it started"
            raise RuntimeError(f"{status}: {log.read_text(errors='replace')[-2_000:]}")
        return stores(self._address)


class TunedBroker(JavaBroker):
    """Java's broker with production options; it is ready when it stores a message."""

    jvm_options: ClassVar[tuple[str, ...]] = (
        *("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m"),
        *("-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30"),
        *MODULES_OPENED,
    )

    def _is_ready(self) -> bool:
        return stores(self.address)


class Java(Party):
    """Java's broker, and its nameserver in another process."""

    DEFAULT_SIZES: ClassVar[Settings] = {  # tests use small ones
        "mappedFileSizeCommitLog": 1024**3,
        "mappedFileSizeConsumeQueue": 300_000 * 20,
        "maxHashSlotNum": 5_000_000,
        "maxIndexNum": 5_000_000 * 4,
        "timerWheelEnable": "true",
    }

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        self.store = directory / "broker" / "store"
        self._nameserver = JavaNameserver(JAVA_VERSION, directory / "nameserver")
        self._broker = TunedBroker(
            JAVA_VERSION,
            directory / "broker",
            nameserver=self._nameserver.address,
            settings={**self.DEFAULT_SIZES, **(settings or {})},
        )

    @property
    def address(self) -> Address:
        return self._broker.address

    @property
    def nameserver(self) -> Address:
        return self._nameserver.address

    @property
    def pid(self) -> int:
        return self._broker.pid

    def start(self) -> None:
        if not self._nameserver.is_running:
            self._nameserver.start()
        began = perf_counter()
        self._broker.start()
        self.ready_ms = (perf_counter() - began) * 1000

    def kill(self) -> None:
        self._broker.kill()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._broker.kill()
        self._nameserver.kill()


PARTIES: Final[Mapping[str, Callable[..., Party]]] = {OURS: Ours, JAVA: Java}


@contextlib.contextmanager
def both(directory: Path, settings: Settings | None = None) -> Iterator[dict[str, Party]]:
    """Run both brokers with the same settings."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(party(directory / name, settings))
            for name, party in PARTIES.items()
        }


def stores(address: Address) -> bool:
    """Return whether a broker stores a message; it creates the topic."""
    try:
        with BlockingConnection(address, settings=PATIENT) as connection:
            answer = connection.request(send_header(_FIRST_TOPIC, 0, 0), KILOBYTE)
    except NetworkError:
        return False
    return answer.code == ResponseCode.SUCCESS
