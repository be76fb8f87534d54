"""A Java group that changes its master twice, and parts: what its replicas say and get on the way.

::

    epochs of a    1 ──── 5 ──────┬── tail that b never got      (a is killed)
    epochs of b                   └── 6 ────────                 (a comes back, and cuts its tail)

``python -m tests.interop.epoch_scenario`` records the bytes of both connections, and the epoch
files that Java wrote, into ``tests/golden/epoch_stream.json``.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from orbitmq.replication.epochs import EPOCH_FILE, EpochHistory
from orbitmq.wire.codes import ResponseCode
from tests.broker.exchanges import send_header
from tests.golden_files import GOLDEN
from tests.interop.java_cluster import JavaBroker
from tests.interop.java_elected import NAME, JavaElected, ha_address, name_ha_port
from tests.interop.tunnel import Tunnel
from tests.interop.waiting import until

TOPIC = "orders"
FILE = GOLDEN / "epoch_stream.json"


@dataclass
class Scenario:
    """The group, and what was recorded. The steps come in the order in which they stand here."""

    directory: Path
    a: JavaBroker = field(init=False)
    b: JavaBroker = field(init=False)
    recorded: list[dict[str, str]] = field(init=False, default_factory=list)
    _sent: int = field(init=False, default=0)

    @contextlib.contextmanager
    def two_epochs(self) -> Iterator[None]:
        """Broker a has led twice, and leads."""
        with JavaElected("5.4.0", self.directory) as group:
            self.group = group
            self.a, self.b = group.broker("a"), group.broker("b")
            with self.a, self.b_when_started():
                self.a.create_topic(TOPIC, queues=1)
                self.send(self.a, 6)
                self.a.kill()
                self.a.start()
                self.lead(self.a)
                self.send(self.a, 5)
                yield

    @contextlib.contextmanager
    def b_when_started(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.b.kill()

    @contextlib.contextmanager
    def parted(self) -> Iterator[None]:
        """Broker b follows a, until what a says is held back; then a gets more, and dies at last.

        As long as the connection is there, b is in sync for the controller.
        """
        with Tunnel(ha_address(self.a)) as way:
            name_ha_port(self.a, way.at.port)
            self.b.start()
            self.send(self.a, 3)
            until(lambda: log_of(self.b) == log_of(self.a), what="b follows a")
            until(lambda: len(way.told) == 1 and is_idle(way), what="a heartbeat was sent")
            way.hold()
            self.record(way)
            self.send(self.a, 2)
            yield
            self.a.kill()

    def change_masters(self) -> None:
        """Broker b leads."""
        self.lead(self.b)
        self.send(self.b, 3)

    def come_back(self) -> None:
        """Broker a follows b."""
        with Tunnel(ha_address(self.b)) as way:
            name_ha_port(self.b, way.at.port)
            self.a.start()
            until(lambda: log_of(self.a) == log_of(self.b), what="a follows b")
            until(lambda: is_idle(way), what="a heartbeat was sent")
            self.record(way)

    def lead(self, broker: JavaBroker) -> None:
        """Return when a broker takes messages as the master."""
        address = str(broker.address)
        until(
            lambda: self.group.nameserver.brokers().get(NAME, {}).get(0) == address,
            what=f"{broker!r} leads",
            seconds=60,
        )
        until(lambda: self._is_sent(broker), what=f"{broker!r} takes messages", seconds=60)

    def send(self, broker: JavaBroker, count: int) -> None:
        """Have a master store messages."""
        for _ in range(count):
            assert self._is_sent(broker)

    def _is_sent(self, broker: JavaBroker) -> bool:
        body = b"%02d" % self._sent * 40
        with broker.connect() as connection:
            is_sent = connection.request(send_header(TOPIC), body).code == ResponseCode.SUCCESS
        self._sent += is_sent
        return is_sent

    def record(self, way: Tunnel) -> None:
        """Keep what was said on a connection of a replica, and the epochs that it has now."""
        replica = self.a if self.recorded else self.b
        self.recorded.append(
            {
                "replica": bytes(way.heard[0]).hex(),
                "primary": bytes(way.told[0]).hex(),
                "epoch_file": epoch_file(replica),
            }
        )


def is_idle(way: Tunnel) -> bool:
    """Tell whether the last that a primary said is a heartbeat: state, then 0 bytes."""
    return bytes(way.told[0][-36:-28]) == bytes.fromhex("00000002 00000000")


def log_of(broker: JavaBroker) -> bytes:
    """Return the log of a broker, which has one file at most."""
    files = sorted((broker.directory / "store" / "commitlog").glob("0*"))
    return files[0].read_bytes().rstrip(b"\0") if files else b""


def epoch_file(broker: JavaBroker) -> str:
    return (broker.directory / "store" / EPOCH_FILE).read_text()


def epochs_of(broker: JavaBroker) -> EpochHistory:
    return EpochHistory.decode(epoch_file(broker).encode())


def main() -> None:
    """Record anew."""
    with TemporaryDirectory() as directory:
        scenario = Scenario(Path(directory))
        with scenario.two_epochs():
            with scenario.parted():
                pass
            scenario.change_masters()
            scenario.come_back()
            FILE.write_text(json.dumps(scenario.recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
