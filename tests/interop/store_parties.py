"""The two who use a store directory, ours and Java's: asked the same, and held to the same."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from orbitmq.message import ids, properties, scan
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.net.blocking import BlockingConnection
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)
from orbitmq.wire.headers.pull import SUBSCRIPTION, PullMessage, PullMessageAnswer
from orbitmq.wire.headers.query import QueryMessage, ViewMessage
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from tests.interop.parcels import BORN_MS, QUEUES, Parcel

T = TypeVar("T")

FOREVER_MS = 4_000_000_000_000
PIPELINED = 50
"""Requests under way at once; the answers to so many fit into the buffers of a socket."""

ADDED = {"MSG_REGION", "TRACE_ON", "CLUSTER", properties.REAL_TOPIC, properties.REAL_QUEUE_ID}
"""Properties that a broker adds to a message."""


class Party(Protocol):
    """Somebody who has a store open and can be asked for what is in it."""

    def span(self, topic: str, queue_id: int) -> range:
        """The offsets that a queue has."""
        ...

    def queue(self, topic: str, queue_id: int) -> list[StoredMessage]:
        """All messages of a queue, in order."""
        ...

    def at(self, commit_log_offsets: Sequence[int]) -> list[StoredMessage]:
        """The messages at offsets of the log."""
        ...

    def by_key(self, topic: str, keys: Sequence[str], *, unique: bool) -> list[set[int]]:
        """For each key, or unique key, the offsets in the log that the index finds."""
        ...

    def by_time(self, topic: str, queue_id: int, times_ms: Sequence[int]) -> list[int]:
        """For each moment the first queue offset stored then or later."""
        ...


class OurStore:
    """A store of ours, open."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def span(self, topic: str, queue_id: int) -> range:
        queue = self._store.queues.queue(topic, queue_id)
        return range(0) if queue is None else range(queue.min_offset, queue.max_offset)

    def queue(self, topic: str, queue_id: int) -> list[StoredMessage]:
        queue = self._store.queues.queue(topic, queue_id)
        entries = [] if queue is None else [entry for _, entry in queue.iterate(0)]
        return self.at([entry.commit_log_offset for entry in entries])

    def at(self, commit_log_offsets: Sequence[int]) -> list[StoredMessage]:
        found = []
        for offset in commit_log_offsets:
            view = self._store.record(offset)
            assert view is not None, f"no record at {offset}"
            assert view.is_whole(crc_property=False), view
            found.append(view.message())
        return found

    def by_key(self, topic: str, keys: Sequence[str], *, unique: bool) -> list[set[int]]:
        return [set(self._store.index.query(topic, key, 64, 0, FOREVER_MS)) for key in keys]

    def by_time(self, topic: str, queue_id: int, times_ms: Sequence[int]) -> list[int]:
        return [self._store.lookup.offset_by_time(topic, queue_id, time_ms) for time_ms in times_ms]


