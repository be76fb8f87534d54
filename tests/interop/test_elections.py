"""Brokers that elect their master in a real etcd, as processes, under clients of Java."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from tests.broker.exchanges import send_header
from tests.interop.elected import group_as_told_by, in_sync
from tests.interop.etcd import PASSWORD, Etcd
from tests.interop.java import Java
from tests.interop.java_cluster import brokers_known_to
from tests.interop.our_servers import OurServer, a_broker, a_nameserver
from tests.interop.team import Team
from tests.interop.test_java_restarts import await_all
from tests.interop.test_replication import PATIENT, logs
from tests.interop.waiting import until
from tests.net.conftest import Certificates

ROUNDS = 20 if os.environ.get("ORBITMQ_SOAK") == "1" else 1
SENDS = 500 if os.environ.get("ORBITMQ_SOAK") == "1" else 50
"""How many sends are acknowledged between one event and the next."""

LEASE = {"controllerHeartBeatTimeoutMills": "2000", "brokerHeartbeatInterval": "500"}
NAME = "broker-a"


class Group:
    """Two elected brokers, their nameserver, and the etcd of all."""

    def __init__(self, nameserver: OurServer, etcd: Etcd, brokers: dict[str, OurServer]) -> None:
        self.nameserver = nameserver
        self.etcd = etcd
        self.brokers = brokers
        """By their addresses."""

    def routes(self) -> dict[int, str]:
        """Return the addresses of the brokers by id, as clients learn them."""
        return brokers_known_to(self.nameserver.address).get(NAME, {})

    def master(self, other_than: str = "") -> OurServer:
        """Return the master, when clients find one that takes messages."""
        until(lambda: self.routes().get(0, other_than) != other_than, what="there is a master")
        return self.brokers[self.routes()[0]]

    def other_than(self, broker: OurServer) -> OurServer:
        (other,) = (one for one in self.brokers.values() if one is not broker)
        return other

    def both_in_sync(self) -> None:
        """Return when a send waits for both brokers."""
        until(lambda: self.in_sync() == sorted(self.brokers), what="both are in sync")

    def in_sync(self) -> list[str]:
        """Return the addresses of the brokers that are alive and in sync."""
        return in_sync(group_as_told_by(Address.parse(self.routes()[0]), NAME))


@contextlib.contextmanager
def a_group(directory: Path, etcd: Etcd, **settings: str) -> Iterator[Group]:
    """Run two brokers with elections."""
    with contextlib.ExitStack() as running:
        nameserver = running.enter_context(a_nameserver(directory))
        brokers = {}
        for number in (1, 2):
            broker = a_broker(
                directory / f"store-{number}",
                nameservers=str(nameserver.address),
                name=NAME,
                enableControllerMode="true",
                etcdKeyPrefix=f"/{directory.name}",
                **{**etcd.keys, **LEASE, **settings},
            )
            brokers[str(broker.address)] = running.enter_context(broker)
        yield Group(nameserver, etcd, brokers)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory, needs_etcd: None) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


def sent(address: Address, topic: str, body: bytes) -> Frame | None:
    """Send a message; return the answer, None if there is none."""
    try:
        with BlockingConnection(address, settings=PATIENT) as connection:
            return connection.request(send_header(topic), body)
    except OrbitError:
        return None


def is_accepted(address: Address, topic: str) -> bool:
    answer = sent(address, topic, b"probe")
    return answer is not None and answer.code == ResponseCode.SUCCESS


def until_accepted(broker: OurServer, topic: str) -> None:
    until(lambda: is_accepted(broker.address, topic), what=f"{broker.address} takes messages")


def test_java_s_clients_follow_a_master_that_dies_and_lose_nothing(
    java: Java, etcd: Etcd, tmp_path: Path
) -> None:
    with a_group(tmp_path, etcd) as group:
        master = group.master()
        group.both_in_sync()
        team = Team(java, str(group.nameserver.address), [str(master.address)])
        topic = team.topic("elected")
        with team.producer(timeout_ms=2_000) as producer, team.consumer(topic) as consumer:
            producer.start_load(topic)
            for _ in range(ROUNDS):
                producer.until_acknowledged(SENDS)
                group.both_in_sync()
                died = time.monotonic()
                master.kill()
                other = group.other_than(master)
                until_accepted(other, topic)
                print(f"from the death to the first send: {time.monotonic() - died:.1f} s")
                producer.until_acknowledged(SENDS)
                master.start()
                master = other
            await_all(consumer, producer.end_load())


def test_a_master_that_was_stopped_for_a_while_accepts_nothing_when_it_goes_on(
    java_540: Java, etcd: Etcd, tmp_path: Path
) -> None:
    with a_group(tmp_path, etcd) as group:
        master = group.master()
        group.both_in_sync()
        team = Team(java_540, str(group.nameserver.address), [str(master.address)])
        topic = team.topic("paused")
        with team.producer(timeout_ms=2_000) as producer, team.consumer(topic) as consumer:
            producer.start_load(topic)
            for _ in range(ROUNDS):
                producer.until_acknowledged(SENDS)
                master.pause()
                paused, other = master, group.master(other_than=str(master.address))
                until_accepted(other, topic)
                producer.until_acknowledged(SENDS)
                paused.resume()
                answer = sent(paused.address, topic, b"refused")
                assert answer is None or answer.code != ResponseCode.SUCCESS, answer
                producer.until_acknowledged(SENDS)
                assert group.routes()[0] == str(other.address)
                group.both_in_sync()
                master = other
            await_all(consumer, producer.end_load())


def test_a_master_that_is_stopped_hands_over_at_once(etcd: Etcd, tmp_path: Path) -> None:
    topic = "handed-over"
    with a_group(tmp_path, etcd) as group:
        master = group.master()
        until_accepted(master, topic)
        for _ in range(2 * ROUNDS):
            group.both_in_sync()
            began = time.monotonic()
            master.stop()
            other = group.other_than(master)
            until_accepted(other, topic)
            print(f"from the stop to the first send: {time.monotonic() - began:.1f} s")
            master.start()
            master = other


def test_operators_see_and_move_the_master_with_java_s_tool(
    java_540: Java, etcd: Etcd, tmp_path: Path
) -> None:
    with a_group(tmp_path, etcd) as group:
        master = group.master()
        group.both_in_sync()
        other = group.other_than(master)
        team = Team(java_540, str(group.nameserver.address), [str(master.address)])
        asked = ("-a", str(other.address))
        told = team.mqadmin("getControllerMetaData", *asked)
        assert f"#ControllerLeaderAddress\t{other.address}" in told
        assert f"#Peer:\t{etcd.address}" in told
        told = team.mqadmin("getSyncStateSet", *asked, "-b", NAME)
        assert f"#MasterAddr\t{master.address}" in told
        assert "#SyncStateSetNums\t2" in told
        told = team.mqadmin(
            *("electMaster", *asked, "-c", "DefaultCluster", "-bn", NAME, "-b", "2")
        )
        assert f"#BrokerMasterAddr\t{other.address}" in told
        assert "#MasterEpoch\t2" in told
        assert group.master(other_than=str(master.address)) is other
        until_accepted(other, "moved")
        group.both_in_sync()
        told = team.mqadmin("getBrokerEpoch", "-b", NAME)
        assert told.count("#brokerAddr") == 2
        assert "epoch=2" in told
        told = team.mqadmin("getControllerConfig", *asked)
        assert "enableElectUncleanMaster" in told
        change = ("-k", "enableElectUncleanMaster", "-v", "true")
        assert "success" in team.mqadmin("updateControllerConfig", *asked, *change)
        assert re.search(
            r"enableElectUncleanMaster *= *true", team.mqadmin("getControllerConfig", *asked)
        )
        master.stop()
        until(lambda: group.in_sync() == [str(other.address)], what="it is not in sync any more")
        told = team.mqadmin(
            *("cleanBrokerMetadata", *asked, "-c", "DefaultCluster", "-bn", NAME, "-b", "1")
        )
        assert "clear broker broker-a metadata from controller success" in told
        master.start()


def test_our_tool_prints_of_a_group_what_java_s_does(
    java_540: Java, etcd: Etcd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ours(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main(["mqadmin", *words, "-n", str(group.nameserver.address)]) == status
        return capsys.readouterr().out

    with a_group(tmp_path, etcd) as group:
        master = group.master()
        until_accepted(master, "seen")
        group.both_in_sync()
        other = group.other_than(master)
        team = Team(java_540, str(group.nameserver.address), [str(master.address)])
        at, cluster = ("-a", str(other.address)), ("-c", "DefaultCluster")
        for words in (
            ("getControllerMetaData", *at),
            ("getSyncStateSet", *at, "-b", NAME),
            ("getSyncStateSet", *at, *cluster),
            ("getBrokerEpoch", "-b", NAME),
            ("getBrokerEpoch", *cluster),
            ("getControllerConfig", *at),
        ):
            assert sorted(ours(*words).split("\n")) == sorted(team.mqadmin(*words).split("\n"))
        told = ours("electMaster", *at, *cluster, "-bn", NAME, "-b", "2")
        assert f"#BrokerMasterAddr\t{other.address}\n#MasterEpoch\t2\n" in told
        assert group.master(other_than=str(master.address)) is other
        until_accepted(other, "moved")
        group.both_in_sync()
        change = ("-k", "enableElectUncleanMaster", "-v", "true")
        assert "success" in ours("updateControllerConfig", *at, *change)
        assert "enableElectUncleanMaster                          =  true" in ours(
            "getControllerConfig", *at
        )
        forget = ("cleanBrokerMetadata", *at, *cluster, "-bn", NAME, "-b", "1")
        ours(*forget, status=2)  # it is alive
        master.stop()
        until(lambda: group.in_sync() == [str(other.address)], what="it is not in sync any more")
        assert ours(*forget) == f"clear broker {NAME} metadata from controller success!\n"
        master.start()


def test_a_group_stands_still_while_etcd_is_away_and_goes_on_when_it_is_back(
    tmp_path: Path, needs_etcd: None
) -> None:
    topic = "away"
    (tmp_path / "etcd").mkdir()
    with Etcd(tmp_path / "etcd") as etcd, a_group(tmp_path, etcd) as group:
        master = group.master()
        until(lambda: is_accepted(master.address, topic), what="the first send")
        group.both_in_sync()
        etcd.kill()
        until(lambda: not is_accepted(master.address, topic), what="the lease is over")
        answer = sent(master.address, topic, b"refused")
        assert answer is not None
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "etcd does not answer" in str(answer.remark)
        etcd.start()
        until(lambda: is_accepted(group.master().address, topic), what="a master again")
    one, two = (logs(tmp_path / f"store-{number}") for number in (1, 2))
    assert one == two


def why_unknown(address: Address) -> str:
    """Return why a broker can't tell of its group; empty if it can."""
    with BlockingConnection(address, settings=PATIENT) as connection:
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = connection.request(NoFields(), b'["%s"]' % NAME.encode(), code=code)
    return "" if answer.code == ResponseCode.SUCCESS else str(answer.remark)


