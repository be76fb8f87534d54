"""Transaction checks: a broker asks for the outcome of a half message; both ways are one-way.

::

    CHECK_TRANSACTION_STATE ──▶ decided in this process? ── yes ──▶ END_TRANSACTION
                                      │ no
                                      ▼
                                waiting (bounded) ──▶ the user's check function ──▶ END_TRANSACTION

A check that is dropped, or whose answer is lost, does no harm: the broker asks any member of the
group again after half a minute, about fifteen times.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from orbitmq.client.producer.transactions import (
    Check,
    OnEnd,
    TransactionEnd,
    TransactionState,
    decided,
)
from orbitmq.client.user_code import UserCode
from orbitmq.errors import CorruptRecord, OrbitError
from orbitmq.message import names, properties
from orbitmq.message.model import StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.net.connection import Connection
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.transaction import CheckTransactionState, EndTransaction

__all__ = ["CheckRequest", "TransactionChecks", "read_check_request"]

log = logging.getLogger("orbitmq.client")

AT_ONCE: Final = 1
WAITING_MAX: Final = 2_000
"""Both are Java's (``TransactionMQProducer``: check threads, checkRequestHoldMax)."""


class CheckRequest(NamedTuple):
    """A broker's question about a half message."""

    header: CheckTransactionState
    message: StoredMessage

    @property
    def group(self) -> str:
        """The producer group that is asked, with any namespace; empty if the broker named none."""
        return self.message.properties.get(properties.PRODUCER_GROUP, "")


def read_check_request(request: Frame, namespace: str | None = None) -> CheckRequest:
    """Decode a CHECK_TRANSACTION_STATE request; its topic loses the namespace."""
    header = request.read(CheckTransactionState)
    messages = decode_all(request.body)
    if len(messages) != 1:
        raise CorruptRecord(f"a transaction check has {len(messages)} messages instead of one")
    (message,) = messages
    topic = names.strip_namespace(message.topic, namespace)
    return CheckRequest(
        header, replace(message, topic=topic) if topic != message.topic else message
    )


@dataclass(kw_only=True, eq=False, repr=False)
class TransactionChecks:
    """Answers the transaction checks of one producer.

    ``group`` includes any namespace. ``known`` returns what this process itself decided, None if it
    knows nothing; ``check`` is the user's function, without which unknown transactions stay
    undecided. ``on_end`` is called with each answer, and must not raise. ``at_once`` checks run in
    parallel and ``waiting_max`` may wait; further ones are dropped and counted, and the broker asks
    again.
    """

    group: str
    known: Callable[[str], TransactionState | None]
    check: Check | None
    user_code: UserCode
    on_end: OnEnd = lambda _end: None
    at_once: int = AT_ONCE
    waiting_max: int = WAITING_MAX
    dropped: int = field(default=0, init=False)
    _waiting: deque[tuple[Connection, CheckRequest]] = field(default_factory=deque, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _warned: set[str] = field(default_factory=set, init=False)
    _closed: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return (
            f"<TransactionChecks of {self.group}, {len(self._tasks)} running, "
            f"{len(self._waiting)} waiting>"
        )

    def take(self, connection: Connection, request: CheckRequest) -> None:
        """Answer a check now if this process knows the outcome, else when its turn comes."""
        if self._closed:
            return
        state = self.known(request.message.message_id)
        if state is not None:
            self._answer(connection, request, state)
        elif self.check is None:
            self._warn_once(
                "no check",
                "%s: the broker at %s asks for the outcome of %s, and there is no check function; "
                "give the producer one, or brokers drop what other processes left undecided",
                self.group,
                connection.peer,
                request.message.message_id,
            )
        elif len(self._waiting) >= self.waiting_max:
            self.dropped += 1
            self._warn_once(
                "full",
                "%s: dropped a transaction check, since %d are waiting, the limit; the broker will "
                "ask again",
                self.group,
                len(self._waiting),
            )
        else:
            self._waiting.append((connection, request))
            if len(self._tasks) < self.at_once:
                self._start()

    async def close(self, timeout_ms: int) -> None:
        """Drop waiting checks, and wait for running ones; cancel them after the timeout."""
        self._closed = True
        self._waiting.clear()
        if self._tasks:
            running = set(self._tasks)
            _, late = await asyncio.wait(running, timeout=timeout_ms / 1000)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._work(), name="transaction checks")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        assert self.check is not None  # nothing waits without one
        while self._waiting:
            connection, request = self._waiting.popleft()
            state, remark = await self._ask(self.check, request)
            self._answer(connection, request, state, remark)

    async def _ask(
        self, check: Check, request: CheckRequest
    ) -> tuple[TransactionState, str | None]:
        try:
            return decided(await self.user_code.call(check, request.message)), None
        except Exception as error:
            log.exception("%s: the check of %s failed", self.group, request.message.message_id)
            text = f"checkLocalTransactionState Exception: {type(error).__name__}: {error}"
            return TransactionState.UNKNOWN, text[:1024]

    def _answer(
        self,
        connection: Connection,
        request: CheckRequest,
        state: TransactionState,
        remark: str | None = None,
    ) -> None:
        self.on_end(_end(request, state, connection.peer))
        try:
            connection.oneway(_header(request, self.group, state), remark=remark)
        except OrbitError as error:
            log.info(
                "%s: the answer to a check of %s is lost, and it will ask again: %s",
                *(self.group, connection.peer, error),
            )

    def _warn_once(self, about: str, text: str, *values: object) -> None:
        if about not in self._warned:
            self._warned.add(about)
            log.warning(text, *values)


def _header(request: CheckRequest, group: str, state: TransactionState) -> EndTransaction:
    asked = request.header
    return EndTransaction(
        topic=asked.topic,
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=state.wire,
        from_transaction_check=True,
        msg_id=request.message.message_id,
        transaction_id=asked.transaction_id,
        target_broker=asked.target_broker,
        namespace=asked.namespace,
        namespaced=asked.namespaced,
    )


def _end(request: CheckRequest, state: TransactionState, address: str) -> TransactionEnd:
    message = request.message
    return TransactionEnd(
        topic=message.topic,
        tags=message.tags,
        keys=message.keys,
        message_id=message.message_id,
        transaction_id=request.header.transaction_id,
        broker_address=address,
        region=message.properties.get(properties.REGION),
        state=state,
        from_check=True,
    )
