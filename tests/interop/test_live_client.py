"""Java's own remoting client against our listener: requests, answers and ends, either way."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from orbitmq.net.connection import Connection, Handler
from orbitmq.net.listener import Listener
from orbitmq.net.refusal import not_supported
from orbitmq.net.transport.tls import server_context
from orbitmq.threads import start_thread
from orbitmq.wire.codes import Language, RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.heartbeat import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Identity, Response
from tests.interop.java import Java, JavaHostFailed
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
    Serving,
)
from tests.interop.waiting import until
from tests.net.conftest import Certificates
from tests.net.loopback import LOOPBACK

ASK = int(RequestCode.QUERY_MESSAGE)
FIELDS: dict[str, str | None] = {"topic": "orders", "city": "東京", "mood": "🚀"}

in_both_encodings = pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
plain_and_tls = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])


@dataclass(frozen=True)
class Client:
    """Java's remoting client, and where it sends all it is given."""

    java: Java
    number: int
    address: str

    def call(self, *commands: Command, timeout_ms: int = 10_000) -> Call:
        return Call(
            client=self.number,
            address=self.address,
            commands=list(commands),
            timeout_ms=timeout_ms,
        )

    def invoke(self, *commands: Command, timeout_ms: int = 10_000) -> list[Command]:
        (answers,) = self.java.ask(INVOKE, [self.call(*commands, timeout_ms=timeout_ms)])
        return answers

    def served(self) -> list[Command]:
        (commands,) = self.java.ask(SERVED, [self.number])
        return commands

    def events(self) -> list[str]:
        (names,) = self.java.ask(CHANNEL_EVENTS, [self.number])
        return names


@dataclass(frozen=True)
class Server:
    """Our listener, on a loop in a thread of its own."""

    listener: Listener
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def client(self, java: Java, *, tls: bool = False) -> Iterator[Client]:
        (number,) = java.ask(OPEN_CLIENT, [ClientOptions(tls)])
        yield Client(java, number, str(self.listener.address))
        java.ask(CLOSE_CLIENT, [number])

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.listener.close(), self.loop).result(30)


@contextmanager
def listening(
    handler: Handler, *, certificates: Certificates | None = None, identity: Identity | None = None
) -> Iterator[Server]:
    """Serve on a free port: TLS and plain if there are certificates, else plain."""
    tls = None if certificates is None else server_context(certificates.of_server)
    listener = Listener(LOOPBACK, handler, tls=tls, identity=identity)
    loop = asyncio.new_event_loop()
    thread = start_thread(loop.run_forever, name="our listener", daemon=True)
    asyncio.run_coroutine_threadsafe(listener.start(), loop).result(30)
    server = Server(listener, loop)
    try:
        yield server
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def echo(_connection: Connection, request: Frame) -> Response:
    fields = {name: text or "" for name, text in request.texts().items()}
    return Response(body=request.body, fields=fields, remark=f"from {request.language}")


@in_both_encodings
@plain_and_tls
def test_java_is_answered(java: Java, certificates: Certificates, tls: bool, binary: bool) -> None:
    with listening(echo, certificates=certificates) as server:
        with server.client(java, tls=tls) as client:
            requests = [
                Command(code=ASK, opaque=7, fields=FIELDS, body=b"\0body", binary=binary),
                Command(code=ASK, opaque=8, binary=binary),
                Command(code=ASK, opaque=9, body=bytes(3_000_000), binary=binary),
            ]
            answers = client.invoke(*requests)
    assert [(one.opaque, one.fields or None, one.body) for one in answers] == [
        (one.opaque, one.fields, one.body) for one in requests
    ]
    for answer in answers:
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, f"from {Language.JAVA}")
        assert (answer.flag, answer.binary) == (1, False)


