"""What a replica asks its master for, besides the log: tables, and how far its log reaches.

::

    every 10 s ─▶ topics ─▶ groups ─▶ consumer offsets ─▶ progress of delivery ─▶ request modes
                                            │
                                            └─▶ offsets that were committed here, while the master
                                                was gone, and are further than its own: sent back

A message of a topic that is unknown here is a reason to ask at once: if the master were lost,
nobody could read it. A question that fails is asked again in the next round; the others are asked
all the same. Java (``SlaveSynchronize``) asks the same, every minute since 5.x and every ten
seconds before.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from orbitmq.errors import BrokerError, InvalidBody, OrbitError
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.replication.follower import LogRange
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.group import SubscriptionGroupTable
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from orbitmq.wire.bodies.pop import RequestModeTable
from orbitmq.wire.bodies.replication import EpochEntryCache
from orbitmq.wire.bodies.topic import TopicConfigTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.headers.admin import GetAllSubscriptionGroup, GetAllTopicConfig
from orbitmq.wire.headers.offset import UpdateConsumerOffset
from orbitmq.wire.json.body import Body

__all__ = ["MasterTables", "MetadataSync", "OwnOffset"]

log = logging.getLogger("orbitmq.replication")

T = TypeVar("T", bound=Body)

_PERIOD_S: Final = 10.0
_LEAST_S: Final = 1.0
"""Between two rounds, however many unknown topics there are."""
_ASKED_MAX: Final = 10_000


class OwnOffset(NamedTuple):
    """An offset that a group committed here."""

    group: str
    topic: str
    queue_id: int
    offset: int


class MasterTables(Protocol):
    """Where the tables of the master go."""

    def take_topics(self, table: TopicConfigTable) -> None:
        """Replace the topics, if the version differs."""

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        """Replace the groups, if the version differs."""

    def take_offsets(self, table: ConsumerOffsetTable) -> Sequence[OwnOffset]:
        """Take the offsets over; return those that are further here than at the master."""

    def returned(self, own: OwnOffset) -> None:
        """Note that the master has taken an offset."""

    def has_log_before(self, end: int) -> bool:
        """Return whether the log here goes as far."""

    def take_progress(self, offsets: ConsumerOffsetTable, delays: DelayOffsetTable) -> None:
        """Replace how far the master has delivered, of delay levels and of transactions."""

    def take_request_modes(self, table: RequestModeTable) -> None:
        """Replace how groups read topics."""


class MetadataSync:
    """Asks the master at ``address``, once it is known; ``run`` it as a task.

    With elections ``epoch`` returns that of the master, 0 while it is not followed. Tables are
    taken from the broker that leads in it alone: one that lost its disk is there again without any.
    """

    def __init__(
        self,
        dialer: Dialer,
        tables: MasterTables,
        epoch: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._dialer = dialer
        self._tables = tables
        self._epoch = epoch
        self._cause: object = None  # of the failure of the last round
        self._known = asyncio.Event()
        self._asked: set[str] = set()
        self._round_at = 0.0
        self._delivered: tuple[int, ConsumerOffsetTable, DelayOffsetTable] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self.address: Address | None = None
        """Where clients reach the master."""

    def __repr__(self) -> str:
        return f"<MetadataSync with {self.address}>"

    def follow(self, address: Address) -> None:
        """Ask the master at an address from now on."""
        if address != self.address:
            self.address = address
            self._delivered = None
            self._known.set()

    def ask_for(self, topic: str) -> None:
        """Take the tables over soon, since a message came whose topic is unknown.

        Once for each topic that the master does not know either; again if it did not answer.
        """
        if topic in self._asked:
            return
        if len(self._asked) >= _ASKED_MAX:
            self._asked.clear()
        self._asked.add(topic)
        if self._soon is None:
            loop = asyncio.get_running_loop()
            self._soon = loop.call_at(self._round_at + _LEAST_S, self._known.set)

    async def log_range(self) -> LogRange | None:
        """Return from where to where the master's log goes; None if no master is known.

        Raise OrbitError if it does not say.
        """
        if self.address is None:
            return None
        table = (await self._ask(KVTable, code=RequestCode.GET_BROKER_RUNTIME_INFO)).table
        try:
            # A master of Java that has no log file yet says -1 (``CommitLog.getMinOffset``).
            first = max(0, int(table["commitLogMinOffset"]))
            return LogRange(first, int(table["commitLogMaxOffset"]))
        except (KeyError, ValueError) as error:
            raise InvalidBody(f"the runtime info of {self.address} has no log: {error}") from error

    async def run(self) -> None:
        """Take the tables over until cancelled, at once when the master changes."""
        while True:
            self._known.clear()
            self._soon, self._round_at = None, asyncio.get_running_loop().time()
            period_s = _PERIOD_S
            if self.address is not None and await self._is_master():
                await self.round()
            elif self.address is not None:
                period_s = _LEAST_S
            try:
                async with asyncio.timeout(period_s):
                    await self._known.wait()
            except TimeoutError:
                pass

    async def _is_master(self) -> bool:
        """Return whether the master of the epoch is at the address, if there are elections."""
        epoch = self._epoch()
        if not epoch:
            return epoch is None
        try:
            known = await self._ask(EpochEntryCache, code=RequestCode.GET_BROKER_EPOCH_CACHE)
        except OrbitError:
            return False
        return bool(known.epoch_list) and known.epoch_list[-1].epoch == epoch

    async def round(self) -> None:
        """Take all tables over once; a failure is logged unless the last round had the same."""
        failure: OrbitError | None = None
        for step in (self._topics, self._groups, self._offsets, self._progress, self._modes):
            try:
                await step()
            except OrbitError as error:
                failure = failure or error
        # Not its text, in which each request has a number.
        cause = failure and (self.address, type(failure), getattr(failure, "code", None))
        if cause != self._cause:
            if failure is None:
                log.info("tables of the master %s are taken over again", self.address)
            else:
                log.warning("tables of the master %s are not taken over: %s", self.address, failure)
        self._cause = cause

    async def _topics(self) -> None:
        try:
            table = await self._ask(TopicConfigTable, GetAllTopicConfig())
        except OrbitError:
            self._asked.clear()  # the next message of an unknown topic asks again
            raise
        self._tables.take_topics(table)

    async def _groups(self) -> None:
        self._tables.take_groups(await self._ask(SubscriptionGroupTable, GetAllSubscriptionGroup()))

    async def _offsets(self) -> None:
        for own in self._tables.take_offsets(await self._consumer_offsets()):
            await self._request(
                UpdateConsumerOffset(
                    consumer_group=own.group,
                    topic=own.topic,
                    queue_id=own.queue_id,
                    commit_offset=own.offset,
                )
            )
            self._tables.returned(own)

    async def _progress(self) -> None:
        """Take over how far the master has delivered, once the log here has what was delivered.

        If the master were lost before, nobody would deliver it again.
        """
        if self._delivered is None:
            offsets = await self._consumer_offsets()
            delays = await self._ask(DelayOffsetTable, code=RequestCode.GET_ALL_DELAY_OFFSET)
            known = await self.log_range()  # after the tables: they know of nothing behind it
            self._delivered = (0 if known is None else known.end, offsets, delays)
        end, offsets, delays = self._delivered
        if self._tables.has_log_before(end):
            self._tables.take_progress(offsets, delays)
            self._delivered = None

    async def _consumer_offsets(self) -> ConsumerOffsetTable:
        return await self._ask(ConsumerOffsetTable, code=RequestCode.GET_ALL_CONSUMER_OFFSET)

    async def _modes(self) -> None:
        code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        self._tables.take_request_modes(await self._ask(RequestModeTable, code=code))

    async def _ask(
        self, body: type[T], header: Header | None = None, code: RequestCode | None = None
    ) -> T:
        return body.from_json(await self._request(header or NoFields(), code))

    async def _request(self, header: Header, code: RequestCode | None = None) -> bytes:
        assert self.address is not None
        answer = await self._dialer.request(self.address, header, code=code)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(self.address))
        return bytes(answer.body)
