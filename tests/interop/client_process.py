"""A client in another language while it runs: it is told what to send, and tells what it got.

Each line between us is one JSON object; the programs in ``node/`` and ``go/`` have the same fields.
A sender gets orders and answers each with a receipt; a consumer tells every delivery. Both end when
we close their input, after they said goodbye to the broker::

    with Sender(GO, nameserver) as sender, Receiver(NODE, nameserver, "orders", "g") as receiver:
        receipts = sender.send([Order("orders", "paid", ("42",), b"...")])
        deliveries = receiver.receive(1)
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from tests.interop.client_packages import OtherClient

LIFE_SECONDS = 120
"""A client that has not ended by then hangs: it is killed, and whoever reads from it is told."""

LOG_TAIL = 2_000
REFUSED_ONCE = "again"
"""A consumer refuses a message with this tag the first time that it gets it."""

Line = TypeVar("Line", bound=msgspec.Struct)


class Order(msgspec.Struct, frozen=True):
    """A message that a client shall send. Its body travels as base64."""

    topic: str
    tags: str
    keys: tuple[str, ...]
    body: bytes


class Receipt(msgspec.Struct, frozen=True):
    """What a client says about a message that it sent."""

    status: str
    unique_id: str
    """Empty if the client leaves it to the broker to make one."""
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: int


class Delivery(msgspec.Struct, frozen=True):
    """A message as a consumer got it."""

    topic: str
    tags: str
    keys: str
    body: bytes
    unique_id: str
    offset_id: str
    queue_id: int
    queue_offset: int
    reconsume_times: int


class ClientFailed(Exception):
    """A client ended before it should have, or hung; the message ends with its last words."""


class ClientProcess:
    """One running client; in a ``with`` statement that ends well, its end must be a good one.

    Args:
        client: which; it must be here, see ``OtherClient.missing``.
        arguments: the role, and what the role takes.

    """

    def __init__(self, client: OtherClient, *arguments: str) -> None:
        # The log goes to a file: a pipe that nobody reads would stop the client once it is full.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._name = f"{client!r} {' '.join(arguments)}"
        self._process = subprocess.Popen(
            [*client.command, *arguments],
            env=os.environ | client.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._watchdog = threading.Timer(LIFE_SECONDS, self._process.kill)
        self._watchdog.start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}, pid {self._process.pid}>"

    def tell(self, line: msgspec.Struct) -> None:
        """Give it a line; ClientFailed if it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("is gone") from None

    def read(self, kind: type[Line]) -> Line:
        """Return its next line; ClientFailed if none comes."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failure("says no more")
        return msgspec.json.decode(line, type=kind, strict=True)

    def end(self) -> None:
        """Have it end; ClientFailed if it had more to say, or did not end well."""
        remaining, _ = self._process.communicate()
        if remaining:
            raise self._failure(f"said more than was asked for: {remaining[:LOG_TAIL]!r}")
        if self._process.returncode != 0:
            raise self._failure("did not end well")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.end()
        finally:
            self._process.kill()
            self._process.communicate()
            self._watchdog.cancel()
            self._log.close()

    def _failure(self, what: str) -> ClientFailed:
        self._process.kill()
        status = self._process.wait()
        self._log.seek(0)
        words = self._log.read()[-LOG_TAIL:].decode(errors="replace")
        return ClientFailed(f"{self._name} {what}, status {status}\n{words}")


class Sender(ClientProcess):
    """A client that sends what it is told to."""

    def __init__(self, client: OtherClient, nameserver: str) -> None:
        super().__init__(client, "send", nameserver)

    def send(self, orders: Iterable[Order]) -> list[Receipt]:
        """Have messages sent, one after the other, and return what it says about each."""
        receipts = []
        for order in orders:
            self.tell(order)
            receipts.append(self.read(Receipt))
        return receipts


class Receiver(ClientProcess):
    """A push consumer; a group that it is the first of begins with the first message."""

    def __init__(
        self, client: OtherClient, nameserver: str, topic: str, group: str, tags: str = "*"
    ) -> None:
        super().__init__(client, "consume", nameserver, topic, group, tags)

    def receive(self, count: int) -> list[Delivery]:
        """Return its next deliveries, when it has had so many."""
        return [self.read(Delivery) for _ in range(count)]