def test_java_reads_our_binary_headers(java: Java) -> None:
    identity = Identity(encoding=HeaderEncoding.ROCKETMQ)
    with listening(echo, identity=identity) as server, server.client(java) as client:
        commands = [Command(code=ASK, opaque=i, fields=FIELDS, binary=i == 1) for i in range(2)]
        for answer in client.invoke(*commands):
            assert (answer.binary, answer.fields) == (True, FIELDS)


@in_both_encodings
def test_many_requests_of_java_are_in_flight(java: Java, binary: bool) -> None:
    commands = [
        Command(code=ASK, opaque=i, body=b"%d" % i, fields=FIELDS, binary=binary)
        for i in range(1_000)
    ]
    waiting: list[Frame] = []

    def answer_the_last_first(connection: Connection, request: Frame) -> None:
        waiting.append(request)
        if len(waiting) == len(commands):
            for one in reversed(waiting):
                connection.respond(one, Response(body=one.body))

    with listening(answer_the_last_first) as server, server.client(java) as client:
        (answers,) = java.ask(INVOKE_AT_ONCE, [client.call(*commands)])
    assert [(one.opaque, one.body) for one in answers] == [
        (one.opaque, one.body) for one in commands
    ]


@plain_and_tls
def test_what_java_sends_one_way_arrives(java: Java, certificates: Certificates, tls: bool) -> None:
    heard: list[bytes] = []

    def hear(connection: Connection, request: Frame) -> Response:
        if request.is_oneway:
            heard.append(bytes(request.body))
        return echo(connection, request)

    commands = [Command(code=ASK, opaque=i, body=b"%02d" % i) for i in range(100)]
    with listening(hear, certificates=certificates) as server:
        with server.client(java, tls=tls) as client:
            java.ask(INVOKE_ONEWAY, [client.call(*commands)])
            until(lambda: len(heard) >= len(commands), what="all that was sent one way")
            # Had one of them been answered, Java would take the answer for this one's.
            (answer,) = client.invoke(Command(code=ASK, opaque=1, body=b"last"))
    assert answer.body == b"last"
    assert sorted(heard) == [one.body for one in commands]


def test_java_reads_our_typed_answers(java: Java) -> None:
    def serve(_connection: Connection, request: Frame) -> Response:
        asked = request.read(GetMaxOffset)
        assert (asked.topic, asked.queue_id) == ("orders", 3)
        return Response(header=GetMaxOffsetAnswer(offset=2**53 + 1))

    fields: dict[str, str | None] = {"topic": "orders", "queueId": "3"}
    asked = Command(code=30, opaque=1, header="GetMaxOffsetRequestHeader", fields=fields)
    with listening(serve) as server, server.client(java) as client:
        (answer,) = client.invoke(asked)
    assert answer.fields == {"offset": str(2**53 + 1)}


def refuse(_connection: Connection, _request: Frame) -> Response:
    return Response(ResponseCode.NO_PERMISSION, remark="not for you: 東京")


def stumble(_connection: Connection, _request: Frame) -> Response:
    raise ValueError("no such setting")


async def stumble_later() -> Response:
    raise ValueError("no such setting")


def misread(_connection: Connection, request: Frame) -> Response:
    return Response(header=request.read(GetMaxOffset))


@pytest.mark.parametrize(
    ("handler", "code", "remark"),
    [
        (refuse, ResponseCode.NO_PERMISSION, "not for you: 東京"),
        (stumble, ResponseCode.SYSTEM_ERROR, "ValueError: no such setting"),
        (lambda *_: stumble_later(), ResponseCode.SYSTEM_ERROR, "ValueError: no such setting"),
        (misread, ResponseCode.SYSTEM_ERROR, "GetMaxOffset: field topic: is missing"),
        (
            lambda _, request: not_supported(request),
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {ASK} not supported",
        ),
    ],
    ids=["refused", "failed", "failed later", "unreadable", "unknown"],
)
def test_java_reads_our_errors(java: Java, handler: Handler, code: int, remark: str) -> None:
    with listening(handler) as server, server.client(java) as client:
        first, second = client.invoke(*(Command(code=ASK, opaque=i) for i in range(2)))
    assert (first.code, first.remark) == (second.code, second.remark) == (code, remark)


