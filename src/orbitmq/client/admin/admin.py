"""Topics, queues and single messages for operators: ``MQAdmin`` in Java.

>>> import asyncio
>>> from orbitmq.embedded import EmbeddedCluster
>>> async def main() -> int:
...     async with EmbeddedCluster() as cluster:
...         async with connect(ClientSettings(nameserver=cluster.nameserver)) as admin:
...             await admin.create_topic("orders", queues=2)
...             queue = (await admin.queues("orders"))[1]
...             return await admin.max_offset(queue)
>>> asyncio.run(main())
0

Names are given and returned without namespace: the first namespace is added to requests, and
removed from answers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeVar

from msgspec.structs import replace

from orbitmq.client.arguments import check_queue, check_text
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.publish_route import MASTER_ID
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import BrokerError, InvalidInput, InvalidTopic, NoRoute, NotFound, OrbitError
from orbitmq.message import names
from orbitmq.message.host import Host
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.bodies import read_body
from orbitmq.wire.bodies.route import BrokerData, TopicRouteData
from orbitmq.wire.bodies.topic import TopicFilterType, TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import INT64_MAX, Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.offset import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)
from orbitmq.wire.headers.query import QueryMessage, ViewMessage

__all__ = ["Admin", "connect"]

log = logging.getLogger("orbitmq.client")

_TIMEOUT_MS: Final = 6_000
_QUERY_TIMEOUT_MS: Final = 3 * _TIMEOUT_MS
_CREATE_TRIES: Final = 5
_UNIQUE_KEY_AGE_MS: Final = 3 * 24 * 3_600_000
_QUERY_MAX: Final = 64
"""All are Java's (MQAdminImpl), the last one its brokers' (maxMsgsNumBatch)."""
_PORT_MAX: Final = 65_535

H = TypeVar("H", bound=Header)


class Admin:
    """Administrative requests of a client; see ``connect``. The caller owns the core."""

    def __init__(self, core: ClientCore, *, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._core = core
        self._timeout_ms = timeout_ms
        self._namespace = core.settings.namespace

    def __repr__(self) -> str:
        return f"<Admin {self._core.nameservers!r}>"

    # Topics

    async def topics(self, *, include_system: bool = True) -> list[str]:
        """Return the names of all topics, sorted.

        Without ``include_system``, topics that RocketMQ makes for itself are left out: reserved
        names, and topics named after clusters and brokers.

        Raises:
            NameserversFailed: no nameserver answered.
            BrokerError: a nameserver refused the request.
        """
        found = await self._topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if not include_system:
            named = await self._topic_list(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            system = {*named, *map(names.reply_topic, named)}
            found = [one for one in found if one not in system and not names.is_system_topic(one)]
        return sorted(map(self._unwrapped, found))

    async def _topic_list(self, code: RequestCode) -> Sequence[str]:
        answer = await self._core.nameservers.request(
            NoFields(), timeout_ms=self._timeout_ms, code=code
        )
        _check(answer, next(self._core.nameservers.in_turn()))
        return (await read_body(TopicList, answer.body, self._core.workers)).topic_list

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic: its brokers and queues.

        Raises:
            NoRoute: no nameserver knows the topic.
            NameserversFailed: no nameserver answered.
        """
        return await self._core.routes.route(self._wrapped(topic))

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of a topic.

        Raises:
            NoRoute: there are none.
            NameserversFailed: no nameserver answered.
        """
        wrapped = self._wrapped(topic)
        await self._core.routes.route(wrapped)
        route = await self._core.routes.publish_route(wrapped, None)
        return tuple(replace(queue, topic=topic) for queue in route.queues)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        perm: int = 6,
        is_ordered: bool = False,
        attributes: Mapping[str, str] | None = None,
        after: str = AUTO_CREATE_TOPIC,
    ) -> tuple[str, ...]:
        """Create or change a topic on all masters of another topic; return the broker names.

        Args:
            topic: its name.
            queues: the number of queues on each broker.
            perm: 4 to read, 2 to write, 6 both.
            is_ordered: whether it is marked as an ordered topic.
            attributes: attributes such as ``{"message.type": "FIFO"}``.
            after: the topic whose brokers get the new one; or the name of a cluster or a broker.

        Raises:
            InvalidTopic: the name is invalid, or that of a system topic.
            NoRoute: ``after`` has no master.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        wrapped = self._wrapped(topic)
        names.check_topic(wrapped)
        if names.is_system_topic(wrapped):
            raise InvalidTopic(
                f"topic {wrapped} is a system topic of RocketMQ; give another name", field="topic"
            )
        header = CreateTopic(
            topic=wrapped,
            default_topic=after,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type=TopicFilterType.SINGLE_TAG,
            topic_sys_flag=0,
            order=is_ordered,
            attributes=",".join(f"+{key}={value}" for key, value in (attributes or {}).items()),
        )
        masters = await self._masters_after(after)
        await _all_of({name: self._create(at, header) for name, at in masters.items()})
        return tuple(masters)

    async def _masters_after(self, after: str) -> dict[str, Address]:
        try:
            return await self._masters(after)
        except NoRoute as error:
            if not error.is_missing:
                raise
            text = (
                f"no cluster, broker or topic is named {after}; orbitmq topic list --all shows the "
                "names that exist"
            )
            if after == AUTO_CREATE_TOPIC:
                text = (
                    "no broker of this cluster creates topics automatically; name the brokers to "
                    "use: after=, with the name of a cluster or a broker"
                )
            raise NoRoute(text, topic=after, is_missing=True, answers=error.answers) from error

    async def _create(self, address: Address, header: CreateTopic) -> None:
        """Create the topic on one broker, with retries; the request is idempotent."""
        for left in reversed(range(_CREATE_TRIES)):
            try:
                _check(await self._request(address, header), address)
                return
            except OrbitError as error:
                if not left or not error.retriable:
                    raise

    # Queues

    async def search_offset(
        self,
        queue: MessageQueue,
        timestamp_ms: int,
        *,
        boundary: Literal["LOWER", "UPPER"] = "LOWER",
    ) -> int:
        """Return the offset of the first message stored at or after a time.

        Args:
            queue: the queue.
            timestamp_ms: the time, in milliseconds since 1970.
            boundary: the first or the last of several messages stored at exactly that time.

        Raises:
            OrbitError: the queue's broker is unknown, can't be reached, or refuses.
            InvalidInput: the argument is not a queue.
        """
        header = SearchOffset(
            topic=self._topic_of(queue),
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type=boundary,
        )
        return (await self._ask(queue, header, SearchOffsetAnswer)).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message of a queue; errors as ``search_offset``."""
        header = GetMaxOffset(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask(queue, header, GetMaxOffsetAnswer)).offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of a queue; errors as ``search_offset``."""
        header = GetMinOffset(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask(queue, header, GetMinOffsetAnswer)).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Return when the oldest message of a queue was stored, in milliseconds since 1970.

        It is -1 for a queue without messages. Errors as ``search_offset``.
        """
        header = GetEarliestMsgStoretime(topic=self._topic_of(queue), queue_id=queue.queue_id)
        return (await self._ask(queue, header, GetEarliestMsgStoretimeAnswer)).timestamp

    # Messages

    async def view_message(self, topic: str, message_id: str) -> StoredMessage:
        """Return a message by its offset id or its unique id.

        Both look alike: an id that contains the address of a broker of the topic is an offset id.

        Raises:
            NotFound: there is no such message.
            NoRoute: no nameserver knows the topic.
            OrbitError: the brokers can't be reached, or their answers can't be read.
        """
        check_text(message_id, "message_id")
        place = _place(message_id)
        route = await self.route(topic)
        if place is not None and str(place[0]) in _advertised(route.broker_datas):
            return await self._at(*place, topic)
        found = await self.message_by_unique_key(topic, message_id)
        if found is None and place is not None:
            return await self._at(*place, topic)  # the broker may advertise another address
        if found is None:
            raise NotFound(ResponseCode.NO_MESSAGE, f"no message {message_id:.64} in topic {topic}")
        return found

    async def query_message(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = INT64_MAX,
    ) -> list[StoredMessage]:
        """Return messages of a topic with a key, the oldest first.

        Args:
            topic: the topic.
            key: one of their keys.
            max_count: the most messages from each broker, 1 to 64.
            begin_ms: the earliest store time, in milliseconds since 1970.
            end_ms: the latest store time.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        check_text(key, "key")
        if not 1 <= max_count <= _QUERY_MAX:
            raise InvalidInput(
                f"max_count is {max_count}; it must be from 1 to {_QUERY_MAX}", field="max_count"
            )
        header = QueryMessage(
            topic=self._wrapped(topic),
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key=False,
        )
        # The index has only hashes of keys, so other keys with the same hash are found too.
        return [one for one in await self._query(header) if key in one.keys]

    async def message_by_unique_key(
        self, topic: str, message_id: str, *, begin_ms: int | None = None, end_ms: int = INT64_MAX
    ) -> StoredMessage | None:
        """Return the message with a unique id, which its producer gave it; None if there is none.

        Args:
            topic: the topic.
            message_id: the unique id.
            begin_ms: the earliest store time; three days ago if None, as in Java.
            end_ms: the latest store time.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        check_text(message_id, "message_id")
        if begin_ms is None:
            begin_ms = self._core.machine.clock.now_ms() - _UNIQUE_KEY_AGE_MS
        header = QueryMessage(
            topic=self._wrapped(topic),
            key=message_id,
            max_num=32,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key=True,
        )
        found = [one for one in await self._query(header) if one.message_id == message_id]
        return found[0] if found else None

    async def _query(self, header: QueryMessage) -> list[StoredMessage]:
        """Query all brokers of the topic in parallel; a replica if there is no master."""
        route = await self._core.routes.route(header.topic)
        asked = {
            broker.broker_name: at for broker in route.broker_datas if (at := self._any(broker))
        }
        if not asked:
            raise NoRoute(
                f"no broker of topic {header.topic} has an address; check that its brokers run",
                topic=header.topic,
                is_missing=False,
                answers={},
            )
        results = await asyncio.gather(
            *(self._query_one(name, at, header) for name, at in asked.items()),
            return_exceptions=True,
        )
        failures = [one for one in results if isinstance(one, BaseException)]
        for failure in failures:
            if len(failures) == len(results) or not isinstance(failure, OrbitError):
                raise failure
            log.warning("the result of a query in %s is incomplete: %s", header.topic, failure)
        messages = [
            one
            for found in results
            if not isinstance(found, BaseException)
            for one in found
            if one.topic == header.topic
        ]
        messages.sort(key=lambda one: one.store_timestamp_ms)
        return [self._unwrapped_message(one) for one in messages]

    async def _query_one(
        self, name: str, address: Address, header: QueryMessage
    ) -> list[StoredMessage]:
        answer = await self._request(address, header, timeout_ms=_QUERY_TIMEOUT_MS)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        _check(answer, address)
        return decode_all(answer.body, broker_name=name)

    async def _at(self, host: Host, offset: int, topic: str) -> StoredMessage:
        address = self._core.routes.where.address(str(host))
        if address is None:
            raise NotFound(ResponseCode.NO_MESSAGE, f"{host} is not the address of a broker")
        header = ViewMessage(topic=self._wrapped(topic), offset=offset)
        answer = await self._request(address, header)
        if answer.code == ResponseCode.SYSTEM_ERROR:
            # The answer of a broker for an offset where no record begins.
            raise NotFound(ResponseCode.NO_MESSAGE, answer.remark, address=str(address))
        _check(answer, address)
        messages = decode_all(answer.body)
        if not messages:
            raise NotFound(ResponseCode.NO_MESSAGE, "the answer is empty", address=str(address))
        return self._unwrapped_message(messages[0])

    # Requests

    async def _ask(self, queue: MessageQueue, header: Header, kind: type[H]) -> H:
        address = await self._master_of(queue)
        answer = await self._request(address, header)
        _check(answer, address)
        return answer.read(kind)

    async def _request(
        self, address: Address, header: Header, *, timeout_ms: int | None = None
    ) -> Frame:
        return await self._core.request(
            address, header, timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms
        )

    async def _master_of(self, queue: MessageQueue) -> Address:
        """Return the address of a queue's master; refresh the route if it is unknown."""
        topic = self._wrapped(queue.topic)
        address = self._known_master(topic, queue)
        if address is None:
            await self._core.routes.route(topic)
            address = self._known_master(topic, queue)
        if address is None:
            raise NoRoute(
                f"broker {queue.broker_name} is not in the route of topic {topic}, or has no "
                "master; get the queues of the topic again",
                topic=topic,
                is_missing=False,
                answers={},
            )
        return address

    def _known_master(self, topic: str, queue: MessageQueue) -> Address | None:
        known = self._core.routes.cache.get(topic)
        if known is None:
            return None
        leader = known.route.broker_of(replace(queue, topic=topic))
        return self._masters_in(known.data).get(leader)

    async def _masters(self, topic: str) -> dict[str, Address]:
        found = self._masters_in(await self._core.routes.route(topic))
        if not found:
            raise NoRoute(
                f"no broker of topic {topic} has a master; check that its brokers run",
                topic=topic,
                is_missing=False,
                answers={},
            )
        return found

    def _masters_in(self, route: TopicRouteData) -> dict[str, Address]:
        where = self._core.routes.where
        return {
            broker.broker_name: address
            for broker in sorted(route.broker_datas, key=lambda one: one.broker_name)
            if (address := where.address(broker.broker_addrs.get(MASTER_ID, "")))
        }

    def _any(self, broker: BrokerData) -> Address | None:
        for _id, advertised in sorted(broker.broker_addrs.items()):
            if address := self._core.routes.where.address(advertised):
                return address
        return None

    # Names

    def _topic_of(self, queue: MessageQueue) -> str:
        check_queue(queue)
        return self._wrapped(queue.topic)

    def _wrapped(self, topic: str) -> str:
        check_text(topic, "topic")
        return names.wrap_namespace(self._namespace, topic)

    def _unwrapped(self, topic: str) -> str:
        return names.strip_namespace(topic, self._namespace)

    def _unwrapped_message(self, message: StoredMessage) -> StoredMessage:
        return replace(message, topic=self._unwrapped(message.topic))


def _check(answer: Frame, asked: Address) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.of(answer.code, answer.remark, address=str(asked))


def _place(message_id: str) -> tuple[Host, int] | None:
    """Return broker and offset of an offset id; None if the id can't be one."""
    try:
        host, offset = parse_offset_id(message_id)
    except InvalidInput:
        return None
    return (host, offset) if 0 < host.port <= _PORT_MAX and offset >= 0 else None


def _advertised(brokers: Iterable[BrokerData]) -> set[str]:
    return {address for broker in brokers for address in broker.broker_addrs.values()}


async def _all_of(work: Mapping[str, Awaitable[None]]) -> None:
    """Do all of the work in parallel, and raise the first error with notes on each part."""
    results = dict(
        zip(work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True)
    )
    failures = [one for one in results.values() if one is not None]
    if failures:
        for name, one in results.items():
            failures[0].add_note(f"{name}: {'done' if one is None else one}")
        raise failures[0]


@asynccontextmanager
async def connect(settings: ClientSettings, machine: Machine | None = None) -> AsyncIterator[Admin]:
    """Open an `Admin` for some settings; it shares the client of producers with the same ones."""
    core = await ClientCore.acquire(settings, machine)
    try:
        yield Admin(core)
    finally:
        await core.release()
