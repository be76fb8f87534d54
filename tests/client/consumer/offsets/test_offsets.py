from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.message.model import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_noted_offsets_only_increase() -> None:
    offsets = NotedOffsets()
    assert offsets.get(QUEUE) is None
    offsets.update(QUEUE, 0)
    offsets.update(QUEUE, 7)
    offsets.update(QUEUE, 5)
    assert offsets.get(QUEUE) == 7


def test_a_reset_may_go_back_and_a_forgotten_queue_has_no_offset() -> None:
    offsets = NotedOffsets()
    offsets.update(QUEUE, 7)
    offsets.update(QUEUE, 5, increase_only=False)
    assert offsets.get(QUEUE) == 5
    offsets.forget(QUEUE)
    offsets.forget(QUEUE)
    assert offsets.get(QUEUE) is None
