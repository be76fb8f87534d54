import pytest

from orbitmq.client.core.broker_requests import BrokerRequests
from orbitmq.message import record
from orbitmq.message.host import Host
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.offsets import ConsumerStatus
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    NotifyConsumerIdsChanged,
)
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.headers.transaction import CheckTransactionState
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, REPLY, Scene, play

CHECK = CheckTransactionState(tran_state_table_offset=1, commit_log_offset=2)


def half_message(properties: bytes) -> bytes:
    host = Host.parse("10.0.0.1:10911")
    stored = record.Record(
        topic=b"orders",
        body=b"paid",
        properties=properties,
        queue_id=0,
        queue_offset=0,
        commit_log_offset=0,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=0,
        born_host=host,
        store_timestamp_ms=0,
        store_host=host,
        reconsume_times=0,
        prepared_transaction_offset=0,
    )
    return bytes(record.encode(stored))


async def served(
    scene: Scene,
    requests: BrokerRequests,
    header: Header,
    body: bytes = b"",
    code: int | None = None,
) -> Frame:
    """Return what a client answers to a broker, asked over a connection that it has dialled."""
    got: list[Connection] = []
    await scene.broker(BROKER_A)
    async with Dialer(network=scene.network, handler=requests) as dialer:
        await (await dialer.connection(BROKER_A)).request(CHECK)
        got = scene.callers[BROKER_A]
        return await got[0].request(header, body, timeout_ms=1_000, code=code)


def answer_of(
    requests: BrokerRequests, header: Header, body: bytes = b"", code: int | None = None
) -> Frame:
    return play(lambda scene: served(scene, requests, header, body, code))


@pytest.mark.parametrize(
    ("header", "code", "remark"),
    [
        (NotifyConsumerIdsChanged(consumer_group="g"), ResponseCode.SUCCESS, None),
        (ResetOffset(group="g", topic="t"), ResponseCode.SUCCESS, None),
        (REPLY, ResponseCode.SUCCESS, None),
        (CHECK, ResponseCode.SUCCESS, None),
        (
            GetConsumerRunningInfo(consumer_group="g", client_id="c"),
            ResponseCode.SYSTEM_ERROR,
            "The Consumer Group <g> not exist in this consumer",
        ),
        (
            ConsumeMessageDirectly(consumer_group="g"),
            ResponseCode.SYSTEM_ERROR,
            "The Consumer Group <g> not exist in this consumer",
        ),
    ],
)
def test_without_a_listener_the_answer_is_javas(
    header: Header, code: int, remark: str | None
) -> None:
    answer = answer_of(BrokerRequests(), header)
    assert (answer.code, answer.remark) == (code, remark)


def test_a_client_without_the_group_has_no_offsets() -> None:
    answer = answer_of(
        BrokerRequests(),
        GetConsumerStatus(topic="t", group="g"),
        code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    )
    assert ConsumerStatus.from_json(answer.body) == ConsumerStatus()


def test_other_codes_are_not_supported() -> None:
    answer = answer_of(BrokerRequests(), CHECK, code=10_001)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    with pytest.raises(ValueError, match="brokers don't send SEND_MESSAGE to clients"):
        BrokerRequests().listen(RequestCode.SEND_MESSAGE, lambda _, __: None)


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChanged(consumer_group="g")),
        (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffset(group="g", topic="t")),
        (
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            GetConsumerStatus(topic="t", group="g"),
        ),
        (
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            GetConsumerRunningInfo(consumer_group="g", client_id="c"),
        ),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectly(consumer_group="g")),
    ],
)
def test_the_listener_of_the_group_serves_it(code: RequestCode, header: Header) -> None:
    requests = BrokerRequests()
    requests.listen(code, lambda _, __: Response(remark="mine"), group="g")
    requests.listen(code, lambda _, __: Response(remark="another's"), group="h")
    assert answer_of(requests, header, code=code).remark == "mine"


def test_a_transaction_is_asked_of_the_group_in_its_message() -> None:
    requests = BrokerRequests()
    code = RequestCode.CHECK_TRANSACTION_STATE
    requests.listen(code, lambda _, __: Response(remark="mine"), group="billing")
    mine = half_message(b"PGROUP\x01billing\x02")
    assert answer_of(requests, CHECK, mine).remark == "mine"
    assert answer_of(requests, CHECK, half_message(b"PGROUP\x01other\x02")).remark is None
    assert answer_of(requests, CHECK, half_message(b"")).remark is None
    assert answer_of(requests, CHECK, b"no record").remark is None


def test_listeners_of_one_group_take_turns() -> None:
    requests = BrokerRequests()
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    listeners = [lambda _, __, name=name: Response(remark=name) for name in ("one", "two")]
    for listener in listeners:
        requests.listen(code, listener)
    assert [answer_of(requests, REPLY).remark for _ in range(3)] == ["one", "two", "one"]
    requests.unlisten(code, listeners[0])
    assert [answer_of(requests, REPLY).remark for _ in range(2)] == ["two", "two"]
    requests.unlisten(code, listeners[1])
    assert answer_of(requests, REPLY).remark is None
    with pytest.raises(ValueError, match="does not listen to PUSH_REPLY"):
        requests.unlisten(code, listeners[1])
    assert repr(requests) == "<BrokerRequests without listeners>"


def test_a_header_that_cannot_be_read_is_refused_and_the_connection_lives() -> None:
    answer = answer_of(BrokerRequests(), NotifyConsumerIdsChanged(consumer_group="g"), code=307)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "clientId" in answer.remark
