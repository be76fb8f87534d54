"""Causes planted in real servers are found."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orbitmq.blocking import Admin, Consumer, Producer
from orbitmq.cli.doctor.command import diagnosed
from orbitmq.cli.doctor.findings import Finding, Level
from orbitmq.cli.doctor.gather import gather, skew_ms
from orbitmq.cli.main import main
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.embedded import start
from orbitmq.message.model import Message, MessageQueue
from orbitmq.testing.broker import start as start_under_test
from tests.interop.waiting import until
from tests.net.conftest import Certificates

STRICT = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}


def findings(
    nameserver: str, *, topic: str = "", group: str = "", **settings: object
) -> list[Finding]:
    """Return what is wrong, but for what the defaults of brokers risk."""
    client = ClientSettings(nameserver=nameserver, keep_open_ms=0, **settings)  # type: ignore[arg-type]
    work = gather(client, SystemClock(), topic=topic or None, group=group or None, max_lag=5)
    found: Sequence[Finding] = diagnosed(asyncio.run(work))[0]
    return [one for one in found if one.check != "automatic creation"]


def checks(nameserver: str, **asked: str) -> set[str]:
    return {one.check for one in findings(nameserver, **asked)}


@contextlib.contextmanager
def a_free_pair() -> Iterator[int]:
    """Yield a port that is free; the one two below is taken, and accepts nothing."""
    for port in range(21_000, 31_000):
        with socket.socket() as below, socket.socket() as above:
            try:
                below.bind(("127.0.0.1", port - 2))
                above.bind(("127.0.0.1", port))
            except OSError:
                continue
            above.close()
            yield port
            return
    raise AssertionError("no port is free")


def test_a_sound_cluster() -> None:
    with start(settings=STRICT) as cluster:
        assert findings(cluster.nameserver) == []


def test_defaults_create_what_is_misspelled() -> None:
    with start() as cluster:
        client = ClientSettings(nameserver=cluster.nameserver, keep_open_ms=0)
        found, _ = diagnosed(asyncio.run(gather(client, SystemClock())))
        assert [one.check for one in found] == ["automatic creation"]
        assert found[0].level is Level.NOTE


def test_a_silent_nameserver() -> None:
    with start() as cluster:
        (found,) = findings(f"{cluster.nameserver};127.0.0.1:1")
        assert found.says.startswith("nameserver 127.0.0.1:1 does not answer: ")


def test_the_port_of_a_broker_given_as_a_nameserver() -> None:
    with start() as cluster:
        (found,) = findings(cluster.brokers[0])
        wrong = "does not answer: it looks like a broker, not a nameserver"
        assert found.says == f"nameserver {cluster.brokers[0]} {wrong}"


def test_brokers_that_lack_a_nameserver_of_the_client() -> None:
    with start() as one, start() as other, Admin(nameserver=one.nameserver) as admin:
        admin.create_topic("orders")
        both = f"{one.nameserver};{other.nameserver}"
        found = findings(both, topic="orders")
        assert {one.check for one in found} == {"registration", "route"}
        assert sum(one.check == "registration" for one in found) == 2
        assert f"Its namesrvAddr is {one.nameserver}." in "".join(one.says for one in found)


def test_an_advertised_address_that_nobody_listens_on() -> None:
    with start(settings={"brokerIP1": "127.0.0.99"}) as cluster:
        (found,) = findings(cluster.nameserver)
        assert found.check == "ports"
        assert "127.0.0.99" in found.says
        assert "Connection refused" in found.says


def test_a_vip_port_that_is_taken() -> None:
    with a_free_pair() as port, start(settings={"listenPort": str(port)}) as cluster:
        (found,) = findings(cluster.nameserver)
        assert found.check == "VIP ports"
        assert f"port {port - 2} of broker broker-a/0" in found.says


def test_a_broker_that_wants_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    tls = {"tls.server.mode": "enforcing", "tls.server.certPath": str(certificates.server)}
    with start(settings=tls) as cluster:
        (found,) = findings(cluster.nameserver)
        assert found.check == "TLS"
        assert "wants TLS" in found.says


def test_a_clock_that_is_ahead() -> None:
    with start_under_test() as broker:
        broker.advance(3_600)
        (found,) = findings(broker.nameserver)
        assert found.check == "clocks"
        assert "s ahead of that of this machine" in found.says


@pytest.mark.parametrize(("permission", "what"), [("4", "written to"), ("2", "read from")])
def test_a_broker_without_a_permission(permission: str, what: str) -> None:
    with start(settings={"brokerPermission": permission}) as cluster:
        found = findings(cluster.nameserver)
        assert [(one.check, f"may not be {what}" in one.says) for one in found] == [
            ("broker permissions", True)
        ]


def test_a_sync_master_without_the_slave_that_it_waits_for() -> None:
    with start(settings=STRICT | {"brokerRole": "SYNC_MASTER"}) as cluster:
        (one,) = findings(cluster.nameserver)
        assert (one.check, one.level) == ("slaves", Level.PROBLEM)
        assert one.run is not None
        change = one.run.split()
        assert change[:5] == ["orbitmq", "broker", "config", "set", "inSyncReplicas=1"]
        assert main([*change[1:], "--nameserver", cluster.nameserver]) == 0
        assert findings(cluster.nameserver) == []


def test_a_topic_that_is_not_there() -> None:
    with start(settings=STRICT) as cluster:
        (found,) = findings(cluster.nameserver, topic="ordres")
        assert found.says == "topic ordres does not exist."


def test_a_topic_with_queues_that_nobody_reads_and_no_writes() -> None:
    with start() as cluster, Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic("orders", queues=2)
        admin.update_topic("orders", write_queues=3)
        assert checks(cluster.nameserver, topic="orders") == {"queues"}
        admin.update_topic("orders", write_queues=2, perm=4)
        assert checks(cluster.nameserver, topic="orders") == {"topic permissions"}
        admin.update_topic("orders", perm=6)
        admin.wipe_write_perm("broker-a")
        (found,) = findings(cluster.nameserver, topic="orders")
        assert found.run == "orbitmq broker allow-writes broker-a"
        admin.add_write_perm("broker-a")
        assert findings(cluster.nameserver, topic="orders") == []


def test_a_group_from_nothing_to_dead_letters() -> None:
    with start(settings=STRICT, brokers=2) as cluster:
        nameserver, asked = cluster.nameserver, {"topic": "orders", "group": "billing"}
        with Admin(nameserver=nameserver) as admin:
            admin.create_topic("orders", queues=1, on="DefaultCluster")
            assert checks(nameserver, **asked) == {"group"}
            admin.create_group("billing", on="broker-a")
            assert checks(nameserver, **asked) == {"group", "members"}
            admin.create_group("billing", consume_enable=False)
            assert checks(nameserver, **asked) == {"group", "members"}
            admin.update_group("billing", consume_enable=True)
            assert checks(nameserver, **asked) == {"members"}
            admin.create_topic("%DLQ%billing", queues=1, on="broker-a")
            _send(nameserver, "%DLQ%billing", 1)
            assert checks(nameserver, **asked) == {"members", "dead letters"}


def _send(nameserver: str, topic: str, count: int) -> None:

    with Producer("fillers", nameserver=nameserver) as producer:
        for _ in range(count):
            producer.send(Message(topic, b"x"))


def test_lag_and_members() -> None:
    with start(settings={"autoCreateTopicEnable": "false"}) as cluster:
        nameserver, asked = cluster.nameserver, {"topic": "orders", "group": "billing"}
        with Admin(nameserver=nameserver) as admin:
            admin.create_topic("orders", queues=1, on="broker-a")
            admin.create_topic("bills", queues=1, on="broker-a")
            admin.create_group("billing")
            _send(nameserver, "orders", 8)
            admin.set_offset("billing", MessageQueue("orders", "broker-a", 0), 1)
            assert checks(nameserver, **asked) == {"members", "lag"}
            with (
                Consumer("billing", nameserver=nameserver, subscribe={"orders": "*"}),
                Consumer("billing", nameserver=nameserver, subscribe={"orders": "paid"}),
            ):
                until(
                    lambda: len(admin.consumer_connections("billing").clients) == 2,
                    what="both consumers are known",
                )
                found = findings(nameserver, **asked)
                assert {"members", "subscriptions"} <= {one.check for one in found}
                assert "2 consumers for 1 queue" in "".join(one.says for one in found)
            with Consumer("billing", nameserver=nameserver, subscribe={"bills": "*"}):
                until(lambda: _is_member(admin), what="the consumer is known")
                says = [one.says for one in findings(nameserver, **asked)]
                assert any(
                    "does not subscribe to topic orders, but to bills" in one for one in says
                )


def _is_member(admin: Admin) -> bool:
    return "billing" in admin.topic_groups("bills")


def test_a_clock_is_read_between_question_and_answer() -> None:
    assert skew_ms(said_ms=9_000, asked_ms=9_999, answered_ms=10_050) == 0
    assert skew_ms(said_ms=13_000, asked_ms=9_999, answered_ms=10_050) == 2_950
