"""What a slave has besides the log, both ways, and who reads from ours when its master is gone."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from orbitmq import Consumer
from orbitmq.message.model import StoredMessage
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.offsets import DelayOffsetTable
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import GetSubscriptionGroupConfig, GetTopicConfig
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from tests.broker.exchanges import send_header
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker
from tests.interop.our_servers import OurServer, a_broker, our_nameserver
from tests.interop.team import Team, create_topic
from tests.interop.test_replication import PAIR, PATIENT, SLAVE, TOPIC, send, slaves_in_sync
from tests.interop.waiting import until

QUEUES = 3
RETRIES = 5
EARLY, LATE = 8, 5
"""Messages before and after the first readers."""
GROUPS = ("our-readers", "java-readers")
SHORT_DELAYS = {"messageDelayLevel": "1s 2s"}
CATCH_UP_MIB = 1_024 if os.environ.get("ORBITMQ_SOAK") == "1" else 40
"""How much a slave has missed, or never had; files have 16 MiB."""

Servers = tuple[OurServer | JavaBroker, OurServer | JavaBroker]


@contextlib.contextmanager
def a_pair(directory: Path, nameserver: Address, *, java: str) -> Iterator[Servers]:
    """Run a master; yield it with a slave to be started. ``java`` says which of both is Java's."""

    def server(role: str) -> OurServer | JavaBroker:
        settings = {**PAIR, **SHORT_DELAYS, **(SLAVE if role == "slave" else {})}
        place = directory / role
        if role == java:
            return JavaBroker("5.4.0", place, nameserver=nameserver, settings=settings)
        return a_broker(place, nameservers=str(nameserver), **settings)

    master, slave = server("master"), server("slave")
    with master:
        create_topic(master.address, TOPIC, queues=QUEUES)
        yield master, slave


def follows(master: OurServer | JavaBroker) -> None:
    """Wait until a slave has all that a master has."""
    until(lambda: slaves_in_sync(master.address) == [0], what="the slave follows")


def ask(address: Address, header: Header, body: bytes = b"", code: int | None = None) -> Frame:
    with BlockingConnection(address, settings=PATIENT) as connection:
        return connection.request(header, body, code=code)


def committed(address: Address, group: str) -> int | None:
    """Return the offset of a group in the first queue; None if the broker knows none."""
    header = QueryConsumerOffset(consumer_group=group, topic=TOPIC, queue_id=0)
    answer = ask(address, header)
    if answer.code != ResponseCode.SUCCESS:
        return None
    return answer.read(QueryConsumerOffsetAnswer).offset


@pytest.mark.parametrize("java", ["slave", "master"])
def test_tables_of_a_master_reach_its_slave(java: str, tmp_path: Path) -> None:
    def group_of(address: Address) -> int:
        answer = ask(address, GetSubscriptionGroupConfig(group="billing"))
        if answer.code != ResponseCode.SUCCESS:
            return -1
        return SubscriptionGroupConfig.from_json(answer.body).retry_max_times

    def topic_of(address: Address) -> int:
        answer = ask(address, GetTopicConfig(topic=TOPIC))
        if answer.code != ResponseCode.SUCCESS:
            return -1
        return TopicConfig.from_json(answer.body).read_queue_nums

    def delays_of(address: Address) -> dict[int, int]:
        answer = ask(address, NoFields(), code=RequestCode.GET_ALL_DELAY_OFFSET)
        return dict(DelayOffsetTable.from_json(answer.body).offset_table)

    with our_nameserver(tmp_path) as names, a_pair(tmp_path, names, java=java) as (master, slave):
        config = SubscriptionGroupConfig(group_name="billing", retry_max_times=RETRIES)
        create = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert ask(master.address, NoFields(), config.to_json(), create).code == 0
        assert set(send(master.address, EARLY)) == {ResponseCode.SUCCESS}
        commit = UpdateConsumerOffset(
            consumer_group="billing", topic=TOPIC, queue_id=0, commit_offset=EARLY - 1
        )
        assert ask(master.address, commit).code == ResponseCode.SUCCESS
        late = send_header(TOPIC, properties="DELAY\x011\x02")
        assert ask(master.address, late, b"delayed").code == ResponseCode.SUCCESS
        until(lambda: delays_of(master.address).get(1) == 1, what="it is delivered")
        with slave:  # Java's asks when it has met the master, and then once a minute
            patient = partial(until, seconds=120)
            patient(lambda: group_of(slave.address) == RETRIES, what="groups of the slave")
            patient(lambda: topic_of(slave.address) == QUEUES, what="topics of the slave")
            patient(lambda: committed(slave.address, "billing") == EARLY - 1, what="its offsets")
            patient(lambda: delays_of(slave.address).get(1) == 1, what="delays of the slave")


