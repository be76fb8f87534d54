"""Transactions, requests with replies, and recalls of a running producer.

Each has a module with its rules; this one connects them to the producer.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from orbitmq.client.arguments import check_timeout_ms, listed
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.request_reply import reply_marks, reply_to
from orbitmq.client.producer.recall import recall
from orbitmq.client.producer.sending.packing import NO_MARKS
from orbitmq.client.producer.sending.queue_choice import QueueSelector
from orbitmq.client.producer.sending.send_many import AssignedQueue, check_call, places_of
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.producer.sending.targets import Destination, destination_of
from orbitmq.client.producer.transaction_checks import TransactionChecks, read_check_request
from orbitmq.client.producer.transactions import (
    Check,
    LocalWork,
    OnEnd,
    SendHalf,
    Transaction,
    TransactionListener,
    TransactionReceipt,
    Transactions,
    check_undelayed,
)
from orbitmq.client.user_code import UserCode
from orbitmq.errors import NotDurable, OrbitError, RequestTimeout
from orbitmq.message import properties
from orbitmq.message.ids import RecallHandle
from orbitmq.message.model import (
    Message,
    MessageQueue,
    SendReceipt,
    StoredMessage,
    check_is_message,
)
from orbitmq.message.names import check_topic, wrap_namespace
from orbitmq.net.connection import Connection
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame

__all__ = ["ExchangeMethods", "Exchanges"]

log = logging.getLogger("orbitmq.client")

_CHECK: Final = RequestCode.CHECK_TRANSACTION_STATE
_NO_OPTIONS: Final = SendOptions()
_HALVES_AT_ONCE: Final = 256
"""Half messages of one call in flight at once; a broker takes them one by one."""


class Exchanges:
    """The transactions, requests and recalls of one running producer; belongs to its loop.

    ``listener`` decides transactions: an object for local work and checks, or a function for checks
    alone. ``on_end`` is called with each decision, and must not raise.
    """

    def __init__(
        self,
        core: ClientCore,
        sender: Sender,
        listener: TransactionListener | Check | None = None,
        *,
        on_end: OnEnd = lambda _end: None,
    ) -> None:
        self._core = core
        self._sender = sender
        self._namespace = core.settings.namespace
        self._group = wrap_namespace(self._namespace, sender.settings.group)
        check: Check | None
        if listener is None or callable(listener):
            both, check = None, listener
        else:
            both, check = listener, listener.check
        user_code = UserCode(core.user_workers)
        self._transactions = Transactions(
            group=self._group,
            connect=self._connect,
            user_code=user_code,
            listener=both,
            namespace=self._namespace,
            namespace_v2=core.settings.namespace_v2,
            on_end=on_end,
        )
        self._checks = TransactionChecks(
            group=self._group,
            known=self._transactions.known_state,
            check=check,
            user_code=user_code,
            on_end=on_end,
        )
        core.broker_requests.listen(_CHECK, self._take_check, group=self._group)

    def __repr__(self) -> str:
        return f"<Exchanges {self._transactions!r}, {self._checks!r}>"

    async def close(self, timeout_ms: int) -> None:
        """Stop answering checks, and wait up to the timeout for running ones."""
        self._core.broker_requests.unlisten(_CHECK, self._take_check, group=self._group)
        await self._checks.close(timeout_ms)

    # Transactions

    def transaction(self, message: Message, timeout_ms: int | None) -> Transaction:
        """Return a transaction; see ``Producer.transaction``."""
        return self._transactions.transaction(message, self._half(message, timeout_ms))

    async def send_in_transaction(
        self, message: Message, local_work: LocalWork | None, timeout_ms: int | None
    ) -> TransactionReceipt:
        """Return the outcome of a transaction; see ``Producer.send_in_transaction``."""
        half = self._half(message, timeout_ms)
        return await self._transactions.send(message, half, local_work)

    async def prepare_many(
        self,
        messages: Iterable[Message],
        queues: Sequence[AssignedQueue] | None,
        immunity_s: int | None,
    ) -> list[SendReceipt | OrbitError]:
        """Return a receipt or an error per half message; see ``Producer.prepare_many``."""
        given = listed(messages)
        check_call(self._sender, given, _NO_OPTIONS, queues=queues)
        for message in given:
            check_undelayed(message)
        are_keyed = any(message.sharding_key is not None for message in given)
        places = await places_of(self._sender, given, _NO_OPTIONS, queues, are_keyed=are_keyed)
        marks = {} if immunity_s is None else {properties.CHECK_IMMUNITY_SECONDS: str(immunity_s)}
        results: dict[int, SendReceipt | OrbitError] = {}
        waiting = iter(range(len(given)))

        async def work() -> None:
            for index in waiting:
                # Chosen above, so that halves of one sharding key don't wait for each other.
                half = self._half(given[index], None, places[index], marks)
                try:
                    results[index] = await self._transactions.prepare(given[index], half)
                except OrbitError as error:
                    results[index] = error

        await asyncio.gather(*(work() for _ in range(min(len(given), _HALVES_AT_ONCE))))
        return [results[index] for index in range(len(given))]

    def _half(
        self,
        message: Message,
        timeout_ms: int | None,
        queue: AssignedQueue = None,
        more: Mapping[str, str] = NO_MARKS,
    ) -> SendHalf:
        check_is_message(message)

        async def send(marks: Mapping[str, str]) -> SendReceipt:
            try:
                return await self._sender.send(
                    message,
                    SendOptions(destination=queue, timeout_ms=timeout_ms, marks={**more, **marks}),
                )
            except NotDurable as weak:  # the half is rolled back because of its status
                return weak.receipt

        return send

    async def _connect(self, queue: MessageQueue) -> Connection:
        topic_target = await self._sender.targets.find(queue.topic)
        return await self._sender.targets.connect(topic_target.of(queue))

    def _take_check(self, connection: Connection, request: Frame) -> None:
        try:
            check = read_check_request(request, self._namespace)
        except OrbitError as error:
            log.warning("%s: a transaction check can't be read: %s", connection.peer, error)
        else:
            self._checks.take(connection, check)

    # Requests and replies

    async def request(
        self, message: Message, destination: Destination, timeout_ms: int | None
    ) -> StoredMessage:
        """Return the reply to a request; see ``Producer.request``."""
        check_is_message(message)
        timeout_ms = self._sender.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        began_ms = self._core.machine.clock.monotonic_ms()
        topic_target = await self._sender.find(message.topic, timeout_ms)
        timeout_ms -= self._core.machine.clock.monotonic_ms() - began_ms

        async def send(marks: Mapping[str, str], timeout_ms: int) -> SendReceipt:
            return await self._sender.send(
                message, SendOptions(destination, timeout_ms, marks=marks)
            )

        return await self._core.requests.request(
            topic_target.route.topic, send, timeout_ms=timeout_ms
        )

    async def reply(
        self, request: StoredMessage, body: bytes, timeout_ms: int | None
    ) -> SendReceipt:
        """Return the receipt of a reply; see ``Producer.reply``."""
        options = SendOptions(timeout_ms=timeout_ms, marks=reply_marks(request))
        return await self._sender.send(reply_to(request, body), options)

    # Recalls

    async def recall(self, topic: str, handle: str, timeout_ms: int | None) -> str:
        """Return the id of a recalled message; see ``Producer.recall``."""
        check_topic(topic)
        timeout_ms = self._sender.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await recall(
                    wrap_namespace(self._namespace, topic),
                    handle,
                    group=self._group,
                    connect=partial(self._connect_holder, topic),
                    timeout_ms=timeout_ms,
                    namespace_v2=self._core.settings.namespace_v2,
                )
        except TimeoutError:
            raise RequestTimeout(
                f"recall of a message to {topic} timed out after {timeout_ms} ms; the broker may "
                "have recalled it",
                timeout_ms=timeout_ms,
            ) from None

    async def _connect_holder(self, topic: str, handle: RecallHandle) -> Connection:
        """Return a connection to the broker of a handle; as in Java, to any other without it."""
        topic_target = await self._sender.targets.find(topic)
        named = [queue for queue in topic_target.queues if queue.broker_name == handle.broker_name]
        return await self._sender.targets.connect(
            topic_target.of((named or topic_target.queues)[0])
        )


class ExchangeMethods(ABC):
    """The methods of a producer for transactions, requests and recalls."""

    @abstractmethod
    def _exchanging(self) -> Exchanges:
        """Return the exchanges of the running producer; raise if it is not running."""

    def transaction(self, message: Message, *, timeout_ms: int | None = None) -> Transaction:
        """Return a transaction: consumers get the message if the block ends without an error.

        ::

            async with producer.transaction(Message("orders", b"paid")) as transaction:
                await database.execute("UPDATE …", transaction.message_id)

        The half message is sent when the block is entered. The end of the block commits, an
        exception rolls back. If this process dies in between, the broker asks the
        ``transaction_listener`` of other producers in the group.

        Raises:
            InvalidInput: the message is delayed.
            TransactionNotBegun: on entering: it was stored less safely than asked, and dropped.
            OrbitError: on entering: the errors of ``send``.
        """
        check_timeout_ms(timeout_ms)
        return self._exchanging().transaction(message, timeout_ms)

    async def send_in_transaction(
        self,
        message: Message,
        local_work: LocalWork | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> TransactionReceipt:
        """Send a half message, do the local work, and have the broker deliver or drop it.

        Args:
            message: the message.
            local_work: decides whether to deliver it; the ``transaction_listener`` if left out.
                A plain function runs on a thread. If it raises, the broker will ask the listener.
            timeout_ms: the timeout of the send.

        Raises:
            InvalidInput: the message is delayed, or there is no function for the local work.
            OrbitError: the half message could not be sent: the errors of ``send``.
        """
        check_timeout_ms(timeout_ms)
        return await self._exchanging().send_in_transaction(message, local_work, timeout_ms)

    async def prepare_many(
        self,
        messages: Iterable[Message],
        *,
        queues: Sequence[MessageQueue | None] | None = None,
        immunity_s: int | None = None,
    ) -> list[SendReceipt | OrbitError]:
        """Send half messages together; return a receipt or an error for each, in their order.

        They are stored, and nobody sees them until END_TRANSACTION commits them, which is up to
        the caller: perhaps in another process, which gets the receipts. A retry is another half
        message with the same id, so use a producer with ``retries=0``, and call again for messages
        with an error: each call gives them new ids.

        Args:
            messages: what to send, to any topics.
            queues: the queue of each; None: by its sharding key, or round-robin.
            immunity_s: for how many seconds brokers don't ask about them; by default their
                ``transactionTimeOut``.

        Raises:
            InvalidInput: a message is delayed, or can't be sent to its queue.
            OrbitError: a topic has no route.
        """
        return await self._exchanging().prepare_many(messages, queues, immunity_s)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> StoredMessage:
        """Send a request, and return the reply of its consumer.

        Args:
            message: the request.
            queue: the queue to send it to.
            selector: chooses the queue.
            timeout_ms: for sending and waiting together; ``send_timeout_ms`` if left out.

        Raises:
            NoReply: it was sent, and no reply came in time.
            TooManyRequests: too many requests are waiting for replies.
            OrbitError: it could not be sent: the errors of ``send``.
        """
        check_timeout_ms(timeout_ms)
        destination = destination_of(queue, selector)
        return await self._exchanging().request(message, destination, timeout_ms)

    async def reply(
        self, request: StoredMessage, body: bytes, *, timeout_ms: int | None = None
    ) -> SendReceipt:
        """Answer a consumed request; the broker pushes the reply to the client that sent it.

        Raises:
            InvalidInput: the message is not a request.
            SendRefused: the broker refused, such as because the requester is gone; see the remark.
            OrbitError: the errors of ``send``.
        """
        check_timeout_ms(timeout_ms)
        return await self._exchanging().reply(request, body, timeout_ms)

    async def recall(self, topic: str, handle: str, *, timeout_ms: int | None = None) -> str:
        """Recall a delayed message by the ``recall_handle`` of its receipt; return its id.

        Raises:
            InvalidInput: the handle can't be read, or messages of the topic can't be recalled.
            BrokerError: the broker refuses: recalls are switched off, or it is too late.
            NoRoute, NetworkError: the broker can't be found, can't be reached, or doesn't answer.
        """
        check_timeout_ms(timeout_ms)
        return await self._exchanging().recall(topic, handle, timeout_ms)
