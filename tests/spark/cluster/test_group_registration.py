import socket
from collections.abc import Callable

import pytest

from orbitmq import embedded
from orbitmq.message.names import retry_topic
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.group_registration import register_group
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup
from orbitmq.wire.headers.query import GetTopicStatsInfo
from orbitmq.wire.session import Response
from tests.net.test_blocking import peer, requests


def test_a_broker_makes_the_retry_topic_and_has_no_member_of_it(
    shared_cluster: embedded.RunningCluster,
) -> None:
    with BlockingConnection(Address.parse(shared_cluster.brokers[0])) as broker:
        asks = GetTopicStatsInfo(topic=retry_topic("gi"))
        assert broker.request(asks).code == ResponseCode.TOPIC_NOT_EXIST
        register_group("gi", broker)
        assert broker.request(asks).code == ResponseCode.SUCCESS
        members = broker.request(GetConsumerListByGroup(consumer_group="gi"))
        assert members.code == ResponseCode.SYSTEM_ERROR
        assert "no consumer for this group" in (members.remark or "")


def answering(*codes: int, seen: list[int]) -> Callable[[socket.socket], None]:
    """A broker with given answers, which records requests."""

    def script(accepted: socket.socket) -> None:
        left = iter(codes)
        for session, request in requests(accepted, len(codes)):
            seen.append(request.code)
            answer = session.answer(request, Response(code=next(left), remark="not you"))
            accepted.sendall(b"".join(answer))

    return script


def test_where_consumers_may_be_at_work_nothing_is_sent() -> None:
    seen: list[int] = []
    with peer(answering(ResponseCode.SUCCESS, seen=seen)) as address:
        with BlockingConnection(address) as broker:
            register_group("busy", broker)
    assert seen == [RequestCode.GET_TOPIC_STATS_INFO]


def test_a_refusal_is_logged_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    codes = ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS
    with peer(answering(*codes, seen=seen)) as address:
        with BlockingConnection(address) as broker:
            register_group("strangers", broker)
    assert seen[1:] == [RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT]
    assert "tools may not find group strangers" in caplog.text
    assert "not you" in caplog.text
