"""A cluster in the caller's process."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq import Admin as AsyncAdmin
from orbitmq import Message, SendReceipt, embedded
from orbitmq import Producer as AsyncProducer
from orbitmq.blocking import Admin, Producer
from orbitmq.errors import InvalidInput, InvalidSetting, NotRunning
from orbitmq.message.scan import split_inner
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.heartbeat import SubscriptionCheck, SubscriptionData
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.headers.route import GetRouteInfo
from tests.broker.exchanges import pulled, sent
from tests.net.test_fork import said_in_a_fork


def test_it_takes_messages_in_and_gives_them_out_by_its_own_route() -> None:
    with embedded.start() as cluster:
        with BlockingConnection(Address.parse(cluster.brokers[0])) as broker:
            assert [sent(broker, "orders", body) for body in (b"one", b"two")] == [0, 1]
            assert [message.body for message in pulled(broker, "orders")] == [b"one", b"two"]
        with BlockingConnection(Address.parse(cluster.nameserver)) as nameserver:
            answer = nameserver.request(GetRouteInfo(topic="TBW102"))
        route = TopicRouteData.from_json(answer.body)
        assert route.broker_datas[0].broker_addrs == {0: cluster.brokers[0]}
        directory = Path(cluster.directories[0])
        assert directory.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, ResponseCode.SUCCESS),
        ({"enablePropertyFilter": "false"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_consumers_may_filter_by_sql92_unless_a_setting_says_no(
    settings: dict[str, str], code: int
) -> None:
    by_sql = SubscriptionData(topic="orders", sub_string="a > 5", expression_type="SQL92")
    body = SubscriptionCheck(subscription_data=by_sql).to_json()
    with embedded.start(settings=settings) as cluster:
        with BlockingConnection(Address.parse(cluster.brokers[0])) as broker:
            answer = broker.request(NoFields(), body, code=RequestCode.CHECK_CLIENT_CONFIG)
    assert answer.code == code


def test_a_named_directory_stays_and_holds_the_messages(tmp_path: Path) -> None:
    with embedded.start(str(tmp_path)) as cluster:
        with BlockingConnection(Address.parse(cluster.brokers[0])) as broker:
            sent(broker, "orders", b"kept")
    assert not (tmp_path / "broker-a" / "abort").exists()
    with embedded.start(str(tmp_path)) as cluster:
        with BlockingConnection(Address.parse(cluster.brokers[0])) as broker:
            assert [message.body for message in pulled(broker, "orders")] == [b"kept"]


def test_a_topic_with_batch_queues_outlives_them(tmp_path: Path) -> None:
    """They are rebuilt as batch queues: the topics are known before the store is recovered."""
    with embedded.start(str(tmp_path)) as cluster:
        with Admin(nameserver=cluster.nameserver) as admin:
            admin.create_topic("batched", queues=1, attributes={"queue.type": "BatchCQ"})
        with Producer("shop", nameserver=cluster.nameserver, auto_batch=True) as producer:
            futures = [producer.send_later(Message("batched", b"%d" % n)) for n in range(50)]
            offsets = sorted(future.result().queue_offset for future in futures)
            assert offsets == list(range(50))
            pair: list[SendReceipt] = []
            for _ in range(100):  # until a heartbeat was answered: then batches have ids
                pair = producer.send_many([Message("batched", b"x"), Message("batched", b"y")])
                if pair[0].offset_message_id == pair[1].offset_message_id:
                    break
            end = pair[1].queue_offset + 1
    shutil.rmtree(tmp_path / "broker-a" / "batchconsumequeue")
    with embedded.start(str(tmp_path)) as cluster:
        with BlockingConnection(Address.parse(cluster.brokers[0])) as broker:
            answer = broker.request(GetMaxOffset(topic="batched", queue_id=0))
            assert answer.read(GetMaxOffsetAnswer).offset == end
            records = pulled(broker, "batched", offset=end - 1)
        assert [one.body for one in split_inner(records[0])] == [b"x", b"y"]
        assert not (tmp_path / "broker-a" / "consumequeue" / "batched").exists()


def test_several_brokers_share_one_nameserver() -> None:
    async def main() -> tuple[str, ...]:
        async with embedded.EmbeddedCluster(brokers=3) as cluster:
            with BlockingConnection(Address.parse(cluster.nameserver)) as nameserver:
                answer = await asyncio.to_thread(nameserver.request, GetRouteInfo(topic="TBW102"))
            assert answer.code == ResponseCode.SUCCESS
            route = TopicRouteData.from_json(answer.body)
            return tuple(sorted(broker.broker_name for broker in route.broker_datas))

    assert asyncio.run(main()) == ("broker-a", "broker-b", "broker-c")


@pytest.mark.parametrize("enabled", [None, "false"])
def test_there_is_a_topic_for_traces_unless_it_is_switched_off(enabled: str | None) -> None:
    settings = {} if enabled is None else {"traceTopicEnable": enabled}
    with embedded.start(settings=settings) as cluster:
        with BlockingConnection(Address.parse(cluster.nameserver)) as nameserver:
            answer = nameserver.request(GetRouteInfo(topic="RMQ_SYS_TRACE_TOPIC"))
    assert (answer.code == ResponseCode.SUCCESS) is (enabled is None)


def test_closing_twice_is_no_error() -> None:
    cluster = embedded.start()
    cluster.close()
    cluster.close()


FORKS = """
import gc, multiprocessing, os, sys
from pathlib import Path
from orbitmq import embedded

