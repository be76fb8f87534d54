"""Programs that consume until a signal."""

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from orbitmq import blocking
from orbitmq.client.consumer.push import Consumer
from orbitmq.client.life import ClientState, Startable
from orbitmq.client.run import run
from orbitmq.errors import InvalidInput


class Bell(Startable):
    """Does something once it runs, and notes its start and end."""

    def __init__(self, log: list[str], *, on_start: str) -> None:
        super().__init__("bell small", stop_timeout_ms=1_000)
        self.log = log
        self._on_start = on_start
        self._ringing: asyncio.Task[None] | None = None

    async def _open(self, parts: AsyncExitStack) -> None:
        self.log.append("on")
        parts.callback(self.log.append, "off")
        if self._on_start == "fail":
            raise OSError("no current")
        self._ringing = asyncio.create_task(self._ring())

    async def _ring(self) -> None:
        if self._on_start == "close":
            await self.close()
        elif self._on_start:
            signal.raise_signal(signal.Signals[self._on_start])

    def _stop(self) -> None:
        self.log.append("stop")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_closes_all_clients(name: str) -> None:
    log: list[str] = []
    run(Bell(log, on_start=""), Bell(log, on_start=name))
    assert log == ["on", "on", "stop", "off", "stop", "off"]
    default = signal.SIG_DFL if name == "SIGTERM" else signal.default_int_handler
    assert signal.getsignal(signal.Signals[name]) is default


def test_it_returns_when_all_clients_are_closed() -> None:
    log: list[str] = []
    run(Bell(log, on_start="close"))
    assert log == ["on", "stop", "off"]


def test_a_client_that_can_not_start_closes_the_others() -> None:
    log: list[str] = []
    with pytest.raises(OSError, match="no current"):
        run(Bell(log, on_start=""), Bell(log, on_start="fail"))
    assert log == ["on", "on", "off", "stop", "stop", "off"]


def test_it_wants_async_clients() -> None:
    with pytest.raises(InvalidInput, match="give run\\(\\) a consumer"):
        run()
    with pytest.raises(InvalidInput, match=r"got str; give it an async client such as orbitmq\.C"):
        run("consumer")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="got <blocking Consumer billing just created>; give"):
        run(blocking.Consumer("billing", subscribe={"orders": "*"}))  # type: ignore[arg-type]


def test_it_wants_consumers_with_a_handler() -> None:
    consumer = Consumer("billing", nameserver="127.0.0.1:1", subscribe={"orders": "*"})
    with pytest.raises(InvalidInput, match="consumer billing has no handler, so run"):
        run(consumer)
    assert consumer.state is ClientState.CREATED
