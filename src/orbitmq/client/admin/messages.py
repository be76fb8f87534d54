"""Stored messages, for operators."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from orbitmq.client.admin.reading import QueueReading
from orbitmq.client.arguments import check_text
from orbitmq.errors import InvalidInput, NotFound
from orbitmq.message.host import Host
from orbitmq.message.ids import parse_offset_id
from orbitmq.message.model import StoredMessage
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import BrokerData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX
from orbitmq.wire.headers.query import QueryMessage, ViewMessage

__all__ = ["MessageAdmin"]

_UNIQUE_KEY_AGE_MS: Final = 3 * 24 * 3_600_000
_QUERY_MAX: Final = 64
_COPIES_MAX: Final = 32
"""All are Java's (MQAdminImpl), the last two its brokers' (maxMsgsNumBatch, defaultQueryMaxNum)."""
_PORT_MAX: Final = 65_535


class MessageAdmin(QueueReading):
    """What an `Admin` does with messages."""

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
        route = await self._core.routes.route(self._wrapped(topic))
        names = _advertised(route.broker_datas)
        if place is not None and (name := names.get(str(place[0]))) is not None:
            return await self._at(*place, topic, name)
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
        found = await self._copies(topic, message_id, begin_ms, end_ms)
        return found[0] if found else None

    async def _copies(
        self, topic: str, message_id: str, begin_ms: int = 0, end_ms: int = INT64_MAX
    ) -> list[StoredMessage]:
        """Return the newest messages of a topic with a unique id, the oldest of them first."""
        header = self._copies_query(topic, message_id, begin_ms, end_ms)
        return [one for one in await self._query(header) if one.message_id == message_id]

    async def _all_copies(self, topic: str, message_id: str) -> list[StoredMessage]:
        """Return all messages of a topic with a unique id; raise unless all its brokers answer."""

        async def ask(name: str, address: Address) -> dict[str, StoredMessage]:
            found: dict[str, StoredMessage] = {}
            header = self._copies_query(topic, message_id, 0, INT64_MAX)
            while page := {
                one.offset_message_id: one
                for one in await self._query_one(name, address, header)
                if one.offset_message_id not in found
            }:
                found |= page
                # A broker returns the newest ones of the range.
                oldest_ms = min(one.store_timestamp_ms for one in page.values())
                header = replace(header, end_timestamp=oldest_ms)
            return found

        brokers = await self._brokers_of_topic(topic)
        answers = await self._all_of({name: ask(name, at) for name, at in brokers.items()})
        copies = [one for found in answers.values() for one in found.values()]
        return [one for one in copies if one.message_id == message_id]

    def _copies_query(
        self, topic: str, message_id: str, begin_ms: int, end_ms: int
    ) -> QueryMessage:
        return QueryMessage(
            topic=self._wrapped(topic),
            key=message_id,
            max_num=_COPIES_MAX,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key=True,
        )

    async def _query(self, header: QueryMessage) -> list[StoredMessage]:
        """Query all brokers of the topic in parallel; a replica if there is no master."""
        asked = await self._brokers_of_topic(header.topic)
        results = await self._some_of(
            {name: self._query_one(name, at, header) for name, at in asked.items()},
            f"the result of a query in {header.topic}",
        )
        messages = [one for found in results.values() for one in found if one.topic == header.topic]
        messages.sort(key=lambda one: one.store_timestamp_ms)
        return [self._unwrapped_message(one) for one in messages]

    async def _query_one(
        self, name: str, address: Address, header: QueryMessage
    ) -> list[StoredMessage]:
        answer = await self._request(address, header, timeout_ms=3 * self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        self._check(answer, address)
        return decode_all(answer.body, broker_name=name)

    async def _at(
        self, host: Host, offset: int, topic: str, broker_name: str = ""
    ) -> StoredMessage:
        address = self._core.routes.where.address(str(host))
        if address is None:
            raise NotFound(ResponseCode.NO_MESSAGE, f"{host} is not the address of a broker")
        header = ViewMessage(topic=self._wrapped(topic), offset=offset)
        answer = await self._request(address, header)
        if answer.code == ResponseCode.SYSTEM_ERROR:
            # The answer of a broker for an offset where no record begins.
            raise NotFound(ResponseCode.NO_MESSAGE, answer.remark, address=str(address))
        self._check(answer, address)
        messages = decode_all(answer.body, broker_name=broker_name)
        if not messages:
            raise NotFound(ResponseCode.NO_MESSAGE, "the answer is empty", address=str(address))
        return self._unwrapped_message(messages[0])


def _place(message_id: str) -> tuple[Host, int] | None:
    """Return broker and offset of an offset id; None if the id can't be one."""
    try:
        host, offset = parse_offset_id(message_id)
    except InvalidInput:
        return None
    return (host, offset) if 0 < host.port <= _PORT_MAX and offset >= 0 else None


def _advertised(brokers: Iterable[BrokerData]) -> dict[str, str]:
    """Return the names of brokers by their addresses."""
    return {
        address: broker.broker_name
        for broker in brokers
        for address in broker.broker_addrs.values()
    }
