import asyncio
import logging

import pytest

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.clients.members import Members
from orbitmq.errors import ConnectionClosed, RequestTimeout
from orbitmq.message.model import MessageQueue
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.heartbeat import MessageModel
from orbitmq.wire.bodies.offsets import ConsumerStatus, OffsetReset, OffsetResetForC
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.heartbeat import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.json.queue_map import QueueMap
from tests.broker.fake_clients import Client, consumer, frame, joined, tags

QUEUE = MessageQueue("orders", "broker-a", 0)
ASK = GetConsumerRunningInfo(consumer_group="billing", client_id="a")


@pytest.fixture
def members() -> Members:
    return Members()


def test_all_members_of_a_group_are_notified_to_rebalance(members: Members) -> None:
    clients = [joined(members, "billing", "orders", client=Client(name)) for name in "ab"]
    other = joined(members, "audit", "orders", client=Client("c"))
    ClientCalls(members).notify_ids_changed(["billing", "nobody"])
    notice = (NotifyConsumerIdsChanged(consumer_group="billing"), b"")
    assert [client.received for client in clients] == [[notice], [notice]]
    assert other.received == []


def test_broadcasting_consumers_are_not_notified(members: Members) -> None:
    client = Client()
    data = consumer("billing", tags("orders"), model=MessageModel.BROADCASTING)
    members.join_consumers(data, client.member())
    ClientCalls(members).notify_ids_changed(["billing"])
    assert client.received == []


def test_a_lost_client_does_not_stop_the_notifications(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    gone, there = (joined(members, "billing", "orders", client=Client(name)) for name in "ab")
    gone.closed_for = "the peer closed it"
    with caplog.at_level(logging.WARNING, logger="orbitmq.broker"):
        ClientCalls(members).notify_ids_changed(["billing"])
    assert len(there.received) == 1
    assert caplog.messages == ["consumer a could not be notified: it is gone"]


def test_a_reset_goes_to_all_members_each_in_its_own_form(members: Members) -> None:
    java, cpp = Client("java"), Client("cpp")
    for client, language in ((java, "JAVA"), (cpp, "CPP")):
        data = consumer("billing", tags("orders"))
        members.join_consumers(data, client.member(language=language))
    ClientCalls(members).reset_offsets("billing", "orders", 1_000, {QUEUE: 42})
    header = ResetOffset(group="billing", topic="orders", timestamp=1_000)
    assert java.received == [(header, OffsetReset(offset_table=QueueMap({QUEUE: 42})).to_json())]
    (listed,) = OffsetResetForC.from_json(cpp.received[0][1]).offset_table
    assert (listed.topic, listed.queue_id, listed.offset) == ("orders", 0, 42)


def test_a_reset_without_a_consumer_is_refused(members: Members) -> None:
    with pytest.raises(Refusal, match="Consumer not online.*Topic: orders") as refusal:
        ClientCalls(members).reset_offsets("billing", "orders", 1_000, {QUEUE: 42})
    assert refusal.value.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_statuses_are_collected_from_clients_that_answer(members: Members) -> None:
    results, refused, silent = (
        joined(members, "billing", "orders", client=Client(name)) for name in "abc"
    )
    results.answer = frame(body=ConsumerStatus(message_queue_table=QueueMap({QUEUE: 7})).to_json())
    refused.answer = frame(ResponseCode.SYSTEM_ERROR, remark="no such topic")
    silent.answer = RequestTimeout("no answer")
    status = asyncio.run(ClientCalls(members).statuses("billing", "orders", None))
    assert {name: dict(table) for name, table in status.consumer_table.items()} == {"a": {QUEUE: 7}}
    header = GetConsumerStatus(topic="orders", group="billing")
    asked = (header, b"", 5_000, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    assert [client.asked for client in (results, refused, silent)] == [[asked]] * 3


def test_one_client_can_be_asked_alone(members: Members) -> None:
    one, other = (joined(members, "billing", "orders", client=Client(name)) for name in "ab")
    asyncio.run(ClientCalls(members).statuses("billing", "orders", "b"))
    assert (len(one.asked), len(other.asked)) == (0, 1)


def test_the_status_of_a_group_without_clients_is_refused(members: Members) -> None:
    with pytest.raises(Refusal, match="No Any Consumer online in the consumer group: .billing"):
        asyncio.run(ClientCalls(members).statuses("billing", "orders", None))


def test_a_request_goes_to_the_client_and_its_answer_comes_back(members: Members) -> None:
    client = joined(members, "billing", "orders", client=Client("a"))
    client.answer = frame(ResponseCode.SYSTEM_ERROR, b"{}", "half of it")
    answer = asyncio.run(ClientCalls(members).relay("billing", "a", ASK, b"body"))
    assert (answer.code, answer.body, answer.remark) == (1, b"{}", "half of it")
    assert client.asked == [(ASK, b"body", 10_000, None)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestTimeout("no answer"), ResponseCode.CONSUME_MSG_TIMEOUT),
        (ConnectionClosed("it is gone"), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_client_that_does_not_answer_is_reported(
    members: Members, error: RequestTimeout | ConnectionClosed, code: int
) -> None:
    joined(members, "billing", "orders", client=Client("a")).answer = error
    with pytest.raises(Refusal, match=f"consumer <billing> <a> .*{error}") as refusal:
        asyncio.run(ClientCalls(members).relay("billing", "a", ASK))
    assert refusal.value.code == code


def test_a_request_to_a_missing_client_is_refused(members: Members) -> None:
    with pytest.raises(Refusal, match="The Consumer <billing> <a> not online") as refusal:
        asyncio.run(ClientCalls(members).relay("billing", "a", ASK))
    assert refusal.value.code == ResponseCode.SYSTEM_ERROR
