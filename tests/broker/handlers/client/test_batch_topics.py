"""Requests about topics with batch queues: sends, send-backs, entries."""

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.client.queries import QueryHandlers
from orbitmq.broker.pulling.consumer_filters import ConsumerFilters
from orbitmq.message import batch, flags, properties
from orbitmq.message.ids import offset_id
from orbitmq.message.scan import Scan, split_inner
from orbitmq.wire.bodies.query import ConsumeQueueEntries
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.query import QueryConsumeQueue
from orbitmq.wire.headers.send import ConsumerSendMsgBack, SendMessageAnswer
from tests.broker.send_world import HERE, SendWorld, header
from tests.broker.world import ask
from tests.golden_files import golden

PARTS = [(1, b"one", b"UNIQ_KEY\x01A\x02"), (2, b"two", b"UNIQ_KEY\x01B\x02")]


@pytest.fixture
def world() -> SendWorld:
    made = SendWorld()
    made.create("orders", attributes={"+queue.type": "BatchCQ"})
    topic = made.topics.get("orders")
    assert topic is not None
    assert topic.has_batch_queues
    made.store.queues.topic_has_batches = lambda name: name == "orders"
    return made


def send_batch(world: SendWorld, **given: str) -> Frame:
    sent = header(batch=True, properties={"UNIQ_KEY": "ALL", "WAIT": "true", **given})
    return world.send(sent, batch.encode(PARTS), code=RequestCode.SEND_BATCH_MESSAGE)


def test_a_batch_is_stored_whole_and_its_id_is_in_the_answer(world: SendWorld) -> None:
    world.send(header())
    answer = send_batch(world).read(SendMessageAnswer)
    assert (answer.queue_offset, answer.batch_uniq_id, answer.transaction_id) == (1, "ALL", "ALL")
    _, message = world.stored("orders")
    assert answer.msg_id == offset_id(HERE, message.commit_log_offset)
    assert message.sys_flag == flags.INNER_BATCH | flags.NEED_UNWRAP
    assert message.properties == {
        "UNIQ_KEY": "ALL",
        "WAIT": "true",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "INNER_NUM": "2",
        "INNER_BASE": "1",
    }
    inner = split_inner(message)
    assert [(one.queue_offset, one.flag, one.body) for one in inner] == [
        (1, 1, b"one"),
        (2, 2, b"two"),
    ]
    assert world.send(header()).read(SendMessageAnswer).queue_offset == 3
    for _ in range(4):
        world.send(header("others"))
    world.stats.sample(world.clock.now + 10_000)
    assert world.stats.topic_put_tps("orders") == world.stats.topic_put_tps("others") > 0


def test_batches_are_stored_and_answered_as_by_java(world: SendWorld) -> None:
    java = golden("batch_queues")
    records = list(Scan(bytes.fromhex(java["commitlog"])))
    for sent, record in zip(java["sent"], records, strict=True):
        found = properties.decode(record.properties)
        given = {"UNIQ_KEY": found["UNIQ_KEY"]}
        asked = header(batch=sent["batch"], properties=given, queue_id=sent["queue"])
        answer = world.send(asked, bytes(record.body))
        expected = {name: text for name, text in sent["answer"].items() if name != "msgId"}
        assert {name: text for name, text in answer.texts().items() if name != "msgId"} == expected
        stored = world.stored("orders", sent["queue"])[-1]
        assert stored.sys_flag == record.sys_flag
        assert stored.queue_offset == record.queue_offset
        assert stored.body == record.body
        assert stored.properties == {**found, "CLUSTER": "DefaultCluster"}


def test_a_batch_without_an_id_is_stored_as_its_messages(world: SendWorld) -> None:
    sent = header(batch=True, properties={"WAIT": "true"})
    answer = world.send(sent, batch.encode(PARTS), code=RequestCode.SEND_BATCH_MESSAGE)
    results = answer.read(SendMessageAnswer)
    assert (len(results.msg_id.split(",")), results.batch_uniq_id) == (2, None)
    assert [message.body for message in world.stored("orders")] == [b"one", b"two"]


