"""The client for code without an event loop: the same names, arguments and errors, without await.

>>> from orbitmq import embedded
>>> from orbitmq.message.model import Message
>>> with embedded.start() as cluster:
...     with Producer("billing", nameserver=cluster.nameserver) as producer:
...         producer.send(Message("orders", b"paid", keys=["o-42"])).status
<SendStatus.SEND_OK: 'SEND_OK'>

Each object wraps an async one, which runs on the loop thread of the process
(``client/core/loop_thread.py``), so heartbeats continue between calls. Threads may share objects.

Selectors and hooks run on the loop thread and must not block. Functions that may block run on other
threads: the work and checks of transactions, and the callbacks of ``send_later``.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial, wraps
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from orbitmq.client.admin import admin
from orbitmq.client.admin.admin import connect
from orbitmq.client.arguments import check_timeout_ms
from orbitmq.client.core.loop_thread import LoopThread, lease
from orbitmq.client.core.machine import Machine
from orbitmq.client.observe.hooks import SendHook
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.observe.trace_reports import TraceReporter
from orbitmq.client.producer import producer
from orbitmq.client.producer import transactions as transaction
from orbitmq.client.producer.options import ProducerOptions
from orbitmq.client.producer.outbox import outbox
from orbitmq.client.producer.outbox.ledger import Entry
from orbitmq.client.producer.producer import ProducerState
from orbitmq.client.producer.sending.queue_choice import QueueSelector
from orbitmq.client.producer.start_rate import call_site, called_from
from orbitmq.client.producer.transactions import Check, TransactionListener, TransactionState
from orbitmq.client.settings import ClientSettings, ProducerSettings, Require
from orbitmq.errors import AlreadyStarted, BackPressure, NotRunning, ProducerClosed
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message
from orbitmq.threads import Future, Lock, Slots, Workers

__all__ = ["Admin", "Outbox", "Producer", "Transaction"]

log = logging.getLogger("orbitmq.client")

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class _Wrapper(ABC, Generic[A_co]):
    """A blocking wrapper of an async object on the loop thread."""

    @abstractmethod
    def _reach(self) -> tuple[LoopThread, A_co]:
        """Return the thread and the async object; raise if it is not running."""


def _blocking(
    method: Callable[Concatenate[A, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[_Wrapper[A], P], T]:
    """Return a method that runs an async method of the wrapped object, and waits for it."""

    @wraps(method)
    def call(wrapper: _Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        thread, inner = wrapper._reach()
        thread.check(wrapper)
        return thread.call(method, inner, *args, **kwargs)

    return call


def _on_loop(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[_Wrapper[A], P], T]:
    """Return a method that runs a plain method of the wrapped object on the loop, and waits."""

    async def call(inner: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(inner, *args, **kwargs)

    return _blocking(wraps(method)(call))


class _Startable(_Wrapper[A_co]):
    """A wrapper that is started and closed, by ``with`` or by its methods."""

    def __init__(self, linger_ms: int) -> None:
        self._linger_ms = linger_ms
        self._life = Lock()
        self._thread: LoopThread | None = None
        self._is_closed = False

    @abstractmethod
    async def _open(self) -> None:
        """Start the async object, on the loop."""

    @abstractmethod
    async def _shut(self) -> None:
        """Close the async object, on the loop; a second call does nothing."""

    def _start(self) -> None:
        if self._thread is not None:
            self._thread.check(self)
        with self._life:
            thread = self._thread or lease(self, self._shut)
            try:
                thread.call(self._open)
            except BaseException:
                if self._thread is None:  # else an earlier start succeeded, and stays valid
                    thread.leave(self, linger_ms=self._linger_ms)
                raise
            self._thread, self._is_closed = thread, False

    def close(self) -> None:
        """Wait up to ``stop_timeout_ms`` for sends in flight, and stop; a second call does nothing.

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
                thread.leave(self, linger_ms=self._linger_ms)

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _SendFuture(Future[T]):
    """A future whose callbacks run on separate threads, so that slow ones don't delay sends."""

    def __init__(self, workers: Workers, release: Callable[[], None]) -> None:
        super().__init__()
        self._workers = workers
        self._release = release
        self._guard = Lock()
        self._callbacks: list[Callable[[Future[T]], object]] | None = []
        super().add_done_callback(self._call_later)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call ``fn`` with this future when it is done; at once if it is done already."""
        with self._guard:
            if self._callbacks is not None:
                self._callbacks.append(fn)
                return
        self._call_back([fn])

    def _call_later(self, _done: Future[T]) -> None:
        with self._guard:
            callbacks, self._callbacks = self._callbacks, None
        if callbacks:
            self._workers.submit(self._release_and_call, callbacks)
        else:
            self._release()

    def _release_and_call(self, callbacks: list[Callable[[Future[T]], object]]) -> None:
        self._release()  # not earlier: sends whose callbacks wait for a thread count as in flight
        self._call_back(callbacks)

    def _call_back(self, callbacks: list[Callable[[Future[T]], object]]) -> None:
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("a callback of send_later raised an error")


class Producer(_Startable[producer.Producer]):
    """Sends messages; a context manager, or ``start`` and ``close``. Threads may share it.

    The arguments and errors are those of ``orbitmq.Producer``. A producer that is never closed is
    closed when the program ends, with a ResourceWarning, after waiting for its sends in flight.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        transaction_listener: TransactionListener | Check | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._inner = producer.Producer(
            group,
            settings=settings,
            client=client,
            machine=machine,
            transaction_listener=transaction_listener,
            **options,
        )
        super().__init__(self.client_settings.linger_ms)
        self._slots = Slots(self.settings.in_flight_max)

    def __repr__(self) -> str:
        return f"<blocking Producer {self.settings.group} {self.state.value}>"

    # Life

    @property
    def settings(self) -> ProducerSettings:
        """Its settings."""
        return self._inner.settings

    @property
    def client_settings(self) -> ClientSettings:
        """The settings of its client."""
        return self._inner.client_settings

    @property
    def state(self) -> ProducerState:
        """Its current state."""
        return self._inner.state

    @property
    def client_id(self) -> str:
        """The id by which brokers know its client; empty before the start."""
        return self._inner.client_id

    @property
    def statistics(self) -> SendStatistics:
        """Counters of its sends; NotRunning if it was never started."""
        try:
            return self._inner.statistics
        except NotRunning:
            raise self._not_running() from None  # without the word "async"

    @property
    def tracer(self) -> TraceReporter | None:
        """Counters of its trace reports; None unless ``trace`` is set."""
        return self._inner.tracer

    @property
    def outbox(self) -> "Outbox | None":
        """Messages that it could not send yet; None unless ``outbox_path`` is set."""
        inner = self._inner.outbox
        return None if inner is None else Outbox(self._reach()[0], inner)

    def add_hook(self, hook: SendHook) -> None:
        """Call a hook around each send that starts from now on; it runs on the loop thread."""
        with self._life:
            self._inner.add_hook(hook)

    def remove_hook(self, hook: SendHook) -> None:
        """Remove a hook; ValueError if it was not added."""
        with self._life:
            self._inner.remove_hook(hook)

    def start(self) -> None:
        """Connect, and return when it can send; raises as ``orbitmq.Producer.start`` does."""
        with called_from(call_site()):
            self._start()

    def __enter__(self) -> Self:
        self.start()
        return self

    async def _open(self) -> None:
        await self._inner.start()

    async def _shut(self) -> None:
        await self._inner.close()

    def _reach(self) -> tuple[LoopThread, producer.Producer]:
        if self._thread is None:
            raise self._not_running()
        return self._thread, self._inner

    def _not_running(self) -> NotRunning:
        group, state = self.settings.group, self.state
        if state in (ProducerState.CLOSING, ProducerState.CLOSED):
            return ProducerClosed(
                f"producer {group} is {state.value}; create a new one", state=state.value
            )
        text = {
            ProducerState.CREATED: f"producer {group} is not started; use 'with', or start()",
            ProducerState.START_FAILED: f"the start of producer {group} failed; create a new one",
        }.get(state, f"producer {group} is {state.value}; wait until it has started")
        return NotRunning(text, state=state.value)

    # Sending

    send = _blocking(producer.Producer.send)
    send_oneway = _blocking(producer.Producer.send_oneway)
    send_many = _blocking(producer.Producer.send_many)
    queues = _blocking(producer.Producer.queues)

    def send_later(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
        require: Require | str | None = None,
    ) -> Future[SendReceipt]:
        """Start a send as ``send`` does, and return a future of its receipt.

        Callbacks of the future run on a few separate threads. Cancelling it cancels the send. At
        most ``in_flight_max`` sends are in flight, including those whose callbacks wait for a
        thread; this call waits until there is room for another.

        Raises:
            BackPressure: there was no room within the timeout of the send.
            InvalidInput: the message is not a Message, or the timeout is not a whole number.
            NotRunning, WrongLoop, WrongProcess: the producer can't be used in this way.
        """
        thread, inner = self._reach()
        thread.check(self)
        check_is_message(message)
        check_timeout_ms(timeout_ms)
        given_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        if not self._slots.acquire(timeout=max(given_ms, 0) / 1000):
            raise self._no_room(message, given_ms)
        future: _SendFuture[SendReceipt] = _SendFuture(thread.callbacks, self._slots.release)
        work = partial(
            inner.send,
            message,
            queue=queue,
            selector=selector,
            sharding_key=sharding_key,
            timeout_ms=timeout_ms,
            require=require,
        )
        try:
            thread.begin(future, work)
        except NotRunning:
            future.cancel()
            raise
        return future

    def _no_room(self, message: Message, timeout_ms: int) -> BackPressure:
        return BackPressure(
            f"send to {message.topic} timed out after {timeout_ms} ms before it started: "
            f"{self.settings.in_flight_max} sends of send_later are in flight; wait for some of "
            "them before you send more, make callbacks shorter, or raise in_flight_max",
            topic=message.topic,
            send_id=message.message_id or "",
            timeout_ms=timeout_ms,
            spent=TimeSpent(permit_ms=timeout_ms),
        )

    # Transactions, requests, recalls

    def transaction(self, message: Message, *, timeout_ms: int | None = None) -> "Transaction":
        """Return a transaction: consumers get the message if the block ends without an error.

        ::

            with producer.transaction(Message("orders", b"paid")) as transaction:
                database.execute("UPDATE …", transaction.message_id)

        The rules and errors are those of ``orbitmq.Producer.transaction``.
        """
        thread, _ = self._reach()
        return Transaction(thread, self._begin_transaction(message, timeout_ms=timeout_ms))

    _begin_transaction = _on_loop(producer.Producer.transaction)
    send_in_transaction = _blocking(producer.Producer.send_in_transaction)
    request = _blocking(producer.Producer.request)
    reply = _blocking(producer.Producer.reply)
    recall = _blocking(producer.Producer.recall)