def child():
    global cluster
    if {how!r} == "closes":
        cluster.close()
    if {how!r} == "forgets":
        cluster = None
        gc.collect()

cluster = embedded.start()
directories = [Path(one) for one in cluster.directories]
if {how!r} == "ends as a worker":
    worker = multiprocessing.get_context("fork").Process(target=child)
    worker.start()
    worker.join()
    status = worker.exitcode
else:
    pid = os.fork()
    if not pid:
        child()
        sys.exit(0)
    status = os.waitpid(pid, 0)[1]
there = all(one.is_dir() for one in directories)
cluster.close()
print(status, there, any(one.exists() for one in directories))
"""


@pytest.mark.parametrize("how", ["ends", "closes", "forgets", "ends as a worker"])
def test_a_forked_child_leaves_the_parent_s_store_alone(how: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS.format(how=how)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("0 True False\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_that_leaves_the_block_closes_nothing() -> None:
    async def main() -> str:
        async with embedded.EmbeddedCluster() as cluster:
            return said_in_a_fork(lambda: cluster.close().send(None))

    assert "StopIteration" in asyncio.run(main())  # it returned, and waited for nothing to close


def test_a_store_that_is_forgotten_goes_with_the_process(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-W", "always", "-c"),
            "from orbitmq import embedded; cluster = embedded.start()",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
    )
    assert "was not closed; close it, or use 'with'" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 27])
def test_a_number_of_brokers_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=f"brokers is {count}; it must be from 1 to 26"):
        embedded.start(brokers=count)


def test_a_bad_setting_is_an_error_of_the_start() -> None:
    with pytest.raises(InvalidSetting, match="flushDiskType"):
        embedded.start(settings={"flushDiskType": "SOMETIMES"})


def test_settings_are_texts_and_their_names_are_known() -> None:
    with pytest.raises(InvalidInput, match='write both as texts.*"listenPort": "0"'):
        embedded.start(settings={"listenPort": 0})  # type: ignore[dict-item]
    with pytest.raises(InvalidSetting, match=r"listenPrt is not known .*did you mean listenPort\?"):
        embedded.start(settings={"listenPrt": "0"})
    with embedded.start(settings={"pullThreadPoolQueueCapacity": "1"}):  # Java's, without effect
        pass


def test_brokers_cannot_share_a_log() -> None:
    with pytest.raises(InvalidInput, match="the log of all brokers"):
        embedded.EmbeddedCluster(brokers=2, settings={"storePathCommitLog": "/fast/commitlog"})


def test_a_test_reads_what_was_sent() -> None:
    with embedded.start(brokers=2) as cluster:
        assert cluster.messages("orders") == []
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            receipts = [
                producer.send(Message("orders", b"%d" % n, tags="paid", keys=[f"o-{n}", "all"]))
                for n in range(20)
            ]
            producer.send(Message("orders", b"open", tags="open"))
            producer.send(Message("orders", b"later", delay_level=18))
            with producer.transaction(Message("orders", b"half")) as transaction:
                bodies = [message.body for message in cluster.messages("orders")]
                assert (b"half" in bodies, b"later" in bodies) == (False, False)
                transaction.rollback()
        found = cluster.messages("orders", tags="paid")
        places = [(one.broker_name, one.queue_id, one.queue_offset) for one in found]
        assert places == sorted(places)
        assert {(one.message_id, one.queue_offset) for one in found} == {
            (receipt.message_id, receipt.queue_offset) for receipt in receipts
        }
        assert [one.body for one in cluster.messages("orders", key="o-7")] == [b"7"]
        assert len(cluster.messages("orders", key="all")) == 20
        assert len(cluster.messages("orders")) == 21
    with pytest.raises(NotRunning, match="the embedded cluster is closed"):
        cluster.messages("orders")


def test_batches_are_read_as_their_messages_on_the_loop_too() -> None:
    async def story() -> list[tuple[int, bytes]]:
        async with embedded.EmbeddedCluster() as cluster:
            async with AsyncAdmin(nameserver=cluster.nameserver) as admin:
                await admin.create_topic("batched", queues=1, attributes={"queue.type": "BatchCQ"})
            async with AsyncProducer("shop", nameserver=cluster.nameserver) as producer:
                for start in (0, 3):
                    await producer.send_many(
                        [Message("batched", b"%d" % n) for n in range(start, start + 3)]
                    )
            return [(one.queue_offset, one.body) for one in cluster.messages("batched")]

    assert asyncio.run(story()) == [(n, b"%d" % n) for n in range(6)]
