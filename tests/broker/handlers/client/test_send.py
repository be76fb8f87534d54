"""Sends over a network in memory, beside what the Java broker of the recordings answered."""

from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.errors import DiskFailed
from orbitmq.message import batch, flags
from orbitmq.message.ids import recall_handle
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.handlers import Handlers
from orbitmq.net.listener import Listener
from orbitmq.store.disk.disk import Usage
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.topic import TopicFilterType
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.headers.send import SendMessage, SendMessageAnswer, SendMessageV2
from tests.broker.send_world import HERE, SMALL, SendWorld, header
from tests.broker.world import ask
from tests.golden_files import golden
from tests.java_remarks import begins_as_java_s
from tests.store.logs import NOW, incoming

REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
UNSERVED = {"recall a timer message", "tx commit", "tx rollback", "tx unknown"}


@pytest.fixture(params=["together", "careful"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of a send obey the same rules."""
    monkeypatch.setattr(SendWorld, "takes_plain_sends", request.param == "together")


def recorded() -> list[Any]:
    """Return the sends of the recording, each with its answer, in their order."""
    frames = golden("session_json")["frames"]
    sends = [
        frame
        for frame in frames
        if frame["request_name"] in ("SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE")
        and frame["phase"] not in UNSERVED
    ]
    answers = {(one["conn"], one["header"]["opaque"]): one for one in sends if one["dir"] == "s2c"}
    return [
        (one, answers.get((one["conn"], one["header"]["opaque"])))
        for one in sends
        if one["dir"] == "c2s"
    ]


def body_of(frame: Any) -> bytes:
    (found,) = FrameReader().feed(bytes.fromhex(frame["hex"]))
    return bytes(found.body)


def test_a_priority_chooses_the_queue_as_in_java() -> None:
    world = SendWorld()
    world.create("orders", queues=4)
    for priority, queue_id in (("2", 2), ("99", 3), ("-1", 0), ("x", 0)):
        given = {"UNIQ_KEY": "U1", "_SYS_MSG_PRIORITY_": priority}
        answer = world.send(header("orders", properties=given))
        assert answer.read(SendMessageAnswer).queue_id == queue_id
        assert world.stored("orders", queue_id)[-1].properties["_SYS_MSG_PRIORITY_"] == priority
    given = {"UNIQ_KEY": "U1", "_SYS_MSG_PRIORITY_": "2", "__SHARDINGKEY": "alice"}
    answer = world.send(header("orders", queue_id=1, properties=given))
    assert answer.read(SendMessageAnswer).queue_id == 1
    assert "_SYS_MSG_PRIORITY_" not in world.stored("orders", 1)[0].properties


def test_a_message_goes_to_the_light_queues_it_names_up_to_a_limit() -> None:
    light = replace(SMALL, lmq_enabled=True, multi_dispatch_enabled=True, lmq_queues_max=2)
    world = SendWorld(light)
    world.create("orders")

    def send(names: str) -> Frame:
        given = {"UNIQ_KEY": "U1", "INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": "9"}
        return world.send(header("orders", properties=given))

    assert send("%LMQ%a,%LMQ%b").code == ResponseCode.SUCCESS
    assert send("%LMQ%b").code == ResponseCode.SUCCESS
    offsets = [one.properties["INNER_MULTI_QUEUE_OFFSET"] for one in world.stored("%LMQ%b")]
    assert offsets == ["0,0", "1"]
    over = send("%LMQ%c")
    assert over.code == ResponseCode.SYSTEM_ERROR
    assert (over.remark or "").startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq")
    wrong = send("orders")
    assert wrong.code == ResponseCode.MESSAGE_ILLEGAL
    assert "the name of a light queue begins with %LMQ%" in (wrong.remark or "")


def test_the_recorded_sends_are_answered_as_java_did() -> None:
    world = SendWorld(replace(SMALL, segment_bytes=1024 * 1024))
    for topic in ("GoldTopic", "GoldOrder", "GoldDelay", "GoldReq", "GoldPop"):
        world.create(topic)
    compared = 0
    for asked, expected in recorded():
        if expected is None:
            continue  # one way
        sent = SendMessageV2.from_texts(asked["header"]["extFields"])
        answer = world.send(sent, body_of(asked), code=asked["code"])
        assert answer.code == expected["code"], asked["phase"]
        ours, theirs = answer.texts(), expected["header"]["extFields"]
        assert ours.keys() == theirs.keys(), asked["phase"]
        for name in theirs.keys() - {"msgId", "queueOffset"}:
            assert ours[name] == theirs[name]
        ids = theirs.get("msgId", "").split(",")
        assert len((ours.get("msgId") or "").split(",")) == len(ids)
        compared += 1
    assert compared > 10


@pytest.mark.parametrize(
    "name",
    [
        "send to unknown topic with no default topic",
        "send to system topic",
        "send to illegal topic name",
    ],
)
def test_the_recorded_probes_are_refused_as_java_did(name: str) -> None:
    (probe,) = [one for one in golden("probes")["probes"] if one["name"] == name]
    sent = SendMessageV2.from_texts(probe["request_header"]["extFields"])
    answer = SendWorld().send(sent)
    (expected,) = FrameReader().feed(bytes.fromhex(probe["response_hex"]))
    assert answer.code == expected.code
    assert answer.texts() == expected.texts()
    assert begins_as_java_s(answer.remark, expected.remark)
    assert sent.topic in (answer.remark or "")


def test_a_send_is_stored_with_what_the_broker_adds() -> None:
    world = SendWorld()
    answer = world.send(
        header(properties={"UNIQ_KEY": "U1", "TAGS": "paid"}, queue_id=2, flag=5, born_timestamp=9),
        b"1 pizza",
    )
    assert answer.code == ResponseCode.SUCCESS
    results = answer.read(SendMessageAnswer)
    assert (results.msg_id, results.queue_id, results.queue_offset) == (
        "7F00000100002A9F" + "0" * 16,
        2,
        0,
    )
    assert results.transaction_id == "U1"
    (message,) = world.stored("orders", 2)
    assert message.body == b"1 pizza"
    assert (message.flag, message.born_timestamp_ms, message.store_host) == (5, 9, HERE)
    assert message.properties == {
        "UNIQ_KEY": "U1",
        "TAGS": "paid",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


def test_the_older_header_is_served_too() -> None:
    world = SendWorld()
    sent = header()
    old = SendMessage(**{name: getattr(sent, name) for name in SendMessage.__struct_fields__})
    assert ask(world.handlers.table(), old, b"x").code == ResponseCode.SUCCESS
    assert len(world.stored("orders")) == 1


def test_a_message_without_an_id_gets_one() -> None:
    world = SendWorld()
    results = world.send(header(properties={})).read(SendMessageAnswer)
    (message,) = world.stored("orders")
    assert results.transaction_id == message.properties["UNIQ_KEY"]
    assert len(message.properties["UNIQ_KEY"]) == 32


def test_a_message_that_a_broker_had_before_names_the_broker_once() -> None:
    world = SendWorld()
    world.send(header(properties={"UNIQ_KEY": "U1", "TRACE_ON": "false", "MSG_REGION": "there"}))
    record = world.store.record(0)
    assert record is not None
    assert record.properties.count(b"TRACE_ON") == record.properties.count(b"MSG_REGION") == 1
    assert record.message().properties["TRACE_ON"] == "true"


def test_new_settings_hold_for_the_next_send() -> None:
    world = SendWorld()
    world.send(header())
    world.settings.broker = replace(world.settings.broker, region_id="north", trace_on=False)
    answer = world.send(header())
    assert answer.texts()["MSG_REGION"] == "north"
    assert answer.texts()["TRACE_ON"] == "false"
    assert world.stored("orders")[1].properties["MSG_REGION"] == "north"


def test_a_delayed_message_waits_and_the_answer_names_the_queue_asked_for() -> None:
    world = SendWorld()
    sent = header(queue_id=3, properties={"UNIQ_KEY": "U1", "DELAY": "99"})
    results = world.send(sent).read(SendMessageAnswer)
    assert results.queue_id == 3
    assert not world.stored("orders", 3)
    (message,) = world.stored("SCHEDULE_TOPIC_XXXX", 17)
    assert message.properties["REAL_TOPIC"] == "orders"
    assert message.properties["REAL_QID"] == "3"
    assert message.properties["DELAY"] == "18"


def test_a_delay_level_that_is_lowered_is_logged_once_for_each_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SendWorld()
    for topic, level in (("orders", 18), ("orders", 99), ("orders", 99), ("refunds", 19)):
        sent = header(topic, properties={"UNIQ_KEY": "U1", "DELAY": str(level)})
        assert world.send(sent).code == ResponseCode.SUCCESS
    lowered = [text for text in caplog.messages if "delay level" in text]
    assert [text[: text.index(",")] for text in lowered] == [
        "a send to orders asked for delay level 99",
        "a send to refunds asked for delay level 19",
    ]


def test_delay_level_0_is_none() -> None:
    world = SendWorld()
    world.send(header(properties={"UNIQ_KEY": "U1", "DELAY": "0"}))
    assert len(world.stored("orders")) == 1


@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        ({"TIMER_DELAY_MS": "soon"}, ResponseCode.MESSAGE_ILLEGAL, "timer message illegal"),
        ({"INNER_NUM": "2"}, ResponseCode.MESSAGE_ILLEGAL, "not an inner batch"),
        ({"DELAY": "soon"}, ResponseCode.MESSAGE_ILLEGAL, "DELAY"),
    ],
)
def test_what_is_not_served_is_refused(
    given: dict[str, str], code: ResponseCode, word: str
) -> None:
    world = SendWorld()
    answer = world.send(header(properties={"UNIQ_KEY": "U1", **given}))
    assert answer.code == code
    assert answer.remark is not None
    assert word in answer.remark
    assert answer.texts() == REGION
    assert world.store.log.end == 0


def test_half_messages_are_refused_if_that_is_set() -> None:
    world = SendWorld(reject_transaction_message=True)
    answer = world.send(header(properties={"UNIQ_KEY": "U1", "TRAN_MSG": "true"}))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark is not None
    assert answer.remark.startswith("the broker[10.0.0.7] sending transaction message is forbidden")
    assert world.store.log.end == 0


def test_a_message_with_a_delivery_time_waits_and_its_answer_has_the_handle() -> None:
    world = SendWorld()
    given = {"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "2500"}
    answer = world.send(header(properties=given, queue_id=3)).read(SendMessageAnswer)
    assert answer.recall_handle == recall_handle("orders", "broker-a", NOW + 2_001, "U1")
    assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (3, 0, "U1")
    (waiting,) = world.stored("rmq_sys_wheel_timer")
    assert waiting.properties.items() >= {"TIMER_OUT_MS": str(NOW + 2_000), **given}.items()
    at_once = header(properties={"UNIQ_KEY": "U2", "TIMER_DELIVER_MS": "1"})
    assert world.send(at_once).read(SendMessageAnswer).recall_handle is None
    levelled = header(properties={**given, "DELAY": "1"})
    assert world.send(levelled).read(SendMessageAnswer).recall_handle is None
    assert len(world.stored("rmq_sys_wheel_timer")) == 1
    assert len(world.stored("orders")) == 1


def test_clients_may_not_write_into_the_timer_topic_where_the_message_names_its_topic() -> None:
    world = SendWorld()
    given = {"UNIQ_KEY": "U1", "TIMER_OUT_MS": "5", "REAL_TOPIC": "orders", "REAL_QID": "0"}
    answer = world.send(header("rmq_sys_wheel_timer", properties=given))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert world.store.log.end == 0


def test_an_inner_batch_is_refused_by_its_flag() -> None:
    answer = SendWorld().send(header(sys_flag=flags.INNER_BATCH))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (answer.remark or "").startswith("the message is illegal, maybe msg body or properties")


def test_a_topic_of_many_tags_marks_its_messages() -> None:
    world = SendWorld()
    world.create("orders", topic_filter_type=TopicFilterType.MULTI_TAG)
    world.send(header(sys_flag=flags.COMPRESSED | flags.COMPRESSION_LZ4))
    record = world.store.record(0)
    assert record is not None
    assert record.sys_flag == flags.COMPRESSED | flags.COMPRESSION_LZ4 | flags.MULTI_TAGS


def test_a_retry_goes_to_its_topic_and_once_too_often_to_the_dead_letters() -> None:
    world = SendWorld()
    retry = "%RETRY%billing"
    world.send(header(retry, reconsume_times=3, max_reconsume_times=3))
    results = world.send(header(retry, reconsume_times=4, max_reconsume_times=3))
    assert results.read(SendMessageAnswer).queue_id == 0
    assert [message.reconsume_times for message in world.stored(retry)] == [3]
    (dead,) = world.stored("%DLQ%billing")
    assert dead.reconsume_times == 4
    assert dead.properties["DELAY"] == "-1"


def test_a_retry_that_waits_comes_to_its_topic_by_the_schedule() -> None:
    world = SendWorld()
    given = {"UNIQ_KEY": "U1", "DELAY": "4", "TRAN_MSG": "true"}
    sent = header("%RETRY%billing", reconsume_times=1, properties=given)
    assert world.send(sent).code == ResponseCode.SUCCESS
    (message,) = world.stored("SCHEDULE_TOPIC_XXXX", 3)
    assert message.properties["REAL_TOPIC"] == "%RETRY%billing"


def test_a_batch_is_stored_as_its_messages() -> None:
    world = SendWorld()
    parts = [(1, b"one", b"UNIQ_KEY\x01A\x02"), (2, b"two", b"UNIQ_KEY\x01B\x02")]
    sent = header(batch=True, properties={"UNIQ_KEY": "ALL", "WAIT": "true"})
    answer = world.send(sent, batch.encode(parts), code=RequestCode.SEND_BATCH_MESSAGE)
    results = answer.read(SendMessageAnswer)
    assert len(results.msg_id.split(",")) == 2
    assert (results.transaction_id, results.queue_offset) == ("ALL", 0)
    messages = world.stored("orders")
    assert [message.body for message in messages] == [b"one", b"two"]
    assert messages[1].properties == {"UNIQ_KEY": "B"}  # nothing is added to those of a batch


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("%RETRY%billing", "batch request does not support retry group %RETRY%billing"),
        ("%DLQ%" + "g" * 123, "message topic length too long 128"),
    ],
)
def test_batches_to_retry_topics_and_long_names_are_refused(topic: str, remark: str) -> None:
    answer = SendWorld().send(header(topic, batch=True), batch.encode([(0, b"x", b"")]))
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, remark)
    assert answer.texts() == REGION


def test_a_body_over_the_limit_is_illegal_and_one_byte_less_is_not() -> None:
    world = SendWorld(replace(SMALL, max_message_bytes=1_000))
    assert world.send(header(), bytes(1_000)).code == ResponseCode.SUCCESS
    answer = world.send(header(), bytes(1_001))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark is not None
    assert answer.remark == (
        "the message is illegal, maybe msg body or properties length not matched. msg body length "
        "limit 1000B, msg properties length limit 32KB. The reason: the body has 1001 bytes; "
        "the limit is 1000"
    )
    assert answer.texts() == REGION


def test_properties_over_the_limit_are_illegal() -> None:
    world = SendWorld()
    answer = world.send(header(properties={"UNIQ_KEY": "U1", "long": "p" * 32_740}))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


def refusing_world(status: PutStatus) -> SendWorld:
    world = SendWorld()

    def refuse(messages: list[Incoming]) -> list[PutResult]:
        return [PutResult(status=status, remark="the disk is full") for _ in messages]

    world.store.append = refuse  # type: ignore[method-assign, assignment]
    return world


@pytest.mark.parametrize(
    ("status", "code", "begins"),
    [
        (
            PutStatus.SERVICE_NOT_AVAILABLE,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: ",
        ),
        (
            PutStatus.CREATE_MAPPED_FILE_FAILED,
            ResponseCode.SYSTEM_ERROR,
            "create mapped file failed, server is busy or broken.",
        ),
        (PutStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
        (
            PutStatus.MESSAGE_ILLEGAL,
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. ",
        ),
    ],
)
def test_the_reason_of_the_store_follows_java_s_words(
    status: PutStatus, code: ResponseCode, begins: str
) -> None:
    answer = refusing_world(status).send(header())
    assert answer.code == code
    assert (answer.remark or "").startswith(begins)
    assert (answer.remark or "").endswith("the disk is full")
    assert answer.texts() == REGION


def test_how_full_a_disk_is_that_does_not_tell_is_unknown_as_in_java() -> None:
    world = refusing_world(PutStatus.SERVICE_NOT_AVAILABLE)

    def usage(path: str) -> Usage:
        raise DiskFailed(f"can't tell how full {path} is", path=path, errno=5)

    world.disk.usage = usage  # type: ignore[method-assign]
    answer = world.send(header())
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "disk is full [CL: -1.00 CQ: -1.00 INDEX: -1.00]" in (answer.remark or "")


def test_a_flush_timeout_is_answered_with_the_offset_of_the_message() -> None:
    world = SendWorld()
    append = world.store.append

    def late(messages: list[Incoming]) -> list[PutResult]:
        return [replace(one, status=PutStatus.FLUSH_DISK_TIMEOUT) for one in append(messages)]

    world.store.append = late  # type: ignore[method-assign, assignment]
    answer = world.send(header())
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert answer.read(SendMessageAnswer).transaction_id == "U1"


def test_an_overload_is_answered() -> None:
    world = SendWorld(send_thread_pool_queue_capacity=1)
    world.inbox.put(incoming(), lambda _: None)
    answer = world.send(header())
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert (answer.remark or "").startswith("[OVERLOAD]")


def test_a_send_that_waited_too_long_is_refused() -> None:
    world = SendWorld()

    def slow(connection: Connection, request: Any) -> Any:
        outcome = world.handlers.send_v2(connection, request)
        world.clock.now += 300
        return outcome

    answer = ask({RequestCode.SEND_MESSAGE_V2: slow}, header(), b"x")
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert (answer.remark or "").startswith("[TIMEOUT_CLEAN_QUEUE]")


def test_one_way_sends_are_stored() -> None:
    world = SendWorld()
    address = Address("broker-a", 10911)

    async def conversation(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(address, Handlers(world.handlers.table()), network=network):
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(address)
                connection.oneway(header(), b"1 pizza")
                await clock.sleep(1)

    run_virtual(conversation)
    assert [message.body for message in world.stored("orders")] == [b"1 pizza"]
