"""Run consumers as a program of their own: until SIGTERM or Ctrl-C, then a clean stop."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from typing import Final

from orbitmq.client.life import Startable
from orbitmq.errors import InvalidInput
from orbitmq.net.event_loop import new_event_loop

__all__ = ["run"]

log = logging.getLogger("orbitmq.client")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(*clients: Startable) -> None:
    """Start consumers or producers, and return after SIGTERM, SIGINT, or the close of all of them.

    ::

        consumer = orbitmq.Consumer("billing", nameserver="…", subscribe={"orders": "*"})

        @consumer.on_message
        def bill(message): ...

        orbitmq.run(consumer)

    Messages in hand are finished or given back, within ``stop_timeout_ms`` of each client. A second
    signal ends the program at once. Call it on the main thread, where no event loop runs.

    Raises:
        InvalidInput: there is no client, or one is not a Producer, Consumer or PullConsumer; or a
            consumer has no handler.
        OrbitError: a client can't be started; those that had started are closed.
    """
    if not clients:
        raise InvalidInput("give run() a consumer", field="clients")
    for client in clients:
        if not isinstance(client, Startable):
            is_ours = type(client).__module__.startswith("orbitmq.")  # a blocking one
            given = client if is_ours else type(client).__name__
            raise InvalidInput(
                f"run() got {given}; give it an async client such as orbitmq.Consumer, with "
                "functions or coroutines as its handlers",
                field="clients",
            )
        client._check_program()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(clients))


async def _run(clients: tuple[Startable, ...]) -> None:
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        log.info("%s: stopping", number.name)
        for one in _SIGNALS:
            loop.remove_signal_handler(one)  # the next one ends the program at once
        signalled.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        async with AsyncExitStack() as parts:
            for client in clients:
                await parts.enter_async_context(client)
            await _until_signalled(signalled, clients)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _until_signalled(signalled: asyncio.Event, clients: tuple[Startable, ...]) -> None:
    async def all_closed() -> None:
        await asyncio.gather(*(client.wait() for client in clients))

    waits = [asyncio.create_task(signalled.wait()), asyncio.create_task(all_closed())]
    _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
