"""How a blocking object wraps an async one, which runs on the loop thread."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from functools import wraps
from typing import Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

from orbitmq.client.core.loop_thread import LoopThread, lease
from orbitmq.client.life import ClientState
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NotRunning
from orbitmq.threads import Lock

__all__ = ["Member", "Part", "Startable", "Wrapper", "blocking", "iterating", "on_loop"]

_ITEMS: Final = 32
"""Items that an iteration fetches at once."""

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class Wrapper(ABC, Generic[A_co]):
    """A blocking wrapper of an async object on the loop thread."""

    @abstractmethod
    def _reach(self) -> tuple[LoopThread, A_co]:
        """Return the thread and the async object; raise if it is not running."""


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """Return a method that runs an async method of the wrapped object, and waits for it."""

    @wraps(method)
    def call(wrapper: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        thread, inner = wrapper._reach()
        thread.check(wrapper)
        return thread.call(method, inner, *args, **kwargs)

    return call


def on_loop(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Wrapper[A], P], T]:
    """Return a method that runs a plain method of the wrapped object on the loop, and waits."""

    async def call(inner: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(inner, *args, **kwargs)

    return blocking(wraps(method)(call))


def iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Wrapper[A], P], Generator[T, None, None]]:
    """Return a method that iterates as an async generator of the wrapped object does."""

    @wraps(method)
    def call(wrapper: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        thread, inner = wrapper._reach()
        items = method(inner, *args, **kwargs)
        try:
            while True:
                thread.check(wrapper)
                found, error = thread.call(_some, items)
                yield from found
                if error is not None:
                    raise error
                if not found:
                    return
        finally:
            thread.call(_end, items)

    return call


async def _some(items: AsyncIterator[T]) -> tuple[list[T], Exception | None]:
    """Return the next items, and the error after them.

    Several at once, since each change of threads costs time.
    """
    found: list[T] = []
    try:
        async for item in items:
            found.append(item)
            if len(found) == _ITEMS:
                break
    except Exception as error:
        return found, error
    return found, None


async def _end(items: AsyncIterator[object]) -> None:
    if isinstance(items, AsyncGenerator):
        await items.aclose()


class _Startable(Protocol):
    """What is needed of an async object that is started and closed."""

    @property
    def client_settings(self) -> ClientSettings: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class _Member(_Startable, Protocol):
    """What is needed of an async producer or consumer."""

    @property
    def state(self) -> ClientState: ...

    @property
    def client_id(self) -> str: ...


S = TypeVar("S", bound=_Startable)
M = TypeVar("M", bound=_Member)


class Startable(Wrapper[S]):
    """A wrapper that is started and closed, by ``with`` or by its methods."""

    def __init__(self, inner: S) -> None:
        self._inner = inner
        self._keep_open_ms = inner.client_settings.keep_open_ms
        self._life = Lock()
        self._thread: LoopThread | None = None
        self._is_closed = False

    @property
    def client_settings(self) -> ClientSettings:
        """The settings of its client."""
        return self._inner.client_settings

    def start(self) -> None:
        """Start, and return when it can be used; raises as the async ``start`` does."""
        self._start()

    def __enter__(self) -> Self:
        self.start()
        return self

    @abstractmethod
    def _not_running(self) -> NotRunning:
        """Return the error for a use before the start or after the close."""

    def _reach(self) -> tuple[LoopThread, S]:
        if self._thread is None:
            raise self._not_running()
        return self._thread, self._inner

    async def _open(self) -> None:
        await self._inner.start()

    async def _shut(self) -> None:
        await self._inner.close()

    def _start(self) -> None:
        if self._thread is not None:
            self._thread.check(self)
        with self._life:
            thread = self._thread or lease(self, self._shut)
            try:
                thread.call(self._open)
            except BaseException:
                if self._thread is None:  # else an earlier start succeeded, and stays valid
                    thread.leave(self, linger_ms=self._keep_open_ms)
                raise
            self._thread, self._is_closed = thread, False

    def close(self) -> None:
        """Finish what is in progress, up to ``stop_timeout_ms``, and stop; a repeat does nothing.

        Raises:
            WrongLoop, WrongProcess: it can't be closed here.
        """
        if self._thread is not None:
            self._thread.check(self)
        with self._life:
            if self._is_closed:
                return
            thread = self._thread or lease(self, self._shut)
            try:
                thread.call(self._shut)
            finally:
                self._thread, self._is_closed = None, True
                thread.leave(self, linger_ms=self._keep_open_ms)

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Member(Startable[M]):
    """A wrapper of a producer or consumer."""

    @property
    def state(self) -> ClientState:
        """Its current state."""
        return self._inner.state

    @property
    def client_id(self) -> str:
        """The id by which brokers know its client; empty before the start."""
        return self._inner.client_id


class Part(Wrapper[A]):
    """A wrapper of a part of an async object."""

    def __init__(self, thread: LoopThread, inner: A) -> None:
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return f"<blocking {self._inner!r}>"

    def _reach(self) -> tuple[LoopThread, A]:
        return self._thread, self._inner