class JavaStore:
    """A Java broker at the other end of a connection."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection

    def span(self, topic: str, queue_id: int) -> range:
        ask = self._connection.request
        first = ask(GetMinOffset(topic=topic, queue_id=queue_id)).read(GetMinOffsetAnswer)
        last = ask(GetMaxOffset(topic=topic, queue_id=queue_id)).read(GetMaxOffsetAnswer)
        return range(first.offset, last.offset)

    def queue(self, topic: str, queue_id: int, *, tags: str = "*") -> list[StoredMessage]:
        found: list[StoredMessage] = []
        offset = 0
        while True:
            answer = self._connection.request(pull_header(topic, queue_id, offset, tags))
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                return found
            if answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY:  # none with these tags in a file
                found += messages_in(answer)
            offset = answer.read(PullMessageAnswer).next_begin_offset

    def at(self, commit_log_offsets: Sequence[int]) -> list[StoredMessage]:
        answers = self._ask(ViewMessage(offset=offset) for offset in commit_log_offsets)
        found = []
        for answer in answers:
            (message,) = messages_in(answer)
            found.append(message)
        return found

    def by_key(self, topic: str, keys: Sequence[str], *, unique: bool) -> list[set[int]]:
        answers = self._ask(
            QueryMessage(
                topic=topic,
                key=key,
                max_num=64,
                begin_timestamp=0,
                end_timestamp=FOREVER_MS,
                unique_key=unique,
            )
            for key in keys
        )
        return [
            {message.commit_log_offset for message in messages_in(answer)}
            if answer.code != ResponseCode.QUERY_NOT_FOUND
            else set()
            for answer in answers
        ]

    def by_time(self, topic: str, queue_id: int, times_ms: Sequence[int]) -> list[int]:
        answers = self._ask(
            SearchOffset(topic=topic, queue_id=queue_id, timestamp=time_ms) for time_ms in times_ms
        )
        return [answer.read(SearchOffsetAnswer).offset for answer in answers]

    def _ask(self, headers: Iterable[Header]) -> Iterator[Frame]:
        for some in in_groups(headers, PIPELINED):
            numbers = [self._connection.start(header) for header in some]
            yield from map(self._connection.result, numbers)


def pull_header(topic: str, queue_id: int, offset: int, tags: str) -> PullMessage:
    return PullMessage(
        consumer_group="pullers",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=tags,
        sub_version=0,
    )


def messages_in(answer: Frame) -> list[StoredMessage]:
    assert answer.code == ResponseCode.SUCCESS, answer
    return scan.decode_all(answer.body)


def in_groups(things: Iterable[T], size: int) -> Iterator[list[T]]:
    group: list[T] = []
    for thing in things:
        group.append(thing)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


# Sending to Java


def start_send(connection: BlockingConnection, sent: Parcel) -> int:
    """Send a parcel; return the number to take the answer by."""
    header = SendMessageV2(
        producer_group="senders",
        topic=sent.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=sent.queue_id,
        sys_flag=sent.sys_flag,
        born_timestamp=BORN_MS,
        flag=sent.flag,
        properties=sent.properties.decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=sent.is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if sent.is_batch else RequestCode.SEND_MESSAGE_V2
    return connection.start(header, sent.body, code=code)


def acknowledged(sent: Parcel, answer: Frame) -> list[StoredMessage]:
    """The messages of a parcel, where the broker says they are."""
    assert answer.code == ResponseCode.SUCCESS, answer
    receipt = answer.read(SendMessageAnswer)
    places = [ids.parse_offset_id(text) for text in receipt.msg_id.split(",")]
    (store_host,) = {host for host, _ in places}
    return sent.stored(receipt.queue_offset, [offset for _, offset in places], store_host)


# Judging


def as_sent(message: StoredMessage) -> StoredMessage:
    """The message without what its sender can't know before."""
    given = {name: text for name, text in message.properties.items() if name not in ADDED}
    return msgspec.structs.replace(
        message,
        properties=given,
        born_host=Host(message.born_host.ip, 0),
        store_timestamp_ms=0,
        store_size=0,
    )


def place(message: StoredMessage) -> tuple[str, int, int]:
    return message.topic, message.queue_id, message.queue_offset


def everything(party: Party) -> list[StoredMessage]:
    """All messages of all queues: each queue without a gap, and no message twice."""
    found: list[StoredMessage] = []
    for topic, count in sorted(QUEUES.items()):
        for queue_id in range(count):
            messages = party.queue(topic, queue_id)
            span = party.span(topic, queue_id)
            assert [message.queue_offset for message in messages] == list(span), (topic, queue_id)
            assert span.start == 0
            found += messages
    unique = [message.message_id for message in found]
    assert len(unique) == len(set(unique)), "a message is there twice"
    return found


def assert_kept(party: Party, promised: Iterable[StoredMessage]) -> list[StoredMessage]:
    """See that all that was promised is there, found every way; return all that is there.

    There may be more: a send that nobody answered may have been stored.
    """
    found = everything(party)
    by_place = {place(message): as_sent(message) for message in found}
    for message in promised:
        assert by_place.get(place(message)) == as_sent(message), (
            f"{place(message)} is not {message}"
        )
    assert party.at([message.commit_log_offset for message in found]) == found
    _assert_keys_lead_to(party, found)
    _assert_times_lead_to(party, found)
    return found


def _assert_keys_lead_to(party: Party, found: list[StoredMessage]) -> None:
    for topic in QUEUES:
        for unique in (False, True):
            holders: dict[str, set[int]] = defaultdict(set)
            for message in found:
                if message.topic == topic:
                    for key in [message.message_id] if unique else message.keys:
                        holders[key].add(message.commit_log_offset)
            answers = party.by_key(topic, list(holders), unique=unique)
            for (key, wanted), offsets in zip(holders.items(), answers, strict=True):
                # Of those with another key but the same hash there may be more.
                assert wanted <= offsets, f"key {key} of {topic} leads to {offsets}, not {wanted}"


def _assert_times_lead_to(party: Party, found: list[StoredMessage]) -> None:
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    for message in found:
        queues[message.topic, message.queue_id].append(message.store_timestamp_ms)
    for (topic, queue_id), times_ms in queues.items():
        asked = sorted({times_ms[0] - 1, *times_ms, times_ms[-1] + 1})
        first_then = [bisect_left(times_ms, time_ms) for time_ms in asked]
        assert party.by_time(topic, queue_id, asked) == first_then, (topic, queue_id)
