"""One directory, two masters: Java serves what we stored, and we what Java stored."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.broker.pulling.consumer_filters import FILTERS_FILE, ConsumerFilters
from orbitmq.broker.pulling.filter_data import ConsumerFilterData, ConsumerFilterTable
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import SystemClock
from orbitmq.errors import ConnectionClosed, StoreLocked
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.dispatch import SCHEDULE_TOPIC
from orbitmq.wire.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from orbitmq.wire.bodies.heartbeat import HeartbeatData, SubscriptionData
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable
from orbitmq.wire.bodies.query import ConsumeQueueEntries
from orbitmq.wire.bodies.topic import TopicConfig, TopicConfigTable
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import Heartbeat
from orbitmq.wire.headers.offset import QueryConsumerOffset, QueryConsumerOffsetAnswer
from orbitmq.wire.headers.query import QueryConsumeQueue
from tests.broker.fake_clients import consumer
from tests.interop.java_cluster import JavaBroker, JavaNameserver
from tests.interop.java_server import JavaServerFailed
from tests.interop.parcels import (
    GROUP,
    LOOPBACK,
    ORDERS,
    QUEUES,
    REMINDERS,
    TAGS,
    Parcel,
    parcel,
    reminder,
    scheduled,
)
from tests.interop.store_parties import (
    JavaStore,
    OurStore,
    acknowledged,
    as_sent,
    assert_kept,
    everything,
    place,
    start_send,
)
from tests.interop.store_writer import JAVA_SIZES, open_store, put, stored_until_killed
from tests.interop.waiting import until

VERSION = "5.4.0"


@pytest.fixture
def java(nameserver: JavaNameserver, tmp_path: Path) -> Iterator[JavaBroker]:
    """A broker that is not started yet, and is killed in the end."""
    settings = {**JAVA_SIZES, "brokerName": tmp_path.name}
    broker = JavaBroker(VERSION, tmp_path, nameserver=nameserver.address, settings=settings)
    write_config(directory_of(broker))
    yield broker
    broker.kill()


def directory_of(broker: JavaBroker) -> Path:
    return Path(str(broker.settings["storePathRootDir"]))


def host_of(broker: JavaBroker) -> Host:
    return Host.parse(str(broker.address))


def write_config(directory: Path) -> None:
    """Write what a broker has to know to serve a store: topics, a group, how far it has come."""
    topics = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count)
        for topic, count in QUEUES.items()
    }
    group = SubscriptionGroupConfig(group_name=GROUP)
    config = ConfigFiles(RealDisk(), str(directory / "config"))
    for name, content in (
        ("topics.json", TopicConfigTable(topic_config_table=topics)),
        ("subscriptionGroup.json", SubscriptionGroupTable(subscription_group_table={GROUP: group})),
        ("consumerOffset.json", ConsumerOffsetTable(offset_table={f"{ORDERS}@{GROUP}": {2: 5}})),
    ):
        config.write(name, content.to_json().decode())


def store_ours(broker: JavaBroker, numbers: range) -> list[StoredMessage]:
    """Store parcels with our store, a few in a turn, and close it; return the messages."""
    store = open_store(directory_of(broker))
    stored = [
        message
        for turn in range(numbers.start, numbers.stop, 7)
        for messages in put(store, range(turn, min(turn + 7, numbers.stop)), host_of(broker))
        for message in messages
    ]
    store.close()
    return stored


def send(broker: JavaBroker, parcels: Sequence[Parcel]) -> list[StoredMessage]:
    """Send parcels to Java, all at once; return the messages where it says they are."""
    with broker.connect() as connection:
        numbers = [start_send(connection, one) for one in parcels]
        return [
            message
            for one, number in zip(parcels, numbers, strict=True)
            for message in acknowledged(
                scheduled(one) if one.topic == REMINDERS else one, connection.result(number)
            )
        ]


def for_java(numbers: range) -> list[Parcel]:
    """Parcels as this machine can send them: by IPv4."""
    return [parcel(number)._replace(born_host=LOOPBACK) for number in numbers]


def send_until_killed(broker: JavaBroker, parcels: Sequence[Parcel]) -> list[StoredMessage]:
    """Send parcels to Java, kill it when it has answered half; return what it answered for."""
    promised: list[StoredMessage] = []
    with broker.connect() as connection:
        numbers = [start_send(connection, one) for one in parcels]
        for count, (one, number) in enumerate(zip(parcels, numbers, strict=True)):
            if count == len(parcels) // 2:
                broker.kill()
            try:
                promised += acknowledged(one, connection.result(number))
            except ConnectionClosed:
                assert count >= len(parcels) // 2
    return promised


def in_order(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages as they were sent, queue by queue."""
    return [as_sent(message) for message in sorted(messages, key=place)]


