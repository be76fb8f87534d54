import asyncio
import gc
from weakref import ref

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.timing import LoopStalls
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.scene import stand_still


def test_a_loop_that_is_held_up_is_noticed() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int, int]:
        loop = asyncio.get_running_loop()
        stalls = LoopStalls.watch()
        before = loop.time()
        stand_still(0.5)
        at_once = stalls.longest_ms_since(before)
        await asyncio.sleep(1)
        noted = stalls.longest_ms_since(before)
        later = stalls.longest_ms_since(loop.time() - 0.1)
        stalls.release()
        return at_once, noted, later

    assert run_virtual(main) == (400, 400, 0)  # a tick was due after 100 ms


def test_an_idle_loop_has_no_stalls() -> None:
    async def main(clock: VirtualClock) -> int:
        stalls = LoopStalls.watch()
        await asyncio.sleep(60)
        longest = stalls.longest_ms_since(0.0)
        stalls.release()
        return longest

    assert run_virtual(main) == 0


def test_one_watch_serves_all_and_ends_with_the_last() -> None:
    async def main(clock: VirtualClock) -> None:
        first, second = LoopStalls.watch(), LoopStalls.watch()
        assert first is second
        first.release()
        await asyncio.sleep(1)
        assert second._timer is not None
        second.release()
        assert second._timer is None
        again = LoopStalls.watch()
        assert again is first
        again.release()

    run_virtual(main)


def test_loops_that_ran_a_producer_are_collected() -> None:
    async def use() -> None:
        async with Producer("billing", nameserver="127.0.0.1:1"):
            loops.append(ref(asyncio.get_running_loop()))

    loops: list[ref[asyncio.AbstractEventLoop]] = []
    for _ in range(60):
        asyncio.run(use())
    gc.collect()
    assert [loop() for loop in loops if loop() is not None] == []


def test_a_watch_that_is_never_released_goes_with_its_loop() -> None:
    async def use() -> tuple[ref[asyncio.AbstractEventLoop], ref[LoopStalls]]:
        return ref(asyncio.get_running_loop()), ref(LoopStalls.watch())

    loop, stalls = asyncio.run(use())
    gc.collect()
    assert (loop(), stalls()) == (None, None)
