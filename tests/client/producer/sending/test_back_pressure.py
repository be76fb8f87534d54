"""Room for sends: in order, in time, never lost, never more than there is. On virtual time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.sending.back_pressure import Permits, Shortage, ShortageKind
from orbitmq.testing.clocks import VirtualClock, run_virtual

HOUR_MS = 3_600_000


async def turns(count: int = 3) -> None:
    """Let every task run as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_room_is_taken_without_waiting_while_there_is() -> None:
    permits = Permits(2, 100)
    assert permits.take(60)
    assert not permits.take(41)
    assert permits.take(40)
    assert not permits.take(0)
    permits.give_back(60)
    assert permits.take(1)
    assert (permits.in_flight, permits.in_flight_bytes) == (2, 41)


def test_permits_of_many_sends_are_given_back_at_once() -> None:
    async def main(_clock: VirtualClock) -> None:
        permits = Permits(3, 100)
        assert all(permits.take(size) for size in (10, 20, 30))
        waiting = [asyncio.create_task(permits.wait(1, HOUR_MS)) for _ in range(3)]
        await turns()
        permits.give_back(0, count=0)
        assert permits.waiting == 3
        permits.give_back(30, count=2)
        await turns()
        assert [one.done() for one in waiting] == [True, True, False]
        assert (permits.in_flight, permits.in_flight_bytes) == (3, 32)
        permits.give_back(32, count=3)
        await asyncio.gather(*waiting)
        permits.give_back(1, count=1)
        await permits.drained()

    run_virtual(main)


def test_a_body_larger_than_all_room_goes_alone() -> None:
    permits = Permits(10, 100)
    assert permits.take(1_000)
    assert not permits.take(1)
    permits.give_back(1_000)
    assert permits.take(1)
    assert not permits.take(1_000)


def test_those_who_wait_get_room_in_the_order_of_their_calls() -> None:
    async def main(_clock: VirtualClock) -> list[int]:
        permits = Permits(1, 100)
        permits.take(1)
        order: list[int] = []

        async def send(number: int) -> None:
            assert await permits.wait(1, HOUR_MS) is None
            order.append(number)
            await asyncio.sleep(0.001)
            permits.give_back(1)

        tasks = [asyncio.create_task(send(number)) for number in range(5)]
        await turns()
        permits.give_back(1)
        await asyncio.gather(*tasks)
        assert permits.in_flight == 0
        return order

    assert run_virtual(main) == [0, 1, 2, 3, 4]


def test_nobody_slips_past_those_who_wait() -> None:
    async def main(_clock: VirtualClock) -> None:
        permits = Permits(10, 100)
        permits.take(90)
        large = asyncio.create_task(permits.wait(50, HOUR_MS))
        await turns()
        assert not permits.take(1), "there would be room, but not before the large one"
        permits.give_back(90)
        assert permits.take(1)
        assert await large is None

    run_virtual(main)


def test_waiting_ends_with_its_time() -> None:
    async def main(clock: VirtualClock) -> tuple[Shortage | None, int]:
        permits = Permits(1, 100)
        permits.take(1)
        return await permits.wait(1, 250), clock.monotonic_ms()

    shortage, now_ms = run_virtual(main)
    assert shortage == Shortage(ShortageKind.COUNT, in_flight=1, in_flight_bytes=1, waiting=0)
    assert now_ms == 250


def test_the_shortage_is_the_one_that_its_time_ended_with() -> None:
    async def main(_clock: VirtualClock) -> Shortage | None:
        permits = Permits(1, 100)
        permits.take(1)
        waiting = asyncio.create_task(permits.wait(1, 250))
        await turns()
        # In the turn of the loop in which its time is over, as after a stall.
        asyncio.get_running_loop().call_later(0.25, permits.give_back, 1)
        return await waiting

    shortage = run_virtual(main)
    assert shortage == Shortage(ShortageKind.COUNT, in_flight=1, in_flight_bytes=1, waiting=0)


