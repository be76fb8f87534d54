from orbitmq.broker.sending.op_messages import named_offsets
from orbitmq.message import properties
from orbitmq.message.names import OP_HALF_TOPIC
from orbitmq.message.record_view import RecordView
from tests.broker.send_world import HERE, SendWorld
from tests.store.logs import incoming


def op(body: bytes, tags: str = "d") -> RecordView:
    world = SendWorld()
    text = properties.encode({"TAGS": tags})
    world.put(incoming(body, topic=OP_HALF_TOPIC, properties=text))
    record = world.store.record(0)
    assert record is not None
    return record


def test_offsets_of_both_javas_are_read() -> None:
    assert named_offsets(op(b"0,1,3,40,")) == [0, 1, 3, 40]
    assert named_offsets(op(b"7")) == [7]


def test_what_is_no_offset_is_skipped() -> None:
    assert named_offsets(op(b"1,x,-4,,99999999999999999999,2")) == [1, 2]
    assert named_offsets(op(b"1,", tags="other")) == []


def bodies(world: SendWorld) -> list[bytes]:
    return [message.body for message in world.stored(OP_HALF_TOPIC)]


def test_offsets_are_collected_for_the_interval() -> None:
    world = SendWorld()
    world.ops.add(4)
    world.clock.now += 2_999
    world.ops.add(5)
    world.ops.tick()
    world.take_turns()
    assert bodies(world) == []
    world.clock.now += 1
    world.ops.tick()
    world.take_turns()
    assert bodies(world) == [b"4,5,"]


def test_the_message_is_as_java_writes_it() -> None:
    world = SendWorld()
    world.ops.add(4)
    world.ops.write()
    world.take_turns()
    [message] = world.stored(OP_HALF_TOPIC)
    assert message.properties == {"TAGS": "d", "WAIT": "true"}
    assert (message.queue_id, message.sys_flag, message.flag) == (0, 0, 0)
    assert message.born_host == message.store_host == HERE
    assert message.born_timestamp_ms == world.clock.now


def test_a_full_op_message_is_written_at_once() -> None:
    world = SendWorld(transaction_op_msg_max_size=10)
    for offset in range(100, 107):
        world.ops.add(offset)
    world.take_turns()
    assert bodies(world) == [b"100,101,102,", b"103,104,105,", b"106,"]


def test_one_that_has_to_be_stored_now_takes_the_others_along() -> None:
    world = SendWorld()
    stored: list[object] = []
    world.ops.add(4)
    world.ops.add_now(5, stored.append)
    world.ops.add_now(6, stored.append)
    world.take_turns()
    assert bodies(world) == [b"4,5,6,"]
    assert len(stored) == 2


def test_offsets_that_could_not_be_stored_are_kept() -> None:
    world = SendWorld()
    failed: list[object] = []
    is_open, world.store._is_open = world.store._is_open, False
    world.ops.add(4)
    world.ops.add_now(5, failed.append)
    world.take_turns()
    assert len(failed) == 1
    world.store._is_open = is_open
    world.clock.now += 3_000
    world.ops.tick()
    world.take_turns()
    assert bodies(world) == [b"4,"]


def test_the_op_offset_passes_only_what_is_not_needed() -> None:
    world = SendWorld()
    for offsets in ((0, 1), (2, 9), (3,)):
        for offset in offsets:
            world.ops.add(offset)
        world.ops.write()
        world.take_turns()
    assert world.ops.offset_before(1) == 0
    assert world.ops.offset_before(2) == 1
    assert world.ops.offset_before(9) == 1
    assert world.ops.offset_before(10) == 3
    world.store.close()
    again = SendWorld(disk=world.disk)
    assert list(again.ops.load(1)) == [2, 9, 3]
    assert again.ops.offset_before(5) == 1
    assert again.ops.offset_before(10) == 3
    again.store.close()
    assert list(SendWorld(disk=world.disk).ops.load(None)) == [0, 1, 2, 9, 3]
