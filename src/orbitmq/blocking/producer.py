"""The blocking producer, with its transactions and its outbox."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Self, TypeVar, Unpack

from orbitmq.blocking.wrappers import Member, Part, blocking, on_loop
from orbitmq.client.arguments import check_timeout_ms
from orbitmq.client.core.loop_thread import Waiter
from orbitmq.client.core.machine import Machine
from orbitmq.client.life import ClientState
from orbitmq.client.observe.hooks import SendHook
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.client.observe.trace_reports import TraceReporter
from orbitmq.client.producer import producer
from orbitmq.client.producer import transactions as transaction
from orbitmq.client.producer.options import ProducerOptions
from orbitmq.client.producer.outbox import outbox
from orbitmq.client.producer.outbox.ledger import Entry
from orbitmq.client.producer.sending.queue_choice import QueueSelector
from orbitmq.client.producer.start_rate import call_site, called_from
from orbitmq.client.producer.transactions import Check, TransactionListener, TransactionState
from orbitmq.client.settings import ClientSettings, ProducerSettings, Require
from orbitmq.errors import BackPressure, NotRunning, OrbitError, ProducerClosed
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.model import Message, MessageQueue, SendReceipt, check_is_message
from orbitmq.threads import Future, Lock, Slots, Workers

__all__ = ["Outbox", "Producer", "Transaction"]

log = logging.getLogger("orbitmq.client")

T = TypeVar("T")


class SendFuture(Future[T]):
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


class ThreadsProducer(producer.Producer):
    """The async producer on the loop thread; it also sends for threads, without a task for each."""

    @property
    def sends_plainly(self) -> bool:
        """Whether ``begin_for`` may be used: no hook, outbox or automatic batch sees each send."""
        return self._keeping is None and self._accumulator is None and not self._hooks.are_set

    def begin_for(self, message: Message, waiter: Waiter[SendReceipt]) -> None:
        """Send a message as ``send`` does, and give its receipt or its error to ``waiter``."""
        try:
            sender = self._running()
            check_is_message(message)
        except OrbitError as error:
            waiter.set_exception(error)
        else:
            sender.begin_for(message, waiter)

    def cancel_for(self, waiter: Waiter[SendReceipt]) -> None:
        """Cancel the send of a waiter that waits no more."""
        if self._sender is not None:
            self._sender.cancel_for(waiter)


class Producer(Member[ThreadsProducer]):
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
        super().__init__(
            ThreadsProducer(
                group,
                settings=settings,
                client=client,
                machine=machine,
                transaction_listener=transaction_listener,
                **options,
            )
        )
        self._slots = Slots(self.settings.in_flight_max)

    def __repr__(self) -> str:
        return f"<blocking Producer {self.settings.group} {self.state.value}>"

    # Life

    @property
    def settings(self) -> ProducerSettings:
        """Its settings."""
        return self._inner.settings

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

    def _not_running(self) -> NotRunning:
        group, state = self.settings.group, self.state
        if state in (ClientState.CLOSING, ClientState.CLOSED):
            return ProducerClosed(
                f"producer {group} is {state.value}; create a new one", state=state.value
            )
        text = {
            ClientState.CREATED: f"producer {group} is not started; use 'with', or start()",
            ClientState.START_FAILED: f"the start of producer {group} failed; create a new one",
        }.get(state, f"producer {group} is {state.value}; wait until it has started")
        return NotRunning(text, state=state.value)

    # Sending

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
        require: Require | str | None = None,
    ) -> SendReceipt:
        """Send a message, and return the broker's receipt.

        The arguments and errors are those of ``orbitmq.Producer.send``.
        """
        thread, inner = self._reach()
        thread.check(self)
        is_plain = queue is None and selector is None and sharding_key is None
        if is_plain and timeout_ms is None and require is None and inner.sends_plainly:
            return thread.call_for(partial(inner.begin_for, message), inner.cancel_for)
        return thread.call(
            inner.send,
            message,
            queue=queue,
            selector=selector,
            sharding_key=sharding_key,
            timeout_ms=timeout_ms,
            require=require,
        )

    send_oneway = blocking(producer.Producer.send_oneway)
    send_many = blocking(producer.Producer.send_many)
    queues = blocking(producer.Producer.queues)

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
        future: SendFuture[SendReceipt] = SendFuture(thread.callbacks, self._slots.release)
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
        except BaseException:  # such as NotRunning, or Ctrl-C
            future.cancel()  # makes room, and cancels the send if it has begun
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

    wait = blocking(producer.Producer.wait)
    _begin_transaction = on_loop(producer.Producer.transaction)
    send_in_transaction = blocking(producer.Producer.send_in_transaction)
    prepare_many = blocking(producer.Producer.prepare_many)
    request = blocking(producer.Producer.request)
    reply = blocking(producer.Producer.reply)
    recall = blocking(producer.Producer.recall)


class Transaction(Part[transaction.Transaction]):
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

    commit = blocking(transaction.Transaction.commit)
    rollback = blocking(transaction.Transaction.rollback)
    leave_undecided = blocking(transaction.Transaction.leave_undecided)
    _enter = blocking(transaction.Transaction.__aenter__)
    _exit = blocking(transaction.Transaction.__aexit__)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._exit(kind, *error)


def _entries_of(inner: outbox.Outbox) -> list[Entry]:
    return inner.entries


def _refused_of(inner: outbox.Outbox) -> list[Entry]:
    return inner.refused


class Outbox(Part[outbox.Outbox]):
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

    retry = on_loop(outbox.Outbox.retry)
    discard = on_loop(outbox.Outbox.discard)
    drained = blocking(outbox.Outbox.drained)
    _entries = on_loop(_entries_of)
    _refused = on_loop(_refused_of)
