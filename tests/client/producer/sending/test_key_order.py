import asyncio

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.sending.key_order import Key, KeyOrder
from orbitmq.testing.clocks import VirtualClock, run_virtual

A, B = ("orders", "a"), ("orders", "b")


def test_one_key_is_served_in_order_and_others_pass_by() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        turns, order = KeyOrder(), []

        async def send(name: str, key: Key, seconds: float) -> None:
            turn = turns.join([key])
            try:
                await turn.wait()
                await asyncio.sleep(seconds)
                order.append(name)
            finally:
                turn.leave()

        await asyncio.gather(send("a1", A, 3), send("a2", A, 0), send("b1", B, 1))
        assert len(turns) == 0
        return order

    assert run_virtual(main) == ["b1", "a1", "a2"]


def test_one_that_goes_away_while_waiting_lets_nobody_overtake() -> None:
    async def main(clock: VirtualClock) -> None:
        turns = KeyOrder()
        first, second, third = (turns.join([A]) for _ in range(3))
        second.leave()
        waiting = asyncio.create_task(third.wait())
        await asyncio.sleep(1)
        assert not waiting.done()
        first.leave()
        await waiting
        third.leave()
        await asyncio.sleep(0.1)
        assert len(turns) == 0

    run_virtual(main)


def test_a_cancelled_wait_cancels_nobody_else() -> None:
    async def main(clock: VirtualClock) -> None:
        turns = KeyOrder()
        first, second = turns.join([A]), turns.join([A])
        waiting = asyncio.create_task(second.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        second.leave()
        first.leave()  # its future is whole
        await asyncio.sleep(0.1)
        assert len(turns) == 0

    run_virtual(main)


@given(st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=1, max_size=12), st.data())
def test_many_keys_at_once_never_wait_for_each_other(
    sends: list[set[str]], data: st.DataObject
) -> None:
    pauses = [data.draw(st.integers(0, 3)) for _ in sends]

    async def main(clock: VirtualClock) -> dict[str, list[int]]:
        turns = KeyOrder()
        order: dict[str, list[int]] = {}

        async def send(number: int) -> None:
            turn = turns.join(("orders", key) for key in sends[number])
            await turn.wait()
            await asyncio.sleep(pauses[number])
            for key in sends[number]:
                order.setdefault(key, []).append(number)
            turn.leave()

        await asyncio.gather(*map(send, range(len(sends))))
        return order

    for numbers in run_virtual(main).values():
        assert numbers == sorted(numbers)


def test_a_close_takes_out_who_is_on_its_way_and_the_others_come_in_order() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        turns, order = KeyOrder(), []
        on_its_way, looking_up = turns.join([A]), turns.join([A, B])

        async def send(number: int) -> None:
            turn = turns.join([A])
            await turn.wait()
            order.append(number)
            await asyncio.sleep(1 / number)
            turn.leave()

        sends = [asyncio.create_task(send(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        turns.close()
        await asyncio.gather(*sends)
        await turns.drained()
        assert on_its_way.has_left
        assert looking_up.has_left
        on_its_way.leave()  # as whoever joined does
        assert len(turns) == 0
        return order

    assert run_virtual(main) == [1, 2, 3]