@pytest.mark.parametrize("batch_of", [True, False])
@pytest.mark.parametrize("state", [flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK])
def test_a_half_message_is_no_batch(world: SendWorld, state: int, batch_of: bool) -> None:
    given = {"UNIQ_KEY": "U1", "INNER_NUM": "2"}
    sys_flag = state | (0 if batch_of else flags.INNER_BATCH)
    sent = header(batch=batch_of, sys_flag=sys_flag, properties=given)
    code = RequestCode.SEND_BATCH_MESSAGE if batch_of else RequestCode.SEND_MESSAGE_V2
    assert world.send(sent, batch.encode(PARTS), code=code).code == ResponseCode.MESSAGE_ILLEGAL
    assert world.send(header()).read(SendMessageAnswer).queue_offset == 0


def test_a_batch_can_t_mark_itself(world: SendWorld) -> None:
    sys_flag = flags.INNER_BATCH | flags.NEED_UNWRAP
    others = header("others", batch=True, sys_flag=sys_flag)
    code = RequestCode.SEND_BATCH_MESSAGE
    refused = world.send(others, batch.encode(PARTS), code=code)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    without_id = header(batch=True, sys_flag=sys_flag, properties={"WAIT": "true"})
    assert world.send(without_id, batch.encode(PARTS), code=code).code == ResponseCode.SUCCESS
    assert [message.sys_flag for message in world.stored("orders")] == [0, 0]


@pytest.mark.parametrize("given", [{"DELAY": "3"}, {"TRAN_MSG": "true"}])
def test_what_a_batch_can_t_be_is_refused(world: SendWorld, given: dict[str, str]) -> None:
    answer = send_batch(world, **given)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (answer.remark or "").startswith("the message is illegal, maybe msg body or properties")
    assert world.store.log.end == 0


def test_a_client_may_send_an_inner_batch_of_its_own(world: SendWorld) -> None:
    given = {"UNIQ_KEY": "U1", "INNER_NUM": "2"}
    sent = header(sys_flag=flags.INNER_BATCH | flags.NEED_UNWRAP, properties=given)
    answer = world.send(sent, batch.encode(PARTS)).read(SendMessageAnswer)
    (message,) = world.stored("orders")
    assert answer.msg_id == offset_id(HERE, message.commit_log_offset)
    assert (answer.queue_offset, answer.batch_uniq_id) == (0, None)
    assert message.properties["INNER_BASE"] == "0"
    assert len(split_inner(message)) == 2
    assert world.store.lookup.max_offset("orders", 0) == 2


def test_a_message_of_a_batch_is_not_taken_back(world: SendWorld) -> None:
    """Java's broker refuses it too, and its client sends the message itself."""
    send_batch(world)
    world.groups.get("billing")
    sent_back = ConsumerSendMsgBack(offset=0, group="billing", delay_level=0)
    answer = ask(world.back_handlers.table(), sent_back)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("MESSAGE_ILLEGAL")


def test_the_entries_of_a_batch_queue_are_shown(world: SendWorld) -> None:
    send_batch(world)
    world.send(header())
    table = QueryHandlers(
        store=world.store,
        members=Members(),
        filters=ConsumerFilters(world.settings, world.clock),
        settings=world.settings,
    ).table()
    asked = QueryConsumeQueue(topic="orders", queue_id=0, index=1, count=5)
    shown = ConsumeQueueEntries.from_json(ask(table, asked).body)
    assert [entry.physic_offset for entry in shown.queue_data or ()] == [
        message.commit_log_offset for message in world.stored("orders")
    ]
    assert (shown.min_queue_index, shown.max_queue_index) == (0, 3)
    one = ask(table, QueryConsumeQueue(topic="orders", queue_id=0, index=0, count=1))
    assert len(ConsumeQueueEntries.from_json(one.body).queue_data or ()) == 1
