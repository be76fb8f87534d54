"""The life of a producer or consumer: it is started once, on one event loop, and closed.

::

    created ─ start ─▶ starting ──▶ running ── close ──▶ closing ── drained, or timed out ─▶ closed
                          └─ it failed ──▶ start failed

A close during a start, or during another close, waits for its end first.
"""

import asyncio
import enum
from abc import ABC, abstractmethod
from asyncio import _get_running_loop as running_loop_or_none
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import ClassVar, Self

from orbitmq.client.unclosed import warn_unless_closed
from orbitmq.errors import AlreadyStarted, NotRunning, WrongLoop
from orbitmq.net.fork import check_process, process_token

__all__ = ["ClientState", "Startable"]


class ClientState(enum.Enum):
    """The state of a producer or consumer."""

    CREATED = "just created"
    STARTING = "starting"
    RUNNING = "running"
    START_FAILED = "start failed"
    CLOSING = "closing"
    CLOSED = "closed"


class Startable(ABC):
    """An async context manager, or ``start`` and ``close``; it belongs to the loop of its start.

    ``name`` is used in errors, such as "producer billing"; all parts together have
    ``stop_timeout_ms`` to close.
    """

    _closed_error: ClassVar[type[NotRunning]] = NotRunning

    def __init__(self, name: str, stop_timeout_ms: int) -> None:
        self._name = name
        self._stop_timeout_ms = stop_timeout_ms
        self._state = ClientState.CREATED
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parts = AsyncExitStack()
        self._stop_by: float | None = None
        self._turning = asyncio.Lock()  # held during a start or a close
        self._has_closed = asyncio.Event()
        self._process = process_token()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name.partition(' ')[2]} {self._state.value}>"

    @property
    def state(self) -> ClientState:
        """The current state."""
        return self._state

    @abstractmethod
    async def _open(self, parts: AsyncExitStack) -> None:
        """Start all parts; ``parts`` closes them, the last one first."""

    @abstractmethod
    def _stop(self) -> None:
        """Refuse new work: it is closing, or its start failed."""

    async def _start(self) -> None:
        if self._state is not ClientState.CREATED:
            raise self._already_started()
        self._state = ClientState.STARTING
        self._loop = asyncio.get_running_loop()
        self._process = process_token()
        async with self._turning:
            try:
                async with AsyncExitStack() as parts:
                    await parts.enter_async_context(warn_unless_closed(self, self._name))
                    await self._open(parts)
                    self._parts = parts.pop_all()
            except BaseException:
                self._state = ClientState.START_FAILED
                self._stop()
                raise
            self._state = ClientState.RUNNING

    async def _close(self) -> None:
        if self._state is ClientState.CREATED:
            self._state = ClientState.CLOSED
        if self._state in (ClientState.START_FAILED, ClientState.CLOSED):
            return
        self._check_loop()
        async with self._turning:
            if self._state is ClientState.RUNNING:
                self._state = ClientState.CLOSING
                self._stop()
                try:
                    await self._parts.aclose()
                finally:
                    self._state = ClientState.CLOSED
                    self._has_closed.set()

    async def _in_time(self, close: Callable[[int], Awaitable[object]]) -> None:
        """Close a part in what is left of the stop timeout, which all parts share."""
        now = asyncio.get_running_loop().time()
        if self._stop_by is None:
            self._stop_by = now + self._stop_timeout_ms / 1_000
        await close(max(0, round(1_000 * (self._stop_by - now))))

    async def start(self) -> None:
        """Start, and return when it can be used; AlreadyStarted if it was started before."""
        await self._start()

    async def close(self) -> None:
        """Stop; a second call does nothing. A start or close that is in progress ends first."""
        await self._close()

    async def wait(self) -> None:
        """Wait until it is closed, by another task.

        Raises:
            NotRunning: it was never started.
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        if self._state is ClientState.CLOSED:
            return
        if self._state is not ClientState.CLOSING:
            self._check_running()
        await self._has_closed.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Checks

    def _check_program(self) -> None:  # noqa: B027 - most do something
        """Raise InvalidInput if it would do nothing as a program of its own."""

    def _check_running(self) -> None:
        """Raise NotRunning, WrongLoop or WrongProcess unless it can be used here and now."""
        if self._state is not ClientState.RUNNING:
            raise self._not_running()
        if running_loop_or_none() is not self._loop:
            self._check_loop()

    def _check_loop(self) -> None:
        check_process(self._process, self)
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(
                f"{self._name} belongs to the event loop that it was started on, and was used on "
                f"another; create one per loop, or use orbitmq.blocking.{type(self).__name__} from "
                "threads"
            )

    def _not_running(self) -> NotRunning:
        state = self._state
        if state in (ClientState.CLOSING, ClientState.CLOSED):
            text = f"{self._name} is {state.value}; make a new one"
            return self._closed_error(text, state=state.value)
        hint = {
            ClientState.CREATED: "start it first, with 'async with' or start()",
            ClientState.STARTING: "wait until it has started",
        }.get(state, "make a new one")
        return NotRunning(f"{self._name} is {state.value}; {hint}", state=state.value)

    def _already_started(self) -> AlreadyStarted:
        state = self._state.value
        if self._state is ClientState.STARTING:
            return AlreadyStarted(
                f"{self._name} is starting; wait until it has started", state=state
            )
        return AlreadyStarted(
            f"{self._name} was started before, and is {state}; make a new one", state=state
        )
