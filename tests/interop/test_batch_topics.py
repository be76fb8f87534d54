"""Topics with batch queues: Java's clients on our broker, and stores that change hands."""

import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.message import batch, properties
from orbitmq.message.scan import split_inner
from orbitmq.net.blocking import BlockingConnection
from orbitmq.store.config_files import ConfigFiles
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.wire.bodies.topic import TopicConfig, TopicConfigTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.send import SendMessageAnswer
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaNameserver
from tests.interop.operations import Kind, Outgoing
from tests.interop.sending import send_header
from tests.interop.store_parties import JavaStore
from tests.interop.store_writer import JAVA_SIZES, OUR_SIZES
from tests.interop.team import Team
from tests.store.test_batch_topics import BATCHED as TOPIC
from tests.store.test_batch_topics import as_sent

BATCH_QUEUES = "+queue.type=BatchCQ"
VERSION = "5.4.0"
PER_FILE = 20


@pytest.fixture(scope="module")
def team(java_540: Java, our_cluster: embedded.RunningCluster) -> Team:
    """Clients of 5.4.0 on our cluster; older consumers don't split inner batches."""
    return Team(java_540, our_cluster.nameserver, our_cluster.brokers)


def bodies(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_java_s_batches_are_consumed_once_each(team: Team, kind: Kind) -> None:
    topic = team.topic(f"batched-{kind}", queues=1, attributes=BATCH_QUEUES)
    numbers = count()
    sent: list[bytes] = []

    def send(*sizes: int) -> None:
        for size in sizes:
            some = [Outgoing(topic=topic, body=b"%d" % next(numbers)) for _ in range(size)]
            (receipt,) = producer.send(*some, way="batch" if size > 1 else "sync")
            assert receipt.queue_offset == len(sent)
            assert "," not in receipt.offset_id
            sent.extend(one.body for one in some)

    with team.producer() as producer, team.consumer(topic, kind=kind) as consumer:
        send(3, 1, 40, 2)
        consumer.wait_for(len(sent))
        send(1, 5)  # its pulls are held
        received = consumer.wait_for(len(sent))
    assert sorted((one.queue_offset, one.body) for one in received) == list(enumerate(sent))
    assert len({one.message_id for one in received}) == len(sent)


def test_our_client_s_batches_are_consumed_by_java(
    team: Team, our_cluster: embedded.RunningCluster
) -> None:
    topic = team.topic("batched-by-us", queues=1, attributes=BATCH_QUEUES)
    with Producer("senders", nameserver=our_cluster.nameserver) as producer:
        receipts = producer.send_many([Message(topic, b"%d" % n, tags="even") for n in (0, 2, 4)])
        receipts.append(producer.send(Message(topic, b"5", tags="odd")))
        receipts += producer.send_many([Message(topic, b"6", tags="even"), Message(topic, b"7")])
    with team.consumer(topic) as every, team.consumer(topic, "even", group="some") as some:
        received = {one.message_id: one for one in every.wait_for(6)}
        chosen = some.wait_for(4)
    assert [received[receipt.message_id].body for receipt in receipts] == bodies(0, 2, 4, 5, 6, 7)
    for receipt in receipts:
        assert received[receipt.message_id].queue_offset == receipt.queue_offset
    assert sorted(one.body for one in chosen) == bodies(0, 2, 4, 6)


def test_a_message_of_a_batch_that_was_refused_comes_again_alone(team: Team) -> None:
    topic = team.topic("batched-retried", queues=1, attributes=BATCH_QUEUES)
    with team.producer() as producer:
        producer.send(*(Outgoing(topic=topic, body=b"%d" % n) for n in range(3)), way="batch")
    with team.consumer(topic, refusals=1) as consumer:
        received = consumer.wait_for(6)
    assert sorted(one.body for one in received) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    assert {one.body for one in received if one.reconsume_times == 1} == {b"0", b"1", b"2"}


def test_mqadmin_and_a_pull_from_inside_a_batch(team: Team) -> None:
    topic = team.topic("batched-pulled", queues=1, attributes=BATCH_QUEUES)
    with team.producer() as producer:
        producer.send(*(Outgoing(topic=topic, body=b"%d" % n) for n in range(5)), way="batch")
    with team.consumer(topic, kind="pull") as consumer:
        pulled = consumer.pull(topic, 0, 3, broker="broker-a")
    assert (pulled.status, pulled.next_offset, pulled.max_offset) == ("FOUND", 5, 5)
    assert [one.queue_offset for one in pulled.messages] == list(range(5))
    printed = team.mqadmin("topicStatus", "-t", topic)
    rows = [line.split()[:4] for line in printed.splitlines()]
    assert ["broker-a", "0", "0", "5"] in rows


# Stores that change hands


@pytest.fixture
def java(nameserver: JavaNameserver, tmp_path: Path) -> Iterator[JavaBroker]:
    """A broker that is not started yet, whose store has one topic."""
    settings = {
        **JAVA_SIZES,
        "mapperFileSizeBatchConsumeQueue": PER_FILE * 46,
        "brokerName": tmp_path.name,
    }
    broker = JavaBroker(VERSION, tmp_path, nameserver=nameserver.address, settings=settings)
    topic = TopicConfig(
        topic_name=TOPIC,
        read_queue_nums=1,
        write_queue_nums=1,
        attributes={"queue.type": "BatchCQ"},
    )
    config = ConfigFiles(RealDisk(), f"{directory_of(broker)}/config")
    table = TopicConfigTable(topic_config_table={TOPIC: topic})
    config.write("topics.json", table.to_json().decode())
    yield broker
    broker.kill()


def directory_of(broker: JavaBroker) -> str:
    return str(broker.settings["storePathRootDir"])


def our_store(broker: JavaBroker) -> MessageStore:
    store = MessageStore(
        directory_of(broker),
        replace(OUR_SIZES, batch_queue_file_entries=PER_FILE),
        workers=InlineWorkers(),
        pid=os.getpid(),
    )
    store.queues.topic_has_batches = lambda topic: topic == TOPIC
    store.open()
    assert store.damages == []
    return store


def names(first: int, sends: Sequence[int]) -> list[list[bytes]]:
    """Return the names of messages, for sends of these sizes."""
    numbers = count(first)
    return [[b"%05d" % next(numbers) for _ in range(size)] for size in sends]


SIZES = [3, 1, 7, 2, 40, 1, 1, 5] * 6


def put_ours(store: MessageStore, sends: Sequence[Sequence[bytes]]) -> None:
    results = store.append([as_sent(one) for one in sends])
    assert {result.status for result in results} == {PutStatus.PUT_OK}


def send_java(connection: BlockingConnection, sends: Sequence[Sequence[bytes]]) -> None:
    for one in sends:
        body = batch.encode([(0, name, b"UNIQ_KEY\x01%s\x02" % name) for name in one])
        text = properties.join({"UNIQ_KEY": "batch-" + one[0].decode()}).decode()
        header = send_header(TOPIC, properties=text, batch=True)
        answer = connection.request(header, body, code=RequestCode.SEND_BATCH_MESSAGE)
        assert answer.code == ResponseCode.SUCCESS, answer
        assert answer.read(SendMessageAnswer).queue_offset == int(one[0])


def of_ours(store: MessageStore) -> list[bytes]:
    queue = store.queues.queue(TOPIC, 0)
    assert queue is not None
    records = [store.record(entry.commit_log_offset) for _, entry in queue.iterate(0)]
    messages = [one for record in records if record for one in split_inner(record.message())]
    assert [one.queue_offset for one in messages] == list(range(queue.max_offset))
    return [one.body for one in messages]


def of_java(broker: JavaBroker) -> list[bytes]:
    with broker.connect() as connection:
        party = JavaStore(connection)
        found = [one for record in party.queue(TOPIC, 0) for one in split_inner(record)]
        assert [one.queue_offset for one in found] == list(range(len(found)))
        assert party.span(TOPIC, 0) == range(len(found))
    return [one.body for one in found]


def flat(sends: Sequence[Sequence[bytes]]) -> list[bytes]:
    return [name for one in sends for name in one]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_store_goes_from_us_to_java_and_back(java: JavaBroker, killed: bool) -> None:
    sends = names(0, SIZES)
    store = our_store(java)
    put_ours(store, sends)
    if killed:
        store.tick()
        store._release()  # its abort file stays, as after a crash
    else:
        store.close()

    java.start()
    assert of_java(java) == flat(sends)
    more = names(len(flat(sends)), SIZES)
    with java.connect() as connection:
        send_java(connection, more)
    if killed:
        java.kill()
    else:
        java.stop()

    store = our_store(java)
    assert of_ours(store) == flat([*sends, *more])
    last = names(len(flat([*sends, *more])), [4, 1])
    put_ours(store, last)
    store.close()
    assert verify(StoreReader(directory_of(java))).damages == []

    if not killed:
        java.start()
        assert of_java(java) == flat([*sends, *more, *last])
