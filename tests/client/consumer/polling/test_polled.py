"""What poll returns, and when it counts as read."""

import asyncio

from orbitmq.client.consumer.polling.polled import PolledDelivery
from orbitmq.client.consumer.polling.positions import Positions
from orbitmq.clock import SystemClock
from orbitmq.message.model import StoredMessage
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.consumer.polling.parts import QUEUES, MemoryOffsets, an_inbox

A, B, *_ = QUEUES


def a_delivery() -> tuple[PolledDelivery, Positions]:
    positions = Positions(MemoryOffsets(), auto_commit=True)
    return PolledDelivery(positions, SystemClock(), lambda *_counted: None), positions


def offsets(messages: list[StoredMessage]) -> list[int]:
    return [one.queue_offset for one in messages]


def test_messages_are_taken_queue_by_queue_up_to_a_number() -> None:
    polled, _ = a_delivery()
    polled.ready(an_inbox(A, 1, 2, 3))
    polled.ready(an_inbox(B, 7, 8))
    assert offsets(polled.take(2)) == [1, 2]
    assert offsets(polled.take(2)) == [7, 8]  # the other queue's turn
    assert offsets(polled.take(2)) == [3]
    assert polled.take(2) == []


def test_a_position_moves_with_the_acknowledgement_only() -> None:
    polled, positions = a_delivery()
    polled.ready(an_inbox(A, 1, 2, 3))
    polled.take(2)
    assert (positions.get(A), polled.next_offset(A)) == (None, 3)
    polled.acknowledge()
    assert (positions.get(A), polled.next_offset(A)) == (3, None)
    polled.take(2)
    polled.acknowledge()
    polled.acknowledge()
    assert positions.get(A) == 4


def test_what_is_discarded_does_not_count_as_read() -> None:
    polled, positions = a_delivery()
    polled.ready(an_inbox(A, 1, 2))
    polled.ready(an_inbox(B, 7))
    polled.take(9)
    polled.discard(A)
    polled.acknowledge()
    assert (positions.get(A), positions.get(B)) == (None, 8)


def test_nothing_of_a_dropped_queue_is_returned_or_counted() -> None:
    polled, positions = a_delivery()
    inbox = an_inbox(A, 1, 2)
    polled.ready(inbox)
    assert offsets(polled.take(1)) == [1]
    inbox.drop()
    assert polled.take(9) == []
    polled.acknowledge()
    asyncio.run(polled.drained(inbox))
    assert (positions.get(A), polled.next_offset(A)) == (None, None)


def test_a_paused_queue_keeps_its_messages() -> None:
    polled, _ = a_delivery()
    polled.pause([A])
    polled.ready(an_inbox(A, 1))
    waiting = an_inbox(B, 7)
    polled.ready(waiting)
    polled.pause([B])
    assert polled.take(9) == []
    assert polled.paused == {A, B}
    polled.resume([B])
    assert offsets(polled.take(9)) == [7]
    polled.resume([A])
    assert offsets(polled.take(9)) == [1]


def test_a_wait_ends_with_a_message_in_time_or_with_the_close() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        polled, _ = a_delivery()
        loop = asyncio.get_running_loop()
        loop.call_later(1, polled.ready, an_inbox(A, 1))
        ended: list[object] = [await polled.wait(5), clock.monotonic_ms()]
        ended += [await polled.wait(5), clock.monotonic_ms()]
        loop.call_later(1, lambda: loop.create_task(polled.close(0)))
        ended += [await polled.wait(None), clock.monotonic_ms(), await polled.wait(None)]
        return ended

    assert run_virtual(main) == [True, 1_000, False, 6_000, False, 7_000, False]


def test_a_resumed_queue_ends_a_wait() -> None:
    async def main(_clock: VirtualClock) -> bool:
        polled, _ = a_delivery()
        polled.pause([A])
        polled.ready(an_inbox(A, 1))
        asyncio.get_running_loop().call_later(1, polled.resume, [A])
        return await polled.wait(5)

    assert run_virtual(main)
