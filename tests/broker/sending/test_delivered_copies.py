from msgspec.structs import replace

from orbitmq.broker.sending.delivered_copies import due_message, find_alike, real_topic_of
from orbitmq.message import properties
from orbitmq.message.record_view import RecordView
from tests.broker.send_world import SMALL, SendWorld
from tests.store.logs import incoming

TEXT = {"UNIQ_KEY": "U1", "REAL_TOPIC": "orders", "REAL_QID": "2"}


def stored(world: SendWorld, topic: str, *, body: bytes = b"x", **more: str) -> RecordView:
    text = properties.encode({**TEXT, **more})
    before = world.store.log.end
    world.put(incoming(body, topic=topic, properties=text))
    found = world.store.record(before)
    assert found is not None
    return found


def test_the_message_to_deliver_is_for_the_real_topic() -> None:
    world = SendWorld()
    record = stored(world, "waiting", DELAY="3")
    message = due_message(record)
    assert message is not None
    assert real_topic_of(record) == "orders"
    assert (message.topic, message.queue_id, bytes(message.body)) == ("orders", 2, b"x")
    assert message.properties == record.properties
    assert not message.wait
    assert due_message(stored(world, "waiting", REAL_QID="-1")) is None
    assert due_message(stored(world, "waiting", REAL_QID="two")) is None
    assert due_message(stored(world, "waiting", REAL_TOPIC="RMQ_SYS_TRANS_HALF_TOPIC")) is None
    assert due_message(stored(world, "waiting", REAL_TOPIC="rmq_sys_wheel_timer")) is None


def test_the_checksum_of_the_waiting_record_is_not_delivered() -> None:
    world = SendWorld(replace(SMALL, append_crc=True))
    record = stored(world, "waiting")
    assert properties.CRC32.encode() in record.properties
    message = due_message(record)
    assert message is not None
    assert properties.decode(message.properties) == TEXT


def test_copies_are_found_by_their_key_whatever_a_timer_added() -> None:
    world = SendWorld()
    record = stored(world, "waiting")
    copy = stored(world, "orders", TIMER_ENQUEUE_MS="1", TIMER_DEQUEUE_MS="2", TIMER_ROLL_TIMES="1")
    stored(world, "orders", body=b"another body")
    stored(world, "orders", colour="blue")
    stored(world, "others")
    assert find_alike(world.store, record, "orders", 0).keys() == {copy.commit_log_offset}
    assert not find_alike(world.store, record, "orders", 1)


def test_without_an_index_or_a_key_none_are_found() -> None:
    world = SendWorld(replace(SMALL, index_enabled=False))
    record = stored(world, "waiting")
    stored(world, "orders")
    assert not find_alike(world.store, record, "orders", 0)
    indexed = SendWorld()
    indexed.put(incoming(b"x", topic="waiting"))
    without_key = indexed.store.record(0)
    assert without_key is not None
    assert not find_alike(indexed.store, without_key, "waiting", 0)