def test_it_tells_which_bound_was_met() -> None:
    async def main(_clock: VirtualClock) -> list[ShortageKind]:
        permits = Permits(10, 100, waiting_max=1)
        permits.take(100)
        shortages = [await permits.wait(1, 0), await permits.wait(1, 5)]
        waiting = asyncio.create_task(permits.wait(1, HOUR_MS))
        await turns()
        shortages.append(await permits.wait(1, HOUR_MS))
        permits.close()
        shortages += [await waiting, await permits.wait(1, HOUR_MS)]
        assert not permits.take(1)
        return [shortage.kind for shortage in shortages if shortage]

    bytes_, waiting, closed = ShortageKind.BYTES, ShortageKind.WAITING, ShortageKind.CLOSED
    assert run_virtual(main) == [bytes_, bytes_, waiting, closed, closed]


def test_when_the_first_gives_up_those_behind_may_go() -> None:
    async def main(clock: VirtualClock) -> int:
        permits = Permits(10, 100)
        permits.take(90)
        large = asyncio.create_task(permits.wait(50, 100))
        await turns()
        assert await permits.wait(5, HOUR_MS) is None
        assert await large is not None
        return clock.monotonic_ms()

    assert run_virtual(main) == 100


@pytest.mark.parametrize("granted", [False, True])
def test_who_is_cancelled_has_taken_nothing(granted: bool) -> None:
    async def main(_clock: VirtualClock) -> None:
        permits = Permits(1, 100)
        permits.take(1)
        first = asyncio.create_task(permits.wait(1, HOUR_MS))
        second = asyncio.create_task(permits.wait(1, HOUR_MS))
        await turns()
        if granted:
            permits.give_back(1)  # handed over, but the task has not run since
            assert permits.in_flight == 1
        first.cancel()
        if not granted:
            permits.give_back(1)  # it is cancelled, and still in line
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second is None
        permits.give_back(1)
        assert (permits.in_flight, permits.in_flight_bytes, permits.waiting) == (0, 0, 0)

    run_virtual(main)


def test_a_drain_waits_for_all_of_them() -> None:
    async def main(clock: VirtualClock) -> int:
        permits = Permits(1, 100)
        await permits.drained()

        async def send() -> None:
            assert await permits.wait(1, HOUR_MS) is None
            await asyncio.sleep(1)
            permits.give_back(1)

        tasks = [asyncio.create_task(send()) for _ in range(3)]
        await turns()
        await asyncio.gather(permits.drained(), permits.drained())
        await asyncio.gather(*tasks)
        return clock.monotonic_ms()

    assert run_virtual(main) == 3_000


def test_room_is_given_back_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Permits(1, 100).give_back(1)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 150),  # bytes
            st.integers(0, 50),  # when it is called
            st.integers(0, 60),  # how long it would wait
            st.integers(0, 40),  # how long it is on its way
            st.none() | st.integers(0, 100),  # when it is cancelled
        ),
        max_size=30,
    )
)
def test_bounds_hold_and_all_room_comes_back(
    sends: list[tuple[int, int, int, int, int | None]],
) -> None:
    async def main(_clock: VirtualClock) -> None:
        permits = Permits(3, 100)

        async def send(size: int, call: int, patience: int, way: int) -> None:
            await asyncio.sleep(call / 1_000)
            if await permits.wait(size, patience) is not None:
                return
            try:
                assert permits.in_flight <= 3
                assert permits.in_flight_bytes <= 100
                await asyncio.sleep(way / 1_000)
            finally:
                permits.give_back(size)

        tasks = []
        loop = asyncio.get_running_loop()
        for size, call, patience, way, cancel in sends:
            tasks.append(asyncio.create_task(send(size, call, patience, way)))
            if cancel is not None:
                loop.call_later(cancel / 1_000, tasks[-1].cancel)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError)
        assert (permits.in_flight, permits.in_flight_bytes, permits.waiting) == (0, 0, 0)
        assert all(permits.take(1) for _ in range(3))

    run_virtual(main)


def test_it_introduces_itself() -> None:
    permits = Permits(2, 100)
    permits.take(7)
    assert repr(permits) == "<Permits 1 of 2 sends, 7 of 100 bytes, 0 waiting>"
