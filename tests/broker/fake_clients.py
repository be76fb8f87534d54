"""Clients as a broker sees them, without a network; and what they say of themselves."""

from collections.abc import Callable, Mapping
from typing import cast

from orbitmq.broker.clients.members import Member, Members
from orbitmq.errors import ConnectionClosed, OrbitError
from orbitmq.net.connection import Connection, Handler
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.session import Response


class Client:
    """The far end of a connection: it keeps what it receives, and answers as set."""

    def __init__(self, client_id: str = "client-1") -> None:
        self.client_id = client_id
        self.peer = f"10.0.0.7:{client_id}"
        self.received: list[tuple[Header, bytes]] = []
        self.asked: list[tuple[Header, bytes, int | None, int | None]] = []
        self.answer: Frame | OrbitError = frame()
        self.answers: list[tuple[Frame, Response]] = []
        self.closed_for = ""
        self.is_writable = True
        self._listeners: list[Callable[[Connection], None]] = []

    @property
    def connection(self) -> Connection:
        """This one, as the code that is tested knows it."""
        return cast(Connection, self)

    def member(self, *, seen_ms: int = 0, language: str = "JAVA") -> Member:
        return Member(self.connection, self.client_id, language, 493, seen_ms)

    def ask(
        self,
        table: Mapping[int, Handler],
        header: Header,
        body: bytes = b"",
        *,
        code: int | None = None,
    ) -> Response | None:
        """Ask handlers; return their answer, None if it comes later."""
        request = frame(header.code if code is None else code, body, fields=header.to_texts())
        outcome = table[request.code](self.connection, request)
        assert outcome is None or isinstance(outcome, Response)
        return outcome

    # What a Connection does

    def oneway(self, header: Header, body: bytes = b"") -> None:
        if self.closed_for:
            raise ConnectionClosed("it is gone", address=self.peer)
        self.received.append((header, body))

    async def request(
        self,
        header: Header,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
    ) -> Frame:
        self.asked.append((header, body, timeout_ms, code))
        if isinstance(self.answer, OrbitError):
            raise self.answer
        return self.answer

    def respond(self, request: Frame, response: Response) -> None:
        self.answers.append((request, response))

    def when_closed(self, listener: Callable[[Connection], None]) -> None:
        self._listeners.append(listener)

    def abort(self, reason: str) -> None:
        self.closed_for = reason
        for listener in self._listeners:
            listener(self.connection)


def frame(
    code: int = 0,
    body: bytes = b"",
    remark: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Frame:
    """Return a frame as it comes in."""
    texts: dict[str, str | None] = {**(fields or {})}
    return Frame(code, 1, 0, 493, "JAVA", remark, texts, body, HeaderEncoding.JSON)


def tags(topic: str, expression: str = "*", *codes: int, version: int = 1) -> SubscriptionData:
    """Return a subscription by tags, with the hashes of these."""
    return SubscriptionData(topic=topic, sub_string=expression, code_set=codes, sub_version=version)


def consumer(
    group: str, *subscriptions: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING
) -> ConsumerData:
    """Return the heartbeat data of a consumer for one group."""
    return ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=subscriptions,
    )


def joined(members: Members, group: str, *topics: str, client: Client | None = None) -> Client:
    """Have a client join a group, subscribed to all of these topics; return it."""
    client = client or Client()
    members.join_consumers(consumer(group, *map(tags, topics)), client.member())
    return client