def test_a_group_on_an_etcd_with_tls_and_users_goes_on_in_its_epoch_when_tokens_end(
    tmp_path: Path, certificates: Certificates, needs_etcd: None
) -> None:
    (tmp_path / "etcd").mkdir()
    # No lease ends while etcd is restarted, however long that takes.
    patient = {"controllerHeartBeatTimeoutMills": "120000"}
    with Etcd(tmp_path / "etcd", certificates=certificates) as etcd:
        asyncio.run(etcd.enable_users(f"/{tmp_path.name}/"))
        with a_group(tmp_path, etcd, **etcd.user_keys(), **patient) as group:
            master = group.master()
            until_accepted(master, "secured")
            group.both_in_sync()
            epoch = group_as_told_by(master.address, NAME).master_epoch
            etcd.kill()
            etcd.start()
            other = group.other_than(master)
            other.stop()
            until(lambda: group.in_sync() == [str(master.address)], what="etcd knows who is left")
            asyncio.run(etcd.change_password("another"))
            assert "or the password is another (etcdUser)" in why_unknown(master.address)
            other.start()  # it has an id, and waits for etcd
            etcd.user_keys("another")
            group.both_in_sync()
            assert group_as_told_by(master.address, NAME).master_epoch == epoch
            until_accepted(master, "secured")
            logged = other.kill()
            assert PASSWORD not in logged
            other.start()


def test_the_doctor_sees_a_broker_that_is_gone_and_an_etcd_that_is_away(
    etcd: Etcd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def doctor(status: int) -> str:
        capsys.readouterr()
        assert main(["doctor", "--nameserver", str(group.nameserver.address)]) == status
        return " ".join(capsys.readouterr().out.split())

    with a_group(tmp_path, etcd) as group:
        master = group.master()
        until_accepted(master, "seen")
        group.both_in_sync()
        assert "slaves, elections" in doctor(0)
        other = group.other_than(master)
        other.stop()
        until(lambda: group.in_sync() == [str(master.address)], what="it is not in sync any more")
        assert f"({other.address}) is gone: it can't become the master" in doctor(0)
        other.start()
        etcd.kill()
        try:
            assert f"the group {NAME} can't be read" in doctor(1)
        finally:
            etcd.start()
