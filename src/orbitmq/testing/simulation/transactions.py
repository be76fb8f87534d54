"""How simulated senders end their half messages, by themselves or when a broker asks.

::

    acknowledged ──▶ END_TRANSACTION, once, twice or not at all ──▶ lost, or answered
                                                                       │
                     asked by the broker: the same decision            └─▶ the opposite: no effect
    not acknowledged ─▶ asked by the broker: rollback

"""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from orbitmq.errors import NetworkError
from orbitmq.message import flags, properties
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.randomness import Randomness
from orbitmq.testing.simulation.calls import Caller
from orbitmq.testing.simulation.histories import Attempt, Kind
from orbitmq.testing.simulation.routes import Master
from orbitmq.wire.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import Heartbeat
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.headers.transaction import CheckTransactionState, EndTransaction

__all__ = ["SENDERS", "Decisions"]

SENDERS: Final = "senders"
"""The producer group of all senders: a broker may ask any of them."""

_HEARTBEAT_S: Final = 2.0


class Decisions:
    """Ends the half messages of one sender, and answers brokers about those of the whole group.

    It sends heartbeats to every broker that it has ended one on, or joined, until the caller is
    closed.
    """

    def __init__(self, client_id: str, caller: Caller, chance: Randomness) -> None:
        self._client_id = client_id
        self._caller = caller
        self._chance = chance
        self._heartbeats: dict[Address, asyncio.Task[None]] = {}
        self._joining: asyncio.Task[None] | None = None
        caller.handler = self._checked

    async def join(self, address: Address) -> None:
        """Make the sender known to a broker, which may then ask it."""
        if address not in self._heartbeats:
            await self._heartbeat(address)
            self._heartbeats[address] = asyncio.create_task(self._keep_known(address))

    def join_each(self, master: Master) -> None:
        """Make the sender known to each broker that becomes the master, as producers do."""
        self._joining = asyncio.create_task(self._join_each(master))

    async def end(self, address: Address, attempt: Attempt, stored: SendMessageAnswer) -> None:
        """Commit or roll back a half message; sometimes not, or more than once."""
        _, offset = parse_offset_id(stored.msg_id)
        header = EndTransaction(
            producer_group=SENDERS,
            tran_state_table_offset=stored.queue_offset,
            commit_log_offset=offset,
            commit_or_rollback=decision(attempt),
            msg_id=attempt.key,
            transaction_id=stored.transaction_id,
        )
        for _ in range(self._chance.below(3)):
            answer = await self._caller.ask(address, header)
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                header = _opposite(header)  # from now on it has no effect

    async def _join_each(self, master: Master) -> None:
        while not self._caller.is_closed:
            if (address := await master.find()) is not None:
                await self.join(address)
            await self._caller.clock.sleep(_HEARTBEAT_S)

    async def _keep_known(self, address: Address) -> None:
        while not self._caller.is_closed:
            await self._caller.clock.sleep(_HEARTBEAT_S)
            await self._heartbeat(address)

    async def _heartbeat(self, address: Address) -> None:
        beat = HeartbeatData(
            client_id=self._client_id, producer_data_set=(ProducerData(group_name=SENDERS),)
        )
        await self._caller.ask(address, Heartbeat(), beat.to_json())

    def _checked(self, connection: Connection, request: Frame) -> None:
        """Answer a broker that asks about a half message; both ways are one-way requests."""
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        asked = request.read(CheckTransactionState)
        (message,) = decode_all(request.body)
        key = message.properties.get(properties.UNIQUE_KEY)
        state = next(
            decision(attempt)
            for attempt in self._caller.history.attempts
            if (attempt.key, attempt.number) == (key, message.flag)
        )
        answer = EndTransaction(
            producer_group=SENDERS,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=state,
            from_transaction_check=True,
            msg_id=asked.msg_id or "",
            transaction_id=asked.transaction_id,
        )
        with suppress(NetworkError):  # lost: the broker asks again
            connection.oneway(answer)


def decision(attempt: Attempt) -> int:
    """Return the outcome of a half message, as in END_TRANSACTION; unknown while it is sent.

    >>> decision(Attempt("a-1", 0, queue_id=0, tag="red", acked_at=5, kind=Kind.COMMITTED))
    8
    """
    if attempt.acked_at is not None and attempt.kind is Kind.COMMITTED:
        return flags.TRANSACTION_COMMIT
    if attempt.acked_at is not None or attempt.is_over:
        return flags.TRANSACTION_ROLLBACK
    return flags.TRANSACTION_NONE


def _opposite(header: EndTransaction) -> EndTransaction:
    state = flags.TRANSACTION_COMMIT ^ flags.TRANSACTION_ROLLBACK ^ header.commit_or_rollback
    return msgspec.structs.replace(header, commit_or_rollback=state)