class _Part(_Wrapper[A]):
    """A wrapper of a part of an async object."""

    def __init__(self, thread: LoopThread, inner: A) -> None:
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return f"<blocking {self._inner!r}>"

    def _reach(self) -> tuple[LoopThread, A]:
        return self._thread, self._inner


class Transaction(_Part[transaction.Transaction]):
    """One transaction: the end of the block commits it, an exception rolls it back."""

    @property
    def receipt(self) -> SendReceipt:
        """The broker's receipt for the half message; InvalidInput before the block is entered."""
        return self._inner.receipt

    @property
    def message_id(self) -> str:
        """The message's unique id; store it with your own work, since a check asks by it."""
        return self._inner.message_id

    @property
    def state(self) -> TransactionState | None:
        """The decision; None while the transaction is open."""
        return self._inner.state

    commit = _blocking(transaction.Transaction.commit)
    rollback = _blocking(transaction.Transaction.rollback)
    leave_undecided = _blocking(transaction.Transaction.leave_undecided)
    _enter = _blocking(transaction.Transaction.__aenter__)
    _exit = _blocking(transaction.Transaction.__aexit__)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._exit(kind, *error)


def _entries_of(inner: outbox.Outbox) -> list[Entry]:
    return inner.entries


def _refused_of(inner: outbox.Outbox) -> list[Entry]:
    return inner.refused


