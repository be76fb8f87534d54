"""Start and close of a client object."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from orbitmq.client.life import ClientState, Startable
from orbitmq.errors import AlreadyStarted, NotRunning, WrongLoop


class Lamp(Startable):
    """Something with one part, which may fail to start."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__("lamp red", stop_timeout_ms=1_000)
        self.fails = fails
        self.log: list[str] = []

    async def _open(self, parts: AsyncExitStack) -> None:
        parts.push_async_callback(self._in_time, self._shut)
        await asyncio.sleep(0)
        if self.fails:
            raise OSError("no current")
        self.log.append("on")

    async def _shut(self, timeout_ms: int) -> None:
        await asyncio.sleep(0)
        self.log.append(f"off within {timeout_ms > 0}")

    def _stop(self) -> None:
        self.log.append(f"stop: {self.state.value}")

    def use(self) -> str:
        self._check_running()
        return "light"


def test_it_can_be_used_between_start_and_close() -> None:
    async def story() -> None:
        lamp = Lamp()
        with pytest.raises(NotRunning, match="lamp red is just created; start it first"):
            lamp.use()
        async with lamp:
            assert lamp.use() == "light"
            with pytest.raises(AlreadyStarted, match="was started before, and is running"):
                await lamp.start()
        with pytest.raises(NotRunning, match="lamp red is closed; make a new one"):
            lamp.use()
        assert lamp.log == ["on", "stop: closing", "off within True"]
        assert repr(lamp) == "<Lamp red closed>"

    asyncio.run(story())


def test_a_start_that_fails_closes_the_parts_that_had_started() -> None:
    async def story() -> None:
        lamp = Lamp(fails=True)
        with pytest.raises(OSError, match="no current"):
            await lamp.start()
        await lamp.close()
        assert lamp.state is ClientState.START_FAILED
        assert lamp.log == ["off within True", "stop: start failed"]

    asyncio.run(story())


def test_a_close_waits_for_the_start_and_two_closes_are_one() -> None:
    async def story() -> None:
        lamp = Lamp()
        starting = asyncio.create_task(lamp.start())
        await asyncio.sleep(0)
        assert lamp.state is ClientState.STARTING
        await asyncio.gather(lamp.close(), lamp.close(), starting)
        assert lamp.log == ["on", "stop: closing", "off within True"]

    asyncio.run(story())


def test_it_belongs_to_the_loop_of_its_start() -> None:
    lamp = Lamp()
    with asyncio.Runner() as runner:
        runner.run(lamp.start())

        async def elsewhere() -> None:
            lamp.use()

        with pytest.raises(WrongLoop, match=r"orbitmq\.blocking\.Lamp"):
            asyncio.run(elsewhere())
        runner.run(lamp.close())


def test_wait_returns_when_it_is_closed() -> None:
    async def story() -> None:
        lamp = Lamp()
        with pytest.raises(NotRunning, match="start it first"):
            await lamp.wait()
        await lamp.start()
        waiting = asyncio.create_task(lamp.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        await lamp.close()
        await waiting
        await lamp.wait()

    asyncio.run(story())
