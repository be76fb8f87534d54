"""Transactions: a message that consumers see only when the sender's own work is done.

::

    half message ── SEND_OK ──▶ open ── commit() ──────────▶ delivered
         │                       ├───── rollback() ────────▶ dropped
         │                       └───── leave_undecided() ─▶ the broker asks, see transaction_checks
         └─ stored, but less safely than asked ── dropped, and TransactionNotBegun

The decision is sent one-way, as in Java (``DefaultMQProducerImpl.endTransaction``). If it is lost,
the outcome is only delayed: the broker asks the group, and the process that decided remembers it.
"""

import enum
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, Self

import msgspec

from orbitmq.client.user_code import UserCode
from orbitmq.errors import InvalidInput, OrbitError, TransactionNotBegun
from orbitmq.message import flags, names, properties
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import (
    Message,
    MessageQueue,
    SendReceipt,
    SendStatus,
    StoredMessage,
)
from orbitmq.net.connection import Connection
from orbitmq.wire.headers.transaction import EndTransaction

__all__ = [
    "Check",
    "LocalWork",
    "Transaction",
    "TransactionEnd",
    "TransactionListener",
    "TransactionReceipt",
    "TransactionState",
    "Transactions",
    "check_undelayed",
    "decided",
]

log = logging.getLogger("orbitmq.client")

DECIDED_MAX: Final = 10_000
"""How many decisions are remembered for checks of the broker; the oldest are dropped."""


class TransactionState(enum.Enum):
    """The outcome of the sender's own work; the value is Java's name for it in trace records."""

    COMMIT = "COMMIT_MESSAGE"
    """Deliver the message."""
    ROLLBACK = "ROLLBACK_MESSAGE"
    """Drop the message."""
    UNKNOWN = "UNKNOW"
    """Not known yet: ask again later. (Java's spelling.)"""

    @property
    def wire(self) -> int:
        """The value in an END_TRANSACTION request.

        >>> [state.wire for state in TransactionState]
        [8, 12, 0]
        """
        return _WIRE[self]


_WIRE: Final[Mapping[TransactionState, int]] = MappingProxyType(
    {
        TransactionState.COMMIT: flags.TRANSACTION_COMMIT,
        TransactionState.ROLLBACK: flags.TRANSACTION_ROLLBACK,
        TransactionState.UNKNOWN: 0,
    }
)

Decision = TransactionState | Awaitable[TransactionState]
LocalWork = Callable[[Message], Decision]
"""Does the sender's own work and returns its outcome. A coroutine function runs on the loop, a
plain function on a worker thread."""
Check = Callable[[StoredMessage], Decision]
"""Returns the outcome of the work that belongs to a half message; runs like ``LocalWork``. It may
be asked about messages of every member of the group, so it must look at something that all of them
share, such as a database."""


class TransactionListener(Protocol):
    """Local work and check in one object, as in Java; either may be a coroutine function."""

    def execute(self, message: Message) -> Decision:
        """Do the sender's own work for a message whose half is stored; return the outcome."""
        ...

    def check(self, message: StoredMessage) -> Decision:
        """Return the outcome of the work for a half message."""
        ...


class TransactionReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a transaction: the broker's receipt for the half message, and the decision."""

    receipt: SendReceipt
    state: TransactionState


class TransactionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was sent to the broker, as traces report it."""

    topic: str
    tags: str | None
    keys: tuple[str, ...]
    message_id: str
    transaction_id: str | None
    broker_address: str
    region: str | None
    state: TransactionState
    from_check: bool


Connect = Callable[[MessageQueue], Awaitable[Connection]]
"""Returns an open connection to the broker of a queue."""
SendHalf = Callable[[Mapping[str, str]], Awaitable[SendReceipt]]
"""Sends the message with additional properties that only RocketMQ itself may set."""
OnEnd = Callable[[TransactionEnd], None]


@dataclass(kw_only=True, eq=False, repr=False)
class Transactions:
    """The transactions of one producer.

    ``group`` includes any namespace: the broker asks its members. ``connect`` connects to the
    broker that has a half message. ``namespace`` is a prefix of names on the wire, ``namespace_v2``
    a field of headers. ``on_end`` is called with each decision, and must not raise.
    """

    group: str
    connect: Connect
    user_code: UserCode
    listener: TransactionListener | None = None
    namespace: str = ""
    namespace_v2: str = ""
    on_end: OnEnd = lambda _end: None
    _open: set[str] = field(default_factory=set, init=False)
    _decided: OrderedDict[str, TransactionState] = field(default_factory=OrderedDict, init=False)

    def __repr__(self) -> str:
        return f"<Transactions of {self.group}, {len(self._open)} open>"

    def transaction(self, message: Message, send_half: SendHalf) -> "Transaction":
        """Return a transaction for ``async with``; InvalidInput if the message is delayed."""
        check_undelayed(message)
        return Transaction(self, message, send_half)

    async def send(
        self, message: Message, send_half: SendHalf, local_work: LocalWork | None = None
    ) -> TransactionReceipt:
        """Send the half message, do the local work, and send the decision to the broker.

        If the local work raises, the transaction stays undecided, as in Java: the error is logged
        and sent to the broker, which will ask the check function. A half message that is stored
        less safely than asked is rolled back, and no work is done.
        """
        check_undelayed(message)
        work = local_work
        if work is None and self.listener is not None:
            work = self.listener.execute
        if work is None:
            raise InvalidInput(
                "the transaction has no local work; give a function, give the producer a "
                "TransactionListener, or use 'async with producer.transaction(message)'",
                field="local_work",
            )
        receipt = await send_half(self._marks())
        if receipt.status is not SendStatus.SEND_OK:
            await self.end(message, receipt, TransactionState.ROLLBACK)
            return TransactionReceipt(receipt=receipt, state=TransactionState.ROLLBACK)
        self._open.add(receipt.message_id)
        state, remark = TransactionState.UNKNOWN, None
        try:
            state = decided(await self.user_code.call(work, message))
        except Exception as error:
            log.exception("%s: the local work of %s failed", self.group, receipt.message_id)
            remark = f"executeLocalTransactionBranch exception: {_brief(error)}"
        finally:
            self._open.discard(receipt.message_id)
        await self.end(message, receipt, state, remark)
        return TransactionReceipt(receipt=receipt, state=state)

    async def begin(self, message: Message, send_half: SendHalf) -> SendReceipt:
        """Send the half message and return its receipt; the caller must call ``end``.

        Raise TransactionNotBegun if it was stored less safely than asked, and rolled back.
        """
        receipt = await self.prepare(message, send_half)
        self._open.add(receipt.message_id)
        return receipt

    async def prepare(self, message: Message, send_half: SendHalf) -> SendReceipt:
        """Do the same for a transaction that another process may end: none is known here."""
        receipt = await send_half(self._marks())
        if receipt.status is not SendStatus.SEND_OK:
            await self.end(message, receipt, TransactionState.ROLLBACK)
            raise TransactionNotBegun(
                f"the broker answered {receipt.status.value} for the half message "
                f"{receipt.message_id} to {message.topic}, so it was rolled back before any work "
                "was done; begin the transaction again",
                topic=message.topic,
                send_id=receipt.message_id,
            )
        return receipt

    async def end(
        self,
        message: Message,
        receipt: SendReceipt,
        state: TransactionState,
        remark: str | None = None,
    ) -> None:
        """Remember a decision and send it to the broker; a failure to send is only logged."""
        self._open.discard(receipt.message_id)
        self._remember(receipt.message_id, state)
        try:
            connection = await self.connect(receipt.queue)
            self.on_end(_end(message, receipt, state, connection.peer))
            connection.oneway(self._header(message, receipt, state), remark=remark)
        except OrbitError as error:
            log.warning(
                "%s: the %s of %s can't be sent to %s, which will ask for it: %s",
                self.group,
                state.name,
                receipt.message_id,
                receipt.queue.broker_name,
                error,
            )

    def known_state(self, message_id: str) -> TransactionState | None:
        """Return the state of a transaction of this process; None if it is not known here.

        An open one is UNKNOWN: the code that decides it will send the decision.
        """
        if message_id in self._open:
            return TransactionState.UNKNOWN
        return self._decided.get(message_id)

    def _marks(self) -> Mapping[str, str]:
        return {
            properties.TRANSACTION_PREPARED: "true",
            properties.PRODUCER_GROUP: self.group,
        }

    def _remember(self, message_id: str, state: TransactionState) -> None:
        if state is TransactionState.UNKNOWN:
            return
        self._decided[message_id] = state
        if len(self._decided) > DECIDED_MAX:
            self._decided.popitem(last=False)

    def _header(
        self, message: Message, receipt: SendReceipt, state: TransactionState
    ) -> EndTransaction:
        _, commit_log_offset = parse_offset_id(receipt.offset_message_id)
        return EndTransaction(
            topic=names.wrap_namespace(self.namespace, message.topic),
            producer_group=self.group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=commit_log_offset,
            commit_or_rollback=state.wire,
            msg_id=receipt.message_id,
            transaction_id=receipt.transaction_id,
            target_broker=receipt.queue.broker_name,
            namespace=self.namespace_v2 or None,
            namespaced=True if self.namespace_v2 else None,
        )


class Transaction:
    """One transaction: the end of the block commits it, an exception rolls it back.

    A cancelled block is rolled back too. If the outcome of your own work is in doubt (such as when
    a database did not answer a commit), call ``leave_undecided`` before you raise: the broker will
    then ask the check function.

    ``Producer.transaction`` returns one::

        async with producer.transaction(message) as transaction:
            await database.execute("INSERT …", transaction.message_id)
    """

    def __init__(self, owner: Transactions, message: Message, send_half: SendHalf) -> None:
        self._owner = owner
        self._message = message
        self._send_half = send_half
        self._receipt: SendReceipt | None = None
        self._state: TransactionState | None = None

    def __repr__(self) -> str:
        known = self._receipt.message_id if self._receipt else "not begun"
        return f"<Transaction {known} {self._state.name if self._state else 'open'}>"

    @property
    def receipt(self) -> SendReceipt:
        """The broker's receipt for the half message."""
        if self._receipt is None:
            raise InvalidInput(
                "the transaction has not begun yet; use 'async with'", field="transaction"
            )
        return self._receipt

    @property
    def message_id(self) -> str:
        """The message's unique id; store it with your own work, since a check asks by it."""
        return self.receipt.message_id

    @property
    def state(self) -> TransactionState | None:
        """The decision; None while the transaction is open."""
        return self._state

    async def commit(self) -> None:
        """Commit now, before the end of the block: the message is delivered.

        Raises:
            InvalidInput: the transaction has ended already.
        """
        await self._decide(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Roll back without an exception: the message is dropped.

        Raises:
            InvalidInput: the transaction has ended already.
        """
        await self._decide(TransactionState.ROLLBACK)

    async def leave_undecided(self) -> None:
        """Leave the decision to the check function, which the broker will ask.

        Raises:
            InvalidInput: the transaction has ended already.
        """
        await self._decide(TransactionState.UNKNOWN)

    async def __aenter__(self) -> Self:
        if self._receipt is not None:
            raise InvalidInput(
                "the transaction was used before; create one for each message",
                field="transaction",
            )
        self._receipt = await self._owner.begin(self._message, self._send_half)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self._state is None:
            await self._decide(
                TransactionState.COMMIT if kind is None else TransactionState.ROLLBACK
            )

    async def _decide(self, state: TransactionState) -> None:
        receipt = self.receipt
        if self._state is not None:
            raise InvalidInput(
                f"the transaction of {receipt.message_id} has already ended with "
                f"{self._state.name}; create one for each message",
                field="transaction",
            )
        self._state = state
        await self._owner.end(self._message, receipt, state)


def decided(value: object) -> TransactionState:
    """Return the decision of a user's function; TypeError if it returned something else."""
    if not isinstance(value, TransactionState):
        raise TypeError(f"the function must return a TransactionState, not {type(value).__name__}")
    return value


def check_undelayed(message: Message) -> None:
    """Refuse a delayed message in a transaction: InvalidInput."""
    if message.delay_level or message.delay is not None or message.deliver_at is not None:
        # Java's client silently drops the level, and the message is delivered too early.
        raise InvalidInput(
            "a message of a transaction can't be delayed; send it without delay_level, delay and "
            "deliver_at",
            field="delay_level",
        )


def _end(
    message: Message, receipt: SendReceipt, state: TransactionState, address: str
) -> TransactionEnd:
    return TransactionEnd(
        topic=message.topic,
        tags=message.tags,
        keys=tuple(message.keys),
        message_id=receipt.message_id,
        transaction_id=receipt.transaction_id,
        broker_address=address,
        region=receipt.region,
        state=state,
        from_check=False,
    )


def _brief(error: Exception) -> str:
    """Return an error short enough for a remark."""
    return f"{type(error).__name__}: {error}"[:1024]