async def read(nameserver: Address, group: str, count: int) -> list[bytes]:
    """Read so many messages with a consumer of ours, and commit them."""
    found: list[bytes] = []
    enough = asyncio.Event()
    consumer = Consumer(
        group, nameserver=str(nameserver), subscribe=[TOPIC], consume_from="first", concurrency=1
    )

    @consumer.on_message
    async def note(message: StoredMessage) -> None:
        found.append(message.body)
        if len(found) >= count:
            enough.set()

    async with consumer, asyncio.timeout(60):
        await enough.wait()
    return found


@pytest.mark.parametrize("java", ["master", "nobody"])
def test_consumers_go_on_at_our_slave_and_their_offsets_come_back(
    java: str, java_540: Java, tmp_path: Path
) -> None:
    def read_by_both(names: Address, team: Team, body: bytes, count: int) -> None:
        wanted = [body * (1 + number) for number in range(count)]
        assert sorted(asyncio.run(read(names, GROUPS[0], count))) == wanted
        with team.consumer(TOPIC, group=GROUPS[1]) as consumer:
            assert sorted(one.body for one in consumer.wait_for(count)) == wanted

    with our_nameserver(tmp_path) as names, a_pair(tmp_path, names, java=java) as (master, slave):
        team = Team(java_540, str(names), [str(master.address)])

        def all_committed(address: Address, offset: int) -> bool:
            return [committed(address, group) for group in GROUPS] == [offset, offset]

        with slave:  # it follows a master that has no log yet
            follows(master)
            assert set(send(master.address, EARLY, body=b"a")) == {ResponseCode.SUCCESS}
            read_by_both(names, team, b"a", EARLY)
            until(lambda: all_committed(master.address, EARLY), what="both have committed")
            until(lambda: all_committed(slave.address, EARLY), what="the slave knows it")
            assert set(send(master.address, LATE, body=b"b")) == {ResponseCode.SUCCESS}
            follows(master)
            master.kill()
            read_by_both(names, team, b"b", LATE)  # and none of the messages before
            until(lambda: all_committed(slave.address, EARLY + LATE), what="commits at the slave")
            master.start()
            until(lambda: all_committed(master.address, EARLY + LATE), what="the master gets them")


def digests(server: OurServer | JavaBroker, place: Path) -> dict[str, str]:
    """Return the files of a log by their digests, without files of zeros made in advance."""
    found = {}
    store = place / "store" if isinstance(server, JavaBroker) else place
    for file in sorted((store / "commitlog").iterdir()):
        if (data := file.read_bytes()).rstrip(b"\0"):
            found[file.name] = hashlib.sha256(data).hexdigest()
    return found


@pytest.mark.parametrize("java", ["slave", "master"])
def test_a_slave_that_was_away_catches_up_though_the_master_dies_meanwhile(
    java: str, tmp_path: Path
) -> None:
    with our_nameserver(tmp_path) as names, a_pair(tmp_path, names, java=java) as (master, slave):
        assert send(master.address, 1) == [ResponseCode.SUCCESS]
        with slave:  # an empty slave of Java takes the last file only, so it comes early
            follows(master)
            slave.kill()
            with BlockingConnection(master.address, settings=PATIENT) as connection:
                for number in range(CATCH_UP_MIB):
                    body = number.to_bytes(4, "big") * (256 * 1024)
                    assert connection.request(send_header(TOPIC), body).code == ResponseCode.SUCCESS
            slave.start()
            until(lambda: slaves_in_sync(master.address), what="the slave is back")
            master.kill()
            master.start()
            until(lambda: slaves_in_sync(master.address) == [0], what="it has all", seconds=250)
            assert set(send(master.address, 5)) == {ResponseCode.SUCCESS}
            follows(master)
            whole = digests(master, tmp_path / "master")
            assert len(whole) >= CATCH_UP_MIB // 16
            assert digests(slave, tmp_path / "slave") == whole
