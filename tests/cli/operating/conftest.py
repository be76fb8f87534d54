"""A cluster with a topic, its producer and a group, for all commands of operators."""

import contextlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from orbitmq.blocking import Admin, Consumer, Producer
from orbitmq.cli.main import main
from orbitmq.embedded import start
from orbitmq.message.model import Message, MessageQueue
from tests.interop.waiting import until

TOPIC, GROUP = "orders", "billing"
QUEUES = [MessageQueue(TOPIC, "broker-a", number) for number in range(2)]


@dataclass
class Shop:
    """A cluster where ``billing`` has consumed 5 of 8 messages, and ``printed`` runs commands."""

    nameserver: str
    broker: str
    message_id: str
    capsys: pytest.CaptureFixture[str]

    def printed(self, line: str, *, status: int = 0) -> str:
        """Run a command line; return its output if it ends with the expected status."""
        assert self.ended(line) == (status, "")
        return self.output

    def ended(self, line: str) -> tuple[int, str]:
        """Run a command line; return its exit status and what it wrote to stderr."""
        self.capsys.readouterr()
        status = main([*shlex.split(line), "--nameserver", self.nameserver])
        printed = self.capsys.readouterr()
        self.output = printed.out
        widest = max(map(len, printed.out.splitlines()), default=0)
        assert "--json" in line or widest <= 80, printed.out
        return status, printed.err

    def json(self, line: str, *, status: int = 0) -> Any:
        """Run a command line with ``--json``; return what it printed."""
        return json.loads(self.printed(f"{line} --json", status=status))


@dataclass
class _Running:
    nameserver: str
    broker: str
    message_id: str


@pytest.fixture(scope="package")
def shop_cluster() -> Iterator[_Running]:
    with start(settings={"traceTopicEnable": "true"}) as cluster:
        nameserver = cluster.nameserver
        with Admin(nameserver=nameserver) as admin:
            admin.create_topic(TOPIC, queues=2)
            admin.create_group(GROUP, retry_max_times=3)
            with Producer("shop", nameserver=nameserver, trace=True) as producer:
                receipts = [
                    producer.send(
                        Message(TOPIC, b"order", tags="paid", keys=[f"o-{number}"]),
                        queue=QUEUES[number % 2],
                    )
                    for number in range(8)
                ]
            admin.set_offset(GROUP, QUEUES[0], 4)
            admin.set_offset(GROUP, QUEUES[1], 1)
        yield _Running(nameserver, cluster.brokers[0], receipts[0].message_id)


@pytest.fixture
def shop(shop_cluster: _Running, capsys: pytest.CaptureFixture[str]) -> Shop:
    """Return the cluster, in the state that it had at the start."""
    with Admin(nameserver=shop_cluster.nameserver) as admin:
        for queue, offset in zip(QUEUES, (4, 1), strict=True):
            if admin.consumer_offset(GROUP, queue) != offset:
                admin.set_offset(GROUP, queue, offset)
    return Shop(shop_cluster.nameserver, shop_cluster.broker, shop_cluster.message_id, capsys)


@contextlib.contextmanager
def a_member(shop: Shop) -> Iterator[str]:
    """Have a consumer of a group ``watchers``; yield its client id when brokers know it."""
    group = "watchers"
    with Consumer(group, nameserver=shop.nameserver, subscribe={TOPIC: "paid || open"}):
        with Admin(nameserver=shop.nameserver) as admin:
            until(lambda: _is_there(admin, group), what="the broker knows the consumer")
            yield admin.consumer_connections(group).clients[0].client_id


def _is_there(admin: Admin, group: str) -> bool:
    return group in admin.groups() and group in admin.topic_groups(TOPIC)
