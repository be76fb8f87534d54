"""Java's own remoting client against our listener: requests, answers and ends, in both directions."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from orbitmq.net.connection import Connection, Outcome
from orbitmq.net.listener import Listener
from orbitmq.net.tls import server_context
from orbitmq.threads import start_thread
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.heartbeat import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Identity, Response
from tests.interop.java import Java
from tests.interop.operations import (
    CHANNEL_EVENTS,
    CLOSE_CLIENT,
    INVOKE,
    INVOKE_AT_ONCE,
    INVOKE_ONEWAY,
    OPEN_CLIENT,
    SERVE,
    SERVED,
    Call,
    ClientOptions,
    Command,
    Refusal,
    Serving,
)
from tests.interop.waiting import until
from tests.net.conftest import Certificates
from tests.net.loopback import LOOPBACK

T = TypeVar("T")

# What our side does with a request, by its code; the codes are RocketMQ's, the meaning is ours.
ECHO = RequestCode.QUERY_MESSAGE
MAX_OFFSET = RequestCode.GET_MAX_OFFSET
REFUSE = RequestCode.VIEW_MESSAGE_BY_ID
STUMBLE = RequestCode.UPDATE_BROKER_CONFIG
ASK_BACK = RequestCode.GET_CONSUMER_RUNNING_INFO
TELL_BACK = RequestCode.HEART_BEAT
HANG_UP = RequestCode.UNREGISTER_CLIENT

FIELDS = {"topic": "orders", "city": "東京", "mood": "🚀"}

in_both_encodings = pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
plain_and_tls = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])


class Server:
    """Our side: a listener on a loop in a thread of its own, and what came in one way."""

    def __init__(self, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
        self.address = str(listener.address)
        self._listener = listener
        self._loop = loop

    def close(self) -> None:
        """Close the listener, with all its connections."""
        self.run(self._listener.close())

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)


oneway_bodies: list[bytes] = []


def serve(connection: Connection, request: Frame) -> Outcome:
    """Do what the code of a request asks for."""
    if request.is_oneway:
        oneway_bodies.append(bytes(request.body))
    match request.code:
        case RequestCode.QUERY_MESSAGE:
            fields = {name: text or "" for name, text in request.texts().items()}
            return Response(body=request.body, fields=fields, remark="as you said")
        case RequestCode.GET_MAX_OFFSET:
            asked = request.read(GetMaxOffset)
            return Response(header=GetMaxOffsetAnswer(offset=2**53 + asked.queue_id))
        case RequestCode.VIEW_MESSAGE_BY_ID:
            return Response(ResponseCode.NO_PERMISSION, remark="not for you: 東京")
        case RequestCode.UPDATE_BROKER_CONFIG:
            raise ValueError("no such setting")
        case RequestCode.GET_CONSUMER_RUNNING_INFO:
            return ask_back(connection, request)
        case RequestCode.HEART_BEAT:
            connection.oneway(NotifyConsumerIdsChanged(consumer_group="g"))
            return Response()
        case RequestCode.UNREGISTER_CLIENT:
            connection.abort("as was asked")
            return None
        case _:
            return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
