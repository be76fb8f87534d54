"""One end of a conversation: numbers requests, matches answers, keeps deadlines. No socket.

::

    request(...)  ──▶ buffers to write, and a waiter kept under the request's number
    receive(data) ──▶ frames; of an answer, take(frame) gives the waiter back, once
    expire(now)   ──▶ the waiters whose deadline has passed
    close()       ──▶ all waiters that are left

Laws:

- A waiter is given back exactly once: answered, expired, forgotten, or at the close.
- Both ends number their requests on their own; an answer repeats the number of its request.
- Time comes in as an argument, in any unit as long as it is always the same one.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

import msgspec

from orbitmq.errors import ConnectionClosed, LocalProtocolError, RequestTimeout, TooManyRequests
from orbitmq.wire import auth, binary_header
from orbitmq.wire.codes import VERSION_5_4_0, Language, ResponseCode, name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    FRAME_BYTES_MAX,
    ONEWAY_FLAG,
    Buffer,
    Frame,
    FrameReader,
    HeaderEncoding,
    Outgoing,
    RequestForm,
    encode_head,
)

__all__ = ["Identity", "Pending", "Response", "Session"]

IN_FLIGHT_MAX: Final = 65_535
"""Java's number of permits for asynchronous requests of one client (NettySystemConfig)."""

_OPAQUE_RANGE: Final = 2**32
_OPAQUE_MAX: Final = 2**31 - 1

W = TypeVar("W")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """How this end introduces itself, and writes headers."""

    language: Language = Language.PYTHON
    version: int = VERSION_5_4_0
    encoding: HeaderEncoding = HeaderEncoding.JSON
    credentials: auth.Credentials | None = None
    """If given, every request is signed with them."""


class Response(msgspec.Struct, gc=False):
    """What a server answers.

    >>> Response(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic: orders").remark
    'no such topic: orders'
    """

    code: int = ResponseCode.SUCCESS
    header: Header | None = None
    body: Buffer | tuple[Buffer, ...] = b""
    """One buffer, or several that are written one after another without being joined."""
    remark: str | None = None
    fields: dict[str, str] | None = None
    """Extension fields beyond those of the header's type."""


class Pending(msgspec.Struct, Generic[W], gc=False, eq=False):
    """A request on its way.

    >>> str(Pending(7, 105, sent=0.0, deadline=3.0, waiter=None))
    'GET_ROUTEINFO_BY_TOPIC (request 7)'
    """

    opaque: int
    code: int
    sent: float
    deadline: float
    waiter: W

    def __str__(self) -> str:
        return f"{name_of_request(self.code)} (request {self.opaque})"

    @property
    def timeout_ms(self) -> int:
        """How long it may take; where times are in seconds."""
        return round((self.deadline - self.sent) * 1000)

    def timed_out(self, peer: str, timeout_ms: int) -> RequestTimeout:
        """Return the error of a request that ``peer`` didn't answer in time."""
        return RequestTimeout(
            f"{peer} did not answer {self} within {timeout_ms} ms; it may still carry it out",
            address=peer,
            timeout_ms=timeout_ms,
        )

    def not_sent(self, peer: str, timeout_ms: int) -> RequestTimeout:
        """Return the error of a request whose time was over before it could leave for ``peer``."""
        return RequestTimeout(
            f"{self} to {peer} was not sent within {timeout_ms} ms, since our own loop stood "
            "still; it never left",
            address=peer,
        )

    def cut_off(self, peer: str, reason: str, *, was_sent: bool = True) -> ConnectionClosed:
        """Return the error of a request whose connection to ``peer`` closed before the answer."""
        if not was_sent:
            text = f"{self} to {peer} was not sent: {reason}"
            return ConnectionClosed(text, address=peer, was_sent=False)
        return ConnectionClosed(
            f"{self} to {peer} has no answer: {reason}; it may have been carried out", address=peer
        )


