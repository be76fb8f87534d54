import asyncio

from orbitmq.broker.reports.long_walk import LongWalk


def test_other_requests_are_served_every_64_steps() -> None:
    async def main() -> list[int]:
        turns: list[int] = []
        walk, steps = LongWalk(), 0

        def other() -> None:
            turns.append(steps)
            asyncio.get_running_loop().call_soon(other)

        asyncio.get_running_loop().call_soon(other)
        while steps < 200:
            steps += 1
            await walk.step()
        return turns

    assert asyncio.run(main())[:3] == [64, 128, 192]