@plain_and_tls
def test_java_answers_what_we_ask(java: Java, certificates: Certificates, tls: bool) -> None:
    ask = GetConsumerRunningInfo(consumer_group="g", client_id="c@1")

    async def ask_back(connection: Connection, request: Frame) -> Response:
        answer = await connection.request(ask, bytes(request.body), timeout_ms=10_000)
        fields = {name: text or "" for name, text in answer.texts().items()}
        return Response(answer.code, body=answer.body, fields=fields, remark=answer.remark)

    with listening(ask_back, certificates=certificates) as server:
        with server.client(java, tls=tls) as client:
            java.ask(SERVE, [Serving(client.number, ask.code)])
            (answer,) = client.invoke(Command(code=ASK, opaque=5, body=b"there and back"))
            (served,) = client.served()
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "served by Java")
    assert (answer.body, answer.fields) == (b"there and back", ask.to_texts())
    assert (served.code, served.fields, served.language) == (ask.code, ask.to_texts(), "PYTHON")


def test_java_hears_what_we_send_one_way(java: Java) -> None:
    tell = NotifyConsumerIdsChanged(consumer_group="g")

    def tell_back(connection: Connection, _request: Frame) -> Response:
        connection.oneway(tell)
        return Response()

    with listening(tell_back) as server, server.client(java) as client:
        java.ask(SERVE, [Serving(client.number, tell.code)])
        client.invoke(Command(code=ASK, opaque=1))
        (heard,) = until(client.served, what="the one-way request at the Java client")
    assert (heard.code, heard.fields, heard.flag) == (tell.code, tell.to_texts(), 2)


def test_java_refuses_what_it_does_not_serve(java: Java) -> None:
    async def ask_back(connection: Connection, _request: Frame) -> Response:
        answer = await connection.request(NotifyConsumerIdsChanged(consumer_group="g"))
        return Response(answer.code, remark=answer.remark)

    with listening(ask_back) as server, server.client(java) as client:
        (answer,) = client.invoke(Command(code=ASK, opaque=1))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == f" request type {NotifyConsumerIdsChanged.code} not supported"


def cut_off_the_first() -> Handler:
    """A handler that aborts the connection of the first request, and answers later ones."""
    connections: list[Connection] = []

    def serve(connection: Connection, request: Frame) -> Response | None:
        connections.append(connection)
        if len(connections) > 1:
            return echo(connection, request)
        connection.abort("a test cuts it off")
        return None

    return serve


@plain_and_tls
def test_java_comes_back_after_it_was_cut_off(
    java: Java, certificates: Certificates, tls: bool
) -> None:
    with listening(cut_off_the_first(), certificates=certificates) as server:
        with server.client(java, tls=tls) as client:
            # 5.x fails at once, and 4.9 waits in vain for the answer.
            with pytest.raises(JavaHostFailed, match="Remoting(SendRequest|Timeout)Exception"):
                client.invoke(Command(code=ASK, opaque=1), timeout_ms=500)
            (answer,) = client.invoke(Command(code=ASK, opaque=2, body=b"again"))
    assert answer.body == b"again"


@plain_and_tls
def test_java_is_told_when_the_listener_closes(
    java_540: Java, certificates: Certificates, tls: bool
) -> None:
    # 4.9 tells of the closes it makes itself, and finds out about ours when it sends again.
    with listening(echo, certificates=certificates) as server:
        with server.client(java_540, tls=tls) as client:
            client.invoke(Command(code=ASK, opaque=1))
            assert "CLOSE" not in client.events()
            server.close()
            until(lambda: "CLOSE" in client.events(), what="the event of the close")
            with pytest.raises(JavaHostFailed, match="RemotingConnectException"):
                client.invoke(Command(code=ASK, opaque=2))