class Outbox(_Part[outbox.Outbox]):
    """Messages that a producer could not send yet; see ``Producer.outbox``."""

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def sent(self) -> int:
        """How many messages were sent from here."""
        return self._inner.sent

    @property
    def entries(self) -> list[Entry]:
        """The messages waiting to be sent, oldest first."""
        return self._entries()

    @property
    def refused(self) -> list[Entry]:
        """The messages that brokers refused, with the reasons; see ``retry`` and ``discard``."""
        return self._refused()

    retry = _on_loop(outbox.Outbox.retry)
    discard = _on_loop(outbox.Outbox.discard)
    drained = _blocking(outbox.Outbox.drained)
    _entries = _on_loop(_entries_of)
    _refused = _on_loop(_refused_of)


class Admin(_Startable[admin.Admin]):
    """Topics, queues and single messages; a context manager, or ``start`` and ``close``.

    Args:
        settings: the settings of its client.
        machine: the machine it runs on; only tests give another one.

    >>> from orbitmq import embedded
    >>> with embedded.start() as cluster:
    ...     with Admin(ClientSettings(nameserver=cluster.nameserver)) as admin:
    ...         _ = admin.create_topic("orders", queues=2)
    ...         len(admin.queues("orders"))
    2
    """

    def __init__(self, settings: ClientSettings, machine: Machine | None = None) -> None:
        super().__init__(settings.linger_ms)
        self._settings = settings
        self._machine = machine
        self._inner: admin.Admin | None = None
        self._parts = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<blocking Admin {self._settings.nameserver or '-'}>"

    def start(self) -> None:
        """Connect.

        Raises:
            NoNameserver, InvalidInput: as the async ``connect`` does.
        """
        self._start()

    def __enter__(self) -> Self:
        self.start()
        return self

    async def _open(self) -> None:
        if self._inner is not None:
            raise AlreadyStarted("the admin is already running", state="running")
        self._inner = await self._parts.enter_async_context(connect(self._settings, self._machine))

    async def _shut(self) -> None:
        self._inner = None
        await self._parts.aclose()

    def _reach(self) -> tuple[LoopThread, admin.Admin]:
        if self._thread is None or self._inner is None:
            raise NotRunning(
                "the admin is not started, or is closed; use 'with', or start()",
                state="not running",
            )
        return self._thread, self._inner

    topics = _blocking(admin.Admin.topics)
    route = _blocking(admin.Admin.route)
    queues = _blocking(admin.Admin.queues)
    create_topic = _blocking(admin.Admin.create_topic)
    search_offset = _blocking(admin.Admin.search_offset)
    max_offset = _blocking(admin.Admin.max_offset)
    min_offset = _blocking(admin.Admin.min_offset)
    earliest_store_time = _blocking(admin.Admin.earliest_store_time)
    view_message = _blocking(admin.Admin.view_message)
    query_message = _blocking(admin.Admin.query_message)
    message_by_unique_key = _blocking(admin.Admin.message_by_unique_key)
