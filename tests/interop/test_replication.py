"""Masters and slaves of both kinds: the logs of a pair are equal, also after restarts."""

import os
from pathlib import Path

import pytest

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.settings import NetSettings
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import GetTopicConfig
from tests.broker.exchanges import send_header
from tests.interop.java_cluster import JavaBroker
from tests.interop.our_servers import a_broker, a_nameserver
from tests.interop.waiting import until

PAIR = {
    "brokerClusterName": "pair",
    "brokerName": "pair",
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "slaveReadEnable": "true",
}
SLAVE = {"brokerId": "1", "brokerRole": "SLAVE"}
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
PATIENT = NetSettings(request_timeout_ms=15_000)
TOPIC = "orders"
ENDS = [True, False] if os.environ.get("ORBITMQ_SOAK") == "1" else [True]
"""Whether brokers are killed, or stopped in order."""


def send(address: Address, count: int, *, body: bytes = b"body") -> list[int]:
    with BlockingConnection(address, settings=PATIENT) as connection:
        return [
            connection.request(send_header(TOPIC), body * (1 + number)).code
            for number in range(count)
        ]


def logs(directory: Path) -> dict[str, bytes]:
    """Return the files of a log, without files of zeros made in advance."""
    files = {one.name: one.read_bytes() for one in sorted((directory / "commitlog").iterdir())}
    return {name: data for name, data in files.items() if data.rstrip(b"\0")}


def slaves_in_sync(address: Address) -> list[int]:
    """Return how far each slave of a master is behind."""
    with BlockingConnection(address, settings=PATIENT) as connection:
        answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_HA_STATUS)
    return [one.diff for one in HARuntimeInfo.from_json(answer.body).ha_connection_info]


def knows_topic(address: Address) -> bool:
    with BlockingConnection(address, settings=PATIENT) as connection:
        return connection.request(GetTopicConfig(topic=TOPIC)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("kill", ENDS)
def test_a_java_slave_follows_our_master(tmp_path: Path, *, kill: bool) -> None:
    ours, java = tmp_path / "ours", tmp_path / "java"
    with a_nameserver(tmp_path) as nameserver:
        names = str(nameserver.address)
        master = a_broker(ours, nameservers=names, **{**PAIR, **SYNC})
        slave = JavaBroker("5.4.0", java, nameserver=nameserver.address, settings={**PAIR, **SLAVE})
        with master:
            alone = send(master.address, 1)
            assert alone == [ResponseCode.SLAVE_NOT_AVAILABLE]
            with slave:
                until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows")
                assert set(send(master.address, 60)) == {ResponseCode.SUCCESS}
                assert logs(ours) == logs(java / "store")
                until(lambda: knows_topic(slave.address), what="the slave has the topics")
                if kill:
                    slave.kill()
                else:
                    slave.stop()
                send(master.address, 1)
                assert len(logs(ours)) == 1
                slave.start()
                until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows again")
                body = bytes(range(256)) * 1024
                assert set(send(master.address, 11, body=body)) == {ResponseCode.SUCCESS}
                if kill:
                    master.kill()
                assert len(logs(ours)) == 2
                assert logs(ours) == logs(java / "store")
                if kill:
                    master.start()
                    until(
                        lambda: slaves_in_sync(master.address) == [0], what="the slave comes back"
                    )
                    assert set(send(master.address, 5)) == {ResponseCode.SUCCESS}
                    assert logs(ours) == logs(java / "store")


@pytest.mark.parametrize("kill", ENDS)
def test_our_slave_follows_a_java_master(tmp_path: Path, *, kill: bool) -> None:
    ours, java = tmp_path / "ours", tmp_path / "java"
    with a_nameserver(tmp_path) as nameserver:
        names = str(nameserver.address)
        master = JavaBroker("5.4.0", java, nameserver=nameserver.address, settings={**PAIR, **SYNC})
        slave = a_broker(ours, nameservers=names, **{**PAIR, **SLAVE})
        with master:
            master.create_topic(TOPIC)
            body = bytes(range(256)) * 1024
            send(master.address, 11, body=body)  # two files, before there is a slave
            assert len(logs(java / "store")) == 2
            with slave:
                until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows")
                assert set(send(master.address, 60)) == {ResponseCode.SUCCESS}
                assert logs(ours) == logs(java / "store")
                until(lambda: knows_topic(slave.address), what="the slave has the topics")
                if kill:
                    slave.kill()
                else:
                    slave.stop()
                send(master.address, 1)
                slave.start()
                until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows again")
                assert set(send(master.address, 20)) == {ResponseCode.SUCCESS}
                assert logs(ours) == logs(java / "store")
                if kill:
                    master.kill()
                    master.start()
                    until(
                        lambda: slaves_in_sync(master.address) == [0], what="it follows once more"
                    )
                    assert set(send(master.address, 5)) == {ResponseCode.SUCCESS}
                    assert logs(ours) == logs(java / "store")
