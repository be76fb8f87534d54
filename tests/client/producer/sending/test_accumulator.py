"""Which sends travel together and when, in virtual time."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from orbitmq.client.producer.sending.accumulator import Accumulator, Batches, can_be_gathered
from orbitmq.client.settings import ProducerSettings
from orbitmq.clock import Clock
from orbitmq.errors import BrokerBusy
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.testing.clocks import VirtualClock, run_virtual

QUEUE = MessageQueue("orders", "broker-a", 0)


def message(topic: str = "orders", size: int = 10, **fields: object) -> Message:
    return Message(topic, b"x" * size, **fields)  # type: ignore[arg-type]


class Broker:
    """Stands in for the sending of batches: takes a time, answers, or fails."""

    def __init__(self, clock: Clock, *, takes_s: float = 0.0) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self.error: Exception | None = None
        self.sent: list[tuple[int, list[Message], MessageQueue | None]] = []
        self.ended = 0

    async def send(
        self, messages: Sequence[Message], queue: MessageQueue | None
    ) -> list[SendReceipt]:
        self.sent.append((self._clock.monotonic_ms(), list(messages), queue))
        try:
            await asyncio.sleep(self._takes_s)
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return [
            SendReceipt(
                status=SendStatus.SEND_OK,
                message_id=str(number),
                offset_message_id="",
                queue=queue or QUEUE,
                queue_offset=number,
            )
            for number in range(len(messages))
        ]

    def accumulator(self, **settings: object) -> Accumulator:
        made = ProducerSettings("billing", auto_batch=True, **settings)  # type: ignore[arg-type]
        return Accumulator(made, self._clock, self.send)


def added(accumulator: Accumulator, *messages: Message) -> list[asyncio.Future[SendReceipt]]:
    waiters = [accumulator.add(one) for one in messages]
    assert None not in waiters
    return [waiter for waiter in waiters if waiter is not None]


# When a batch leaves


def test_a_batch_leaves_when_its_first_message_has_waited_long_enough() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        accumulator = broker.accumulator()
        first = added(accumulator, message())
        await clock.sleep(0.007)
        second = added(accumulator, message(size=11))
        receipts = await asyncio.gather(*first, *second)
        assert [receipt.queue_offset for receipt in receipts] == [0, 1]
        assert [(at_ms, len(batch)) for at_ms, batch, _ in broker.sent] == [(10, 2)]
        assert accumulator.held_bytes == 0

    run_virtual(main)


def test_a_full_batch_leaves_at_once_and_no_batch_is_larger() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        accumulator = broker.accumulator(batch_bytes=100)
        waiters = added(accumulator, *(message(size=size) for size in (40, 60, 30, 80, 5)))
        await asyncio.gather(*waiters)
        sizes = [[len(one.body) for one in batch] for _, batch, _ in broker.sent]
        assert sizes == [[40, 60], [30], [80, 5]]
        assert [at_ms for at_ms, _, _ in broker.sent] == [0, 0, 10]

    run_virtual(main)


def test_a_batch_of_very_many_small_messages_leaves_too() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        accumulator = broker.accumulator()
        await asyncio.gather(*added(accumulator, *[message(size=1)] * 2_500))
        assert [len(batch) for _, batch, _ in broker.sent] == [1_024, 1_024, 452]

    run_virtual(main)


def test_each_batch_has_its_own_time() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        accumulator = broker.accumulator()
        waiters = []
        for topic in ("a", "b", "c"):
            waiters += added(accumulator, message(topic))
            await clock.sleep(0.004)
        await asyncio.gather(*waiters)
        assert [(at_ms, batch[0].topic) for at_ms, batch, _ in broker.sent] == [
            (10, "a"),
            (14, "b"),
            (18, "c"),
        ]

    run_virtual(main)


# What travels together


def test_topic_tag_wait_flag_and_queue_are_kept_apart() -> None:
    async def main(clock: VirtualClock) -> int:
        broker = Broker(clock)
        accumulator = broker.accumulator()
        kinds = [
            message(),
            message("bills"),
            message(tags="paid"),
            message(wait_stored=False),
        ]
        waiters = added(accumulator, *kinds, *kinds)
        chosen = [accumulator.add(message(), QUEUE) for _ in range(2)]
        await asyncio.gather(*waiters, *filter(None, chosen))
        assert {len(batch) for _, batch, _ in broker.sent} == {2}
        assert [queue for _, _, queue in broker.sent] == [None] * 4 + [QUEUE]
        return len(broker.sent)

    assert run_virtual(main) == 5


@pytest.mark.parametrize(
    "alone",
    [
        message(delay_level=3),
        message(delay=timedelta(seconds=1)),
        message(deliver_at=datetime(2030, 1, 1, tzinfo=UTC)),
        message("%RETRY%billing"),
    ],
    ids=["delay level", "delay", "time of delivery", "retry topic"],
)
def test_what_a_broker_stores_elsewhere_first_goes_alone(alone: Message) -> None:
    assert not can_be_gathered(alone)

    async def main(clock: VirtualClock) -> None:
        accumulator = Broker(clock).accumulator()
        assert accumulator.add(alone) is None
        assert accumulator.held_bytes == 0, "unlike in Java, where its bytes are held forever"

    run_virtual(main)


@pytest.mark.parametrize(
    "other",
    [
        {"delay_level": 3},
        {"delay": timedelta(seconds=1)},
        {"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"size": 100},
    ],
    ids=["delay level", "delay", "time of delivery", "size"],
)
def test_a_batch_that_is_filling_takes_no_more_than_a_new_one(other: dict[str, object]) -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        accumulator = broker.accumulator(batch_bytes=100, total_bytes=100)
        waiters = added(accumulator, message(), message(properties={"colour": "blue"}))
        assert accumulator.add(message(**other)) is None  # type: ignore[arg-type]
        assert accumulator.add(message(size=81)) is None, "it would exceed the total"
        waiters += added(accumulator, message(size=79))
        assert accumulator.held_bytes == 99
        await asyncio.gather(*waiters)
        assert [len(batch) for _, batch, _ in broker.sent] == [3]

    run_virtual(main)


def test_what_fills_a_batch_by_itself_goes_alone() -> None:
    batches = Batches(linger_ms=10, batch_bytes=100, total_bytes=1_000)
    assert batches.takes(message(size=99))
    assert not batches.takes(message(size=100))


def test_what_is_held_has_a_bound_until_batches_have_ended() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator(batch_bytes=100, total_bytes=250)
        waiters = added(accumulator, *[message(size=50)] * 5)
        assert accumulator.add(message(size=1)) is None
        await clock.sleep(0.5)
        assert accumulator.add(message(size=1)) is None, "on their way, but not there yet"
        await asyncio.gather(*waiters)
        assert accumulator.held_bytes == 0
        await asyncio.gather(*added(accumulator, message(size=1)))

    run_virtual(main)


# How it ends


def test_an_error_is_everybody_s_each_its_own() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        broker.error = BrokerBusy(2, "[OVERLOAD]", address="10.0.0.7:10911")
        accumulator = broker.accumulator()
        waiters = added(accumulator, message(), message())
        errors = await asyncio.gather(*waiters, return_exceptions=True)
        assert [repr(error) for error in errors] == [repr(broker.error)] * 2
        assert errors[0] is not errors[1]
        assert all(isinstance(e, BrokerBusy) and e.__cause__ is broker.error for e in errors)
        assert accumulator.held_bytes == 0

    run_virtual(main)


def test_a_defect_of_the_sender_leaves_nobody_waiting() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock)
        broker.error = ZeroDivisionError("a defect")
        with pytest.raises(ZeroDivisionError):
            await asyncio.gather(*added(broker.accumulator(), message()))

    run_virtual(main)


def test_who_goes_away_in_time_is_not_sent() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator()
        gone, stays, late = added(accumulator, message(), message(size=11), message(size=12))
        gone.cancel()
        await clock.sleep(0.5)
        late.cancel()  # it is on its way
        assert (await stays).queue_offset == 0
        assert [len(one.body) for one in broker.sent[0][1]] == [11, 12]
        only = added(accumulator, message())
        only[0].cancel()
        await accumulator.flush(5_000)
        assert len(broker.sent) == 1
        assert accumulator.held_bytes == 0

    run_virtual(main)


def test_a_batch_is_given_up_when_the_last_one_has_gone_away() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator()
        waiters = added(accumulator, *(message(size=size) for size in (11, 12, 13)))
        await clock.sleep(0.5)
        for waiter in (waiters[1], waiters[0], waiters[2]):
            assert broker.ended == 0, "somebody still waits"
            waiter.cancel()
            await clock.sleep(0.1)
        assert (broker.ended, accumulator.held_bytes) == (1, 0)
        assert clock.monotonic_ms() < 1_000
        await asyncio.gather(*added(accumulator, message()))

    run_virtual(main)


def test_a_flush_sends_all_and_waits_for_it() -> None:
    async def main(clock: VirtualClock) -> int:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator()
        waiters = added(accumulator, message("a"), message("b"))
        await accumulator.flush(5_000)
        assert all(waiter.done() for waiter in waiters)
        return clock.monotonic_ms()

    assert run_virtual(main) == 1_000


def test_a_flush_waits_no_longer_than_it_may() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator()
        (waiter,) = added(accumulator, message("a"))
        await accumulator.flush(300)
        assert clock.monotonic_ms() == 300
        await waiter  # what has left goes on

    run_virtual(main)


def test_a_cancel_tells_everybody() -> None:
    async def main(clock: VirtualClock) -> None:
        broker = Broker(clock, takes_s=1)
        accumulator = broker.accumulator()
        on_their_way = added(accumulator, message("a"))
        await clock.sleep(0.5)
        filling = added(accumulator, message("b"))
        accumulator.cancel()
        await asyncio.wait([*on_their_way, *filling])
        assert all(waiter.cancelled() for waiter in (*on_their_way, *filling))
        await accumulator.flush(5_000)
        assert accumulator.held_bytes == 0
        assert len(broker.sent) == 1

    run_virtual(main)