def assert_java_keeps(broker: JavaBroker, promised: Sequence[StoredMessage]) -> list[StoredMessage]:
    with broker.connect() as connection:
        return assert_kept(JavaStore(connection), promised)


def assert_copy_keeps(
    broker: JavaBroker, copy: Path, promised: Sequence[StoredMessage]
) -> list[StoredMessage]:
    """Open a copy with our store: the next owner is to find the directory as it was left."""
    shutil.copytree(directory_of(broker), copy)
    store = open_store(copy)
    assert store.damages == []
    found = assert_kept(OurStore(store), promised)
    store.close()
    return found


def assert_reminded(broker: JavaBroker, reminders: Sequence[Parcel]) -> None:
    """Wait until the delayed messages were delivered, each of them once."""
    with broker.connect() as connection:
        party = JavaStore(connection)
        until(lambda: len(party.span(REMINDERS, 0)) >= len(reminders), what="delayed messages")
        delivered = party.queue(REMINDERS, 0)
    wanted = [one.contents[0].body for one in reminders]
    assert sorted(message.body for message in delivered) == sorted(wanted)


def assert_tags_select(broker: JavaBroker, found: Sequence[StoredMessage]) -> None:
    """See that pulls by tag find their messages, and only them: through the codes in the queues."""
    with broker.connect() as connection:
        party = JavaStore(connection)
        for tags in filter(None, TAGS):
            for queue_id in range(QUEUES[ORDERS]):
                wanted = [
                    one
                    for one in found
                    if (one.topic, one.queue_id, one.tags) == (ORDERS, queue_id, tags)
                ]
                assert wanted
                assert party.queue(ORDERS, queue_id, tags=tags) == wanted


def test_java_serves_what_we_stored(java: JavaBroker) -> None:
    directory, host = directory_of(java), host_of(java)
    stored = store_ours(java, range(300))
    for name, least in (("commitlog", 3), (f"consumequeue/{ORDERS}/1", 3), ("index", 3)):
        assert len(list((directory / name).iterdir())) >= least, f"{name} did not roll"
    store = open_store(directory)
    reminders = [reminder(number, level=1) for number in range(300, 305)]
    store.append([scheduled(one).incoming(host) for one in reminders])
    ours = everything(OurStore(store))
    store.close()

    java.start()
    assert_reminded(java, reminders)
    found = assert_java_keeps(java, stored)
    assert [one for one in found if one.topic != REMINDERS] == ours
    assert list(map(as_sent, ours)) == in_order(stored)
    assert_tags_select(java, found)
    with java.connect() as connection:
        ask = QueryConsumerOffset(consumer_group=GROUP, topic=ORDERS, queue_id=2)
        assert connection.request(ask).read(QueryConsumerOffsetAnswer).offset == 5

    sent = send(java, for_java(range(400, 420)))
    now = assert_java_keeps(java, [*found, *sent])
    assert len(now) == len(found) + len(sent)


def with_next_file(directory: Path) -> None:
    """Let the last file of the log be one made ahead, as half of all kills leave it."""
    last = max((directory / "commitlog").iterdir())
    if any(last.read_bytes()[:8]):
        size = last.stat().st_size
        last.with_name(f"{int(last.name) + size:020d}").write_bytes(bytes(size))


def test_java_serves_what_we_promised_before_we_were_killed(java: JavaBroker) -> None:
    promised, first = stored_until_killed(directory_of(java), 0, host_of(java), count=400)
    with_next_file(directory_of(java))
    java.start()
    found = assert_java_keeps(java, promised)
    sent = send(java, for_java(range(first, first + 20)))
    assert len(assert_java_keeps(java, [*found, *sent])) == len(found) + len(sent)