class Session(Generic[W]):
    """The state of one connection, seen from one of its ends.

    ``W`` is whatever the driver wants back with the answer: a future, a callback, a number.
    """

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._identity = identity or Identity()
        self._language = self._identity.language.name
        self._version = self._identity.version
        self._encoding = self._identity.encoding
        # For requests that nobody signs, in the encoding that nearly all have.
        self._form: RequestForm | None = None
        if self._encoding is HeaderEncoding.JSON and self._identity.credentials is None:
            self._form = RequestForm(self._version, self._language)
        self._in_flight_max = in_flight_max
        self._reader = FrameReader(frame_bytes_max)
        self._pending: dict[int, Pending[W]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._next_opaque = 0
        self._closed: str | None = None
        self.peer = ""
        """Who is at the other end, for errors; the driver knows."""
        self.late_answers = 0
        """Answers that came when nobody waited for them any more."""

    def __repr__(self) -> str:
        state = (
            f"closed: {self._closed}"
            if self._closed is not None
            else f"{len(self._pending)} in flight"
        )
        return f"<Session {state}>"

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer."""
        return len(self._pending)

    # Out

    def request(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        waiter: W,
        now: float,
        timeout: float,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Register a request; return its number and its head, to be written before the body.

        Args:
            header: the typed fields; their class says the request code.
            body: the body; only its size goes into the head, unless the request is signed.
            waiter: what ``take``, ``expire`` or ``close`` will give back.
            now: the time at which it is sent.
            timeout: how much later ``expire`` gives up on it.
            code: a sibling code of the header's own.
            fields: extension fields beyond the header's.

        Raises:
            ConnectionClosed: the session is closed.
            TooManyRequests: as many requests as allowed wait for an answer.
            LocalProtocolError: it can't be written, such as for its size.

        """
        if self._closed is not None:
            reason = f"the connection is closed: {self._closed}"
            raise ConnectionClosed(reason, address=self.peer, was_sent=False)
        pending = self._pending
        if len(pending) >= self._in_flight_max:
            raise TooManyRequests(
                f"{len(pending)} requests wait for an answer on this connection, as many as allowed"
            )
        asked = header.code if code is None else code
        opaque = self._take_number()
        head = self._request_head(header, body, asked, opaque, 0, fields)
        deadline = now + timeout
        pending[opaque] = Pending(opaque, asked, now, deadline, waiter)
        if len(self._deadlines) > 64 + 2 * len(pending):
            self.next_deadline()  # drops the entries of settled requests
        heappush(self._deadlines, (deadline, opaque))
        return opaque, head

    def oneway(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
        remark: str | None = None,
    ) -> bytes:
        """Return the head of a request that is never answered, not even with an error.

        A remark is for the peer's log; of requests, only the end of a transaction has one.

        Raises:
            ConnectionClosed: the session is closed.
            LocalProtocolError: it can't be written, such as for its size.

        """
        if self._closed is not None:
            reason = f"the connection is closed: {self._closed}"
            raise ConnectionClosed(reason, address=self.peer, was_sent=False)
        asked = header.code if code is None else code
        opaque = self._take_number()
        return self._request_head(header, body, asked, opaque, ONEWAY_FLAG, fields, remark)

    def answer(self, request: Frame, response: Response) -> tuple[Buffer, ...]:
        """Return what to write in answer to a request: nothing at all to a one-way one.

        Raises:
            LocalProtocolError: it can't be written, such as for its size.

        """
        if request.flag & ONEWAY_FLAG:
            return ()
        header, body, texts = response.header, response.body, response.fields
        if header is not None:
            texts = header.to_texts() | (texts or {})
        outgoing = Outgoing(
            response.code,
            request.opaque,
            ANSWER_FLAG,
            self._version,
            self._language,
            response.remark,
            texts,
        )
        if not body:
            return (encode_head(outgoing, 0, self._encoding),)
        if isinstance(body, tuple):
            return (encode_head(outgoing, _bytes_in_all(body), self._encoding), *body)
        return (encode_head(outgoing, _bytes_in(body), self._encoding), body)

    def _request_head(
        self,
        header: Header,
        body: Buffer,
        code: int,
        opaque: int,
        flag: int,
        fields: Mapping[str, str] | None,
        remark: str | None = None,
    ) -> bytes:
        size = len(body) if body.__class__ is bytes else _bytes_in(body)
        if self._form is not None and not fields and remark is None:
            try:
                return self._form.head(code, opaque, flag, header.to_json(), size)
            except UnicodeEncodeError as error:
                raise LocalProtocolError(
                    f"{name_of_request(code)} (code {code}) can't be written: {error}"
                ) from error
        texts = header.to_texts()
        if fields:
            texts.update(fields)
        identity = self._identity
        encoding = self._encoding
        if code > binary_header.CODE_MAX:  # it has no place there; each frame tells its form
            encoding = HeaderEncoding.JSON
        if identity.credentials is not None:
            if encoding is HeaderEncoding.ROCKETMQ:
                # An empty value arrives as null, and a signature over it would not hold.
                texts = {name: text for name, text in texts.items() if text}
            texts.update(auth.sign(texts, body, identity.credentials))
        outgoing = Outgoing(code, opaque, flag, self._version, self._language, remark, texts)
        return encode_head(outgoing, size, encoding)

    def _take_number(self) -> int:
        """Count up through 32 bits with sign, as Java does, past numbers still in use."""
        while True:
            opaque = self._next_opaque
            self._next_opaque = opaque + 1 if opaque < _OPAQUE_MAX else opaque + 1 - _OPAQUE_RANGE
            if opaque not in self._pending:
                return opaque

    # In

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Exhaust the iterator before the next call.

        Raises:
            RemoteProtocolError: the peer sent no frame; close the connection.

        """
        return self._reader.feed(data)

    def take(self, answer: Frame) -> Pending[W] | None:
        """Return the request that a frame answers; None if nobody waits for it any more."""
        pending = self._pending.pop(answer.opaque, None)
        if pending is None:
            self.late_answers += 1
        return pending

    def waits_for(self, opaque: int) -> bool:
        """Tell whether the request of that number is on its way."""
        return opaque in self._pending

    def forget(self, opaque: int) -> Pending[W] | None:
        """Stop waiting for an answer; return the request, None if it is settled already."""
        return self._pending.pop(opaque, None)

    # Time and end

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a request will expire, None if none waits."""
        deadlines, pending = self._deadlines, self._pending
        # Entries of settled requests are dropped when they come up, or when they are the most.
        if len(deadlines) > 64 and len(deadlines) > 2 * len(pending):
            deadlines[:] = [entry for entry in deadlines if entry[1] in pending]
            heapify(deadlines)
        while deadlines:
            deadline, opaque = deadlines[0]
            waiting = pending.get(opaque)
            if waiting is not None and waiting.deadline == deadline:
                return deadline
            heappop(deadlines)
        return None

    def due(self, now: float) -> set[int]:
        """Return the numbers of the requests whose deadline has come; they wait on."""
        return {opaque for opaque, one in self._pending.items() if one.deadline <= now}

    def expire(self, now: float) -> list[Pending[W]]:
        """Give up on the requests whose deadline has come; return them, earliest first."""
        expired = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, opaque = heappop(self._deadlines)
            expired.append(self._pending.pop(opaque))
        return expired

    def close(self, reason: str) -> list[Pending[W]]:
        """End the session; return the requests that still waited, oldest first."""
        if self._closed is None:
            self._closed = reason
        waiting = list(self._pending.values())
        self._pending.clear()
        self._deadlines.clear()
        return waiting


def _bytes_in_all(parts: tuple[Buffer, ...]) -> int:
    """Return the size of a body in parts; most are views of a log, a thousand in a large answer."""
    return sum(
        [
            part.nbytes if isinstance(part, memoryview) and part.c_contiguous else _bytes_in(part)
            for part in parts
        ]
    )


def _bytes_in(body: Buffer) -> int:
    """Return the size of a body on the wire.

    Raises:
        LocalProtocolError: it is a view with gaps, or not made of bytes at all.

    """
    if body.__class__ is bytes:
        return len(body)
    try:
        view = body if body.__class__ is memoryview else memoryview(body)
    except TypeError as error:
        raise LocalProtocolError(f"a body is bytes, not {type(body).__name__}") from error
    if not view.c_contiguous:
        raise LocalProtocolError("a body is a view with gaps; give bytes(view)")
    return view.nbytes
