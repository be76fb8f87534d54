"""Servers of ours that stop, die and come back under Java's running clients.

What a producer was told is stored is there in the end, and consumers go on by themselves.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.interop.clients import Consumer
from tests.interop.java import Java
from tests.interop.operations import Loaded
from tests.interop.our_servers import OurServer, a_broker, a_nameserver, a_small_cluster
from tests.interop.team import Team
from tests.interop.waiting import until

SENDS = 1_000 if os.environ.get("ORBITMQ_SOAK") == "1" else 50
"""How many sends are acknowledged between one event and the next."""

ARRIVE_SECONDS = 60
"""A client of 4.9 whose pull was lost with its connection waits half a minute for the answer."""


@contextlib.contextmanager
def two_of_each(directory: Path) -> Iterator[tuple[list[OurServer], list[OurServer]]]:
    """Run two nameservers, and two brokers that are registered with both."""
    with contextlib.ExitStack() as running:
        nameservers = [
            running.enter_context(a_nameserver(directory / f"nameserver-{number}"))
            for number in range(2)
        ]
        known = ";".join(str(one.address) for one in nameservers)
        brokers = [
            running.enter_context(a_broker(directory / name, nameservers=known, name=name))
            for name in ("broker-a", "broker-b")
        ]
        yield nameservers, brokers


def await_all(consumer: Consumer, load: Loaded) -> None:
    """Return when a consumer has got everything that was acknowledged."""
    expected = {b"%d" % number for number in load.acknowledged}
    try:
        until(
            lambda: expected <= set(consumer.bodies()),
            what="all that was acknowledged arrives",
            seconds=ARRIVE_SECONDS,
        )
    except TimeoutError:
        missing = sorted(expected - set(consumer.bodies()))
        raise AssertionError(
            f"{len(missing)} of {len(expected)} are lost: {missing[:20]}"
        ) from None


def test_a_cluster_restarts_and_dies_under_running_clients(java: Java, tmp_path: Path) -> None:
    cluster, nameserver = a_small_cluster(tmp_path)
    with cluster:
        team = Team(java, str(nameserver), [str(cluster.address)])
        topic = team.topic("restarted")
        with team.producer(timeout_ms=2_000) as producer, team.consumer(topic) as consumer:
            producer.start_load(topic)
            for end in (cluster.stop, cluster.kill):
                producer.until_acknowledged(SENDS)
                end()
                cluster.start()
                producer.until_acknowledged(SENDS)
            await_all(consumer, producer.end_load())


def test_half_a_cluster_dies_and_clients_go_on(
    java_540: Java, java_497: Java, tmp_path: Path
) -> None:
    """A producer of the new line and a consumer of the old one, on two of each server."""
    with two_of_each(tmp_path) as (nameservers, brokers):
        known = ";".join(str(one.address) for one in nameservers)
        new, old = (
            Team(java, known, [str(one.address) for one in brokers])
            for java in (java_540, java_497)
        )
        topic = new.topic("halved")
        with new.producer(timeout_ms=2_000) as producer, old.consumer(topic) as consumer:
            producer.start_load(topic)
            producer.until_acknowledged(SENDS)
            brokers[0].kill()
            producer.until_acknowledged(SENDS)
            nameservers[0].kill()
            producer.until_acknowledged(SENDS)
            brokers[0].start()
            producer.until_acknowledged(SENDS)
            await_all(consumer, producer.end_load())