@pytest.mark.parametrize("end", [JavaBroker.stop, JavaBroker.kill])
def test_java_and_we_share_what_java_began(
    java: JavaBroker, end: Callable[[JavaBroker], None]
) -> None:
    reminders = [reminder(number, level=3) for number in range(200, 205)]
    java.start()
    sent = send(java, for_java(range(200)))
    delayed = send(java, reminders)
    end(java)

    store = open_store(directory_of(java))
    # On a slow machine Java may have delivered reminders before it ended.
    found = [one for one in assert_kept(OurStore(store), sent) if one.topic != REMINDERS]
    assert list(map(as_sent, found)) == in_order(sent)
    waiting = OurStore(store).queue(SCHEDULE_TOPIC, 2)
    assert list(map(as_sent, waiting)) == in_order(delayed)
    store.close()
    stored = store_ours(java, range(300, 450))

    java.start()
    assert_reminded(java, reminders)
    now = assert_java_keeps(java, [*found, *stored])
    assert len(now) == len(found) + len(stored) + len(reminders)


def test_nothing_promised_is_lost_when_each_is_killed_in_turn(
    java: JavaBroker, tmp_path: Path
) -> None:
    java.start()
    promised = send_until_killed(java, for_java(range(300)))
    found = assert_copy_keeps(java, tmp_path / "first", promised)
    promised, first = stored_until_killed(directory_of(java), 300, host_of(java), count=200)

    java.start()
    found = assert_java_keeps(java, [*found, *promised])
    promised = send_until_killed(java, for_java(range(first, first + 300)))
    found = assert_copy_keeps(java, tmp_path / "second", [*found, *promised])
    promised, _ = stored_until_killed(directory_of(java), first + 300, host_of(java), count=200)
    assert_copy_keeps(java, tmp_path / "third", [*found, *promised])


def by_sql(expression: str, version: int) -> SubscriptionData:
    return SubscriptionData(
        topic=ORDERS, sub_string=expression, expression_type="SQL92", sub_version=version
    )


def test_filters_are_exchanged(java: JavaBroker) -> None:
    store_ours(java, range(20))
    config = ConfigFiles(RealDisk(), str(directory_of(java) / "config"))
    ours = ConsumerFilters(LiveSettings(), SystemClock())
    ours.register(GROUP, [by_sql("a > 1 AND colour CONTAINS 'blue'", 9)])
    config.write(FILTERS_FILE, ours.to_json())

    java.start()
    with java.connect() as connection:
        # Older than the file: Java keeps what it has loaded.
        for group, subscription in ((GROUP, by_sql("a > 7", 8)), ("more", by_sql("b = 1", 3))):
            beat = HeartbeatData(
                client_id=group, consumer_data_set=(consumer(group, subscription),)
            )
            assert connection.request(Heartbeat(), beat.to_json()).code == ResponseCode.SUCCESS
        ask = QueryConsumeQueue(topic=ORDERS, queue_id=0, index=0, count=1, consumer_group=GROUP)
        answer = ConsumeQueueEntries.from_json(connection.request(ask).body)
    sent = ours.get(GROUP, ORDERS)
    assert sent is not None
    loaded = ConsumerFilterData.from_json((answer.filter_data or "").encode())
    assert replace(loaded, dead=False, dead_time=0) == ours.shown(sent)
    java.stop()

    again = ConsumerFilters(LiveSettings(), SystemClock())
    config.read(FILTERS_FILE, again.load_json)
    text = config.read(FILTERS_FILE, str)
    written = ConsumerFilterTable.from_json((text or "").encode()).filter_data_by_topic[ORDERS]
    for group, expression in ((GROUP, sent.sql.expression), ("more", "b = 1")):
        kept = again.get(group, ORDERS)
        assert kept is not None
        assert (kept.sql.expression, kept.is_dead) == (expression, True)
        assert again.shown(kept) == written.group_filter_data[group]


def test_a_directory_that_java_uses_is_closed_to_us(java: JavaBroker) -> None:
    java.start()
    with pytest.raises(StoreLocked) as caught:
        open_store(directory_of(java))
    assert caught.value.pid == java.pid


def test_a_directory_that_we_use_is_closed_to_java(java: JavaBroker) -> None:
    """Java asks for the lock after it has recovered the store, and changes files until then.

    To it we look like a broker that crashed, so it removes index files and makes them anew beside
    ours, which we notice when we stop. Log and queues it leaves as they are while nobody writes.
    """
    store = open_store(directory_of(java))
    stored = [*chain(*put(store, range(100), host_of(java)))]
    with pytest.raises(JavaServerFailed, match="Lock failed, MQ already started"):
        java.start()
    stored += chain(*put(store, range(100, 200), host_of(java)))
    assert_kept(OurStore(store), stored)
    store.close()
    store = open_store(directory_of(java))
    found = assert_kept(OurStore(store), stored)
    assert list(map(as_sent, found)) == in_order(stored)
    store.close()
