"""A Java team on a cluster, of ours or Java's: its producers, its consumers and its admin tool."""

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.admin import CreateTopic
from tests.interop.clients import (
    Consumer,
    Producer,
    TransactionProducer,
    consuming,
    in_transactions,
    producing,
)
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import PATIENT
from tests.interop.operations import MQADMIN, ConsumerOptions, Kind, ProducerOptions

READ_WRITE = 6
_topics = itertools.count(1)


@dataclass(frozen=True)
class Team:
    """Java clients of one version, and the cluster that they use."""

    java: Java
    nameserver: str
    """One address, or several with semicolons between them."""
    brokers: Sequence[str]
    poll_routes_ms: int = 500
    """How soon clients hear of a new topic or broker; Java's own is half a minute."""

    @classmethod
    def on_java(cls, java: Java, cluster: JavaCluster) -> Self:
        """Return a team on servers of Java."""
        return cls(java, str(cluster.nameserver.address), [str(cluster.broker.address)])

    def topic(self, purpose: str, *, queues: int = 4, attributes: str = "") -> str:
        """Create a topic that no other test has, on every broker, and return its name."""
        topic = f"{purpose}-{next(_topics)}"
        for broker in self.brokers:
            create_topic(Address.parse(broker), topic, queues=queues, attributes=attributes)
        return topic

    def producer(
        self,
        *,
        group: str = "senders",
        vip: bool = False,
        compression: str | None = None,
        compress_over: int = 4096,
        message_bytes_max: int = 4 * 1024 * 1024,
        timeout_ms: int = 10_000,
        trace: bool = False,
    ) -> AbstractContextManager[Producer]:
        """Run a producer."""
        options = ProducerOptions(
            nameserver=self.nameserver,
            group=group,
            vip=vip,
            compression=compression,
            compress_over=compress_over,
            message_bytes_max=message_bytes_max,
            timeout_ms=timeout_ms,
            poll_routes_ms=self.poll_routes_ms,
            trace=trace,
        )
        return producing(self.java, options)

    def transactions(self, group: str) -> AbstractContextManager[TransactionProducer]:
        """Run a transactional producer."""
        options = ProducerOptions(
            nameserver=self.nameserver, group=group, poll_routes_ms=self.poll_routes_ms
        )
        return in_transactions(self.java, options)

    def consumer(
        self,
        topic: str,
        expression: str = "*",
        *,
        sql: bool = False,
        group: str = "",
        kind: Kind = "concurrent",
        broadcasting: bool = False,
        instance_name: str = "",
        refusals: int = 0,
        max_reconsume_times: int = -1,
        client_rebalance: bool = True,
    ) -> AbstractContextManager[Consumer]:
        """Run a consumer, of a group named for the topic unless another is said."""
        options = ConsumerOptions(
            nameserver=self.nameserver,
            group=group or group_of(topic),
            topic=topic,
            expression=expression,
            sql=sql,
            kind=kind,
            broadcasting=broadcasting,
            instance_name=instance_name,
            refusals=refusals,
            max_reconsume_times=max_reconsume_times,
            client_rebalance=client_rebalance,
            poll_routes_ms=self.poll_routes_ms,
        )
        return consuming(self.java, options)

    def mqadmin(self, *arguments: str) -> str:
        """Run one command of Java's admin tool and return what it printed."""
        (printed,) = self.java.ask(MQADMIN, [[*arguments, "-n", self.nameserver]])
        return printed


def group_of(topic: str) -> str:
    """Return the group that reads a topic unless another is said."""
    return f"readers-of-{topic}".replace("%", "_")


def create_topic(broker: Address, topic: str, *, queues: int, attributes: str = "") -> None:
    """Create a topic on a broker; when it answers, nameservers know of it."""
    wanted = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=READ_WRITE,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        attributes=attributes or None,
    )
    with BlockingConnection(broker, settings=PATIENT) as connection:
        answer = connection.request(wanted)
    assert answer.code == ResponseCode.SUCCESS, answer
