"""Messages, members, dead letters and traces, asked about in every way an `Admin` has.

The story is told to our own cluster, and to Java's: both must give the same answers. Times,
addresses and ids are left out of what is compared.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.dead_letters import REDRIVE_TIMES, DeadLetter, Redrive
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ConsumerNotOnline, NotFound, OrbitError
from orbitmq.message import trace
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from orbitmq.net.address import Address
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.bodies.offsets import ConsumerStatus
from orbitmq.wire.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.heartbeat import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    Heartbeat,
    UnregisterClient,
)
from orbitmq.wire.headers.offset import UpdateConsumerOffset
from orbitmq.wire.headers.send import ConsumerSendMsgBack
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response
from tests.client.admin_story import send, soon

Answers = dict[str, Any]


class Member:
    """A consumer that is connected and answers brokers, without consuming anything."""

    def __init__(self, core: ClientCore, group: str, topic: str, broker: str) -> None:
        self.core, self.group, self.topic, self.broker = core, group, topic, broker
        self.consumed: list[str] = []
        for code, answer in (
            (RequestCode.GET_CONSUMER_RUNNING_INFO, self._running),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume),
            (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status),
        ):
            core.broker_requests.listen(code, answer, group=group)

    async def join(self, address: Address, *, tags: str = "paid") -> None:
        """Tell a broker of the group and its subscription."""
        subscription = SubscriptionData(topic=self.topic, sub_string=tags, tags_set=(tags,))
        data = HeartbeatData(
            client_id=self.core.client_id,
            consumer_data_set=(
                ConsumerData(
                    group_name=self.group,
                    consume_type=ConsumeType.CONSUME_PASSIVELY,
                    message_model=MessageModel.CLUSTERING,
                    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                    subscription_data_set=(subscription,),
                ),
            ),
        )
        answer = await self.core.request(address, Heartbeat(), data.to_json())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def leave(self, address: Address) -> None:
        """Leave the group."""
        header = UnregisterClient(client_id=self.core.client_id, consumer_group=self.group)
        await self.core.request(address, header)

    def _running(self, _connection: object, request: Any) -> Response:
        asked = request.read(GetConsumerRunningInfo)
        info = ConsumerRunningInfo(
            properties={"PROP_THREADPOOL_CORE_SIZE": "20"},
            jstack="TID: 1" if asked.jstack_enable else None,
        )
        return Response(body=info.to_json())

    def _consume(self, _connection: object, request: Any) -> Response:
        self.consumed.append(request.read(ConsumeMessageDirectly).msg_id)
        result = ConsumeMessageDirectlyResult(
            consume_result=CMResult.CR_SUCCESS, spent_time_mills=7, remark=None
        )
        return Response(body=result.to_json())

    def _status(self, _connection: object, _request: object) -> Response:
        table = QueueMap({MessageQueue(self.topic, self.broker, 0): 3})
        return Response(body=ConsumerStatus(message_queue_table=table).to_json())


async def tell(nameserver: str, topic: str) -> Answers:
    """Send messages, have a consumer join, and ask about both; return what was answered."""
    answers: Answers = {}
    group = f"{topic}-group"
    client = ClientSettings(nameserver=nameserver, keep_open_ms=0)
    core = await ClientCore.acquire(client)
    other = await ClientCore.acquire(replace(client, instance_name=f"{topic}-member"))
    try:
        async with Admin(client=client) as admin:
            await admin.create_topic(topic, queues=1)
            queue = (await soon(lambda: _queues(admin, topic), "the new topic's route"))[0]
            address = (await core.routes.publish_route(topic)).address_of(queue)
            assert address is not None
            sent = await _reading(core, admin, queue, answers)
            member = Member(other, group, topic, queue.broker_name)
            await _members(core, admin, member, address, answers)
            await _tracking(core, admin, member, address, sent, answers)
            await _dead_letters(core, admin, group, sent, address, answers)
            await member.leave(address)
            track = await admin.message_track(topic, sent[0].message_id)
            answers["track of a group that left"] = [one.type.value for one in track]
            with pytest.raises(ConsumerNotOnline):
                await admin.consumer_connections(group)
            await _traces(core, admin, topic, sent[0], answers)
            answers["cleaned"] = [
                len(await clean(on=where)) > 0
                for where in (None, queue.broker_name)
                for clean in (
                    admin.clean_expired_queues,
                    admin.clean_unused_topics,
                    admin.delete_expired_log_files,
                )
            ]
    finally:
        await other.release()
        await core.release()
    return answers


async def _queues(admin: Admin, topic: str) -> tuple[MessageQueue, ...]:
    return await admin.queues(topic) if topic in await admin.topics() else ()


async def _reading(
    core: ClientCore, admin: Admin, queue: MessageQueue, answers: Answers
) -> list[StoredMessage]:
    topic = queue.topic
    ids = core.machine.unique_ids()
    for number in range(40):
        message = Message(
            topic,
            b"n%d" % number * (1 if number else 3_000),  # one of them is compressed when copied
            tags="paid" if number % 2 == 0 else "open",
            keys=[f"k-{number}"],
            properties={"colour": "blue"},
            message_id=ids.next(),
        )
        await send(core, queue, message)
    await soon(lambda: _holds(admin, queue, 40), "all messages in the queue")
    found = [one async for one in admin.messages_between(topic)]
    answers["between"] = [_shown(one) for one in found]
    middle_ms = found[20].store_timestamp_ms
    assert [
        one.queue_offset async for one in admin.messages_between(topic, middle_ms, middle_ms)
    ] == [one.queue_offset for one in found if one.store_timestamp_ms == middle_ms]
    answers["tagged"] = [
        one.queue_offset async for one in admin.messages_between(topic, tags="open")
    ]
    assert await admin.message_at(queue, 7) == found[7]
    with pytest.raises(NotFound, match="the queue ends at 40"):
        await admin.message_at(queue, 40)
    copy = await admin.republish_message(topic, found[0].message_id)
    again = await admin.view_message(topic, copy.offset_message_id)
    assert again.message_id == copy.message_id != found[0].message_id
    answers["copy"] = _shown(again)
    assert again.body == found[0].body
    return found


async def _holds(admin: Admin, queue: MessageQueue, count: int) -> bool:
    return await admin.max_offset(queue) == count


async def _members(
    core: ClientCore, admin: Admin, member: Member, address: Address, answers: Answers
) -> None:
    group, topic = member.group, member.topic
    await member.join(address)
    retry = f"%RETRY%{group}"
    await soon(lambda: _queues(admin, retry), "the route of the retry topic")
    connected = await admin.consumer_connections(group)
    assert [one.client_id for one in connected.clients] == [member.core.client_id]
    assert connected.clients[0].address.startswith("127.0.0.1:")
    answers["consumers"] = (
        [(one.language, one.version) for one in connected.clients],
        connected.consume_type,
        connected.message_model,
        connected.consume_from,
        {
            topic.replace(member.topic, "T"): one.sub_string
            for topic, one in connected.subscriptions.items()
        },
    )
    core.register_producer(group, member)
    await core.announce(topic)
    producers = await admin.producer_connections(group, topic)
    assert [one.client_id for one in producers] == [core.client_id]
    answers["producers"] = [(one.language, one.version) for one in producers]
    everyone = (await admin.all_producers())[group]
    assert [one.client_id for one in everyone] == [core.client_id]
    assert everyone[0].address.startswith("127.0.0.1:")
    assert everyone[0].heartbeat_ms > 0
    await core.unregister_producer(group, member)
    with pytest.raises(OrbitError, match="not exist"):
        await admin.producer_connections(group, topic)
    client_id = member.core.client_id
    info = await admin.consumer_running_info(group, client_id)
    stack = await admin.consumer_running_info(group, client_id, stack=True)
    answers["running"] = (dict(info.properties), info.jstack, stack.jstack)
    with pytest.raises(ConsumerNotOnline, match="no consumer elsewhere"):
        await admin.consumer_running_info(group, "elsewhere")
    status = await admin.consumer_status(topic, group)
    assert set(status) == {client_id}
    answers["status"] = [(one.queue_id, at) for one, at in status[client_id].items()]


async def _tracking(
    core: ClientCore,
    admin: Admin,
    member: Member,
    address: Address,
    sent: list[StoredMessage],
    answers: Answers,
) -> None:
    topic, group = member.topic, member.group
    result = await admin.resend_message(topic, sent[4].message_id, group=group)
    assert member.consumed == [sent[4].offset_message_id]
    assert result.client_id == member.core.client_id
    answers["resent"] = (result.result, result.cost_ms, result.is_consumed, result.remark)
    header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=4)
    assert (await core.request(address, header)).code == ResponseCode.SUCCESS
    tracks = [
        (number, one.type.value, one.remark)
        for number in (2, 3, 4)
        for one in await admin.message_track(topic, sent[number].offset_message_id)
        if one.group == group
    ]
    answers["tracks"] = tracks


async def _dead_letters(
    core: ClientCore,
    admin: Admin,
    group: str,
    sent: list[StoredMessage],
    address: Address,
    answers: Answers,
) -> None:
    assert [one async for one in admin.dead_letters(group)] == []
    for message in sent[:3]:
        header = ConsumerSendMsgBack(
            offset=message.commit_log_offset,
            group=group,
            delay_level=-1,
            origin_topic=message.topic,
            origin_msg_id=message.message_id,
            max_reconsume_times=16,
        )
        answer = await core.request(address, header)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    letters = await soon(lambda: _letters(admin, group, 3), "the dead letters")
    answers["dead"] = [_letter(one, sent[0].topic) for one in letters]
    assert all(0 <= one.age_ms < 600_000 for one in letters)
    assert (await admin.dead_letter(group, letters[1].id)).id == letters[1].id
    assert (await admin.dead_letter(group, letters[1].message.message_id)).id == letters[1].id
    with pytest.raises(NotFound):
        await admin.dead_letter(group, "0" * 32)
    done = await admin.redrive_dead_letters(letters[:2])
    answers["redriven"] = [_redriven(one) for one in done]
    await soon(lambda: _all_repeated(admin, letters[:2]), "the copies in the index")
    copies = [one async for one in admin.messages_between(f"%RETRY%{group}")]
    answers["copies"] = [_shown(one) for one in copies]
    third = await admin.redrive_dead_letters(letters[:1], again=True)
    answers["again"] = [_redriven(one) for one in third]
    home = await admin.redrive_dead_letters(letters[2:], to="origin")
    receipt = home[0].receipt
    assert receipt is not None
    stored = await admin.view_message(sent[0].topic, receipt.offset_message_id)
    assert stored.message_id == sent[2].message_id
    answers["home"] = (_shown(stored), stored.properties[REDRIVE_TIMES])


async def _letters(admin: Admin, group: str, count: int) -> list[DeadLetter] | None:
    found = [one async for one in admin.dead_letters(group)]
    return found if len(found) == count else None


async def _all_repeated(admin: Admin, letters: list[DeadLetter]) -> bool:
    for letter in letters:
        copies = await admin._copies(f"%RETRY%{letter.group}", letter.message.message_id)
        if not copies:
            return False
    done = await admin.redrive_dead_letters(letters)
    return all(one.is_repeated and one.receipt is None for one in done)


async def _traces(
    core: ClientCore, admin: Admin, topic: str, message: StoredMessage, answers: Answers
) -> None:
    reports = f"{topic}-trace"
    await admin.create_topic(reports, queues=1)
    queue = (await soon(lambda: _queues(admin, reports), "the route of the trace topic"))[0]
    at_ms = message.store_timestamp_ms
    common: Answers = {"region": "r", "message_id": message.message_id, "keys": "k-0"}
    sent = trace.Publish(
        timestamp_ms=at_ms - 2,
        group="billing",
        topic=topic,
        tags="paid",
        store_host="127.0.0.1:1",
        body_length=4,
        cost_ms=5,
        kind=trace.MessageKind.NORMAL,
        offset_message_id=message.offset_message_id,
        success=True,
        **common,
    )
    before = trace.SubscribeBefore(
        timestamp_ms=at_ms + 10, group="payers", request_id="1", retry_times=0, **common
    )
    del common["region"]
    after = trace.SubscribeAfter(
        timestamp_ms=at_ms + 30,
        group="payers",
        request_id="1",
        cost_ms=20,
        success=False,
        outcome=trace.ConsumeOutcome.EXCEPTION,
        **common,
    )
    batches: list[list[trace.TraceRecord]] = [[sent], [before, after]]
    for records in batches:
        body = Message(reports, trace.encode(records), keys=trace.index_keys(records))
        await send(core, queue, body)
    await soon(lambda: _two(admin, reports, message.message_id), "the reports in the index")
    found = await admin.message_trace(message.message_id, trace_topic=reports)
    answers["trace"] = [
        (one.step.value, one.at_ms - at_ms, one.latency_ms, one.group, one.is_success)
        for one in found.events
    ]
    assert not found.events[1].is_estimated
    assert await admin.traces_by_key("k-0", trace_topic=reports) == [found]
    with pytest.raises(NotFound, match="check that its clients trace"):
        await admin.message_trace("0" * 32, trace_topic=reports)


async def _two(admin: Admin, topic: str, key: str) -> bool:
    return len(await admin.query_message(topic, key)) == 2


def _shown(message: StoredMessage) -> tuple[object, ...]:
    mine = dict(message.user_properties)
    mine.pop("REDRIVEN_FROM", None)
    return (
        *(message.queue_id, message.queue_offset, message.body, message.tags, message.keys),
        *(mine, message.reconsume_times),
    )


def _letter(letter: DeadLetter, topic: str) -> tuple[object, ...]:
    return (
        _shown(letter.message),
        letter.origin_topic == topic,
        letter.reconsume_times,
        letter.redrive_times,
    )


def _redriven(done: Redrive) -> tuple[object, ...]:
    sent = done.receipt
    return (
        done.letter.message.tags,
        sent is not None and (sent.status.value, sent.queue.queue_id, sent.queue_offset),
        done.is_repeated,
        len(done.earlier),
    )
