"""One end of a connection, without a socket: numbers requests, matches answers, keeps deadlines.

::

    request(...)  ──▶ the head to write; the waiter is kept under the request's number
    begin(burst)  ──▶ many requests at once, which make their waiters themselves
    receive(data) ──▶ frames; for an answer, take(frame) returns the waiter, once
    settle(data)  ──▶ how far its leading answers were plain ones to bursts, which took them
    expire(now)   ──▶ the waiters whose deadline has passed
    close()       ──▶ all remaining waiters

Invariants:

- A waiter is returned exactly once: when answered, expired, forgotten, or at the close.
- Each end numbers its requests; an answer repeats the number of its request.
- Time is an argument, in any unit as long as it is always the same.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

import msgspec

from orbitmq.errors import ConnectionClosed, LocalProtocolError, RequestTimeout, TooManyRequests
from orbitmq.wire import auth, binary_header
from orbitmq.wire.burst import Burst, settle_leading
from orbitmq.wire.codes import VERSION_5_4_0, Language, ResponseCode, name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    FRAME_BYTES_MAX,
    ONEWAY_FLAG,
    AnswerForm,
    Buffer,
    Frame,
    FrameReader,
    HeaderEncoding,
    Outgoing,
    RequestForm,
    TakeLeading,
    encode_head,
)

__all__ = ["Identity", "Pending", "Response", "Session"]

IN_FLIGHT_MAX: Final = 65_535
"""Java's number of permits for asynchronous requests of one client (NettySystemConfig)."""

_OPAQUE_RANGE: Final = 2**32
_OPAQUE_MAX: Final = 2**31 - 1

W = TypeVar("W")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What this end says about itself in every frame, and how it encodes headers."""

    language: Language = Language.PYTHON
    version: int = VERSION_5_4_0
    encoding: HeaderEncoding = HeaderEncoding.JSON
    credentials: auth.Credentials | None = None
    """Sign every request with these."""


class Response(msgspec.Struct, gc=False):
    """An answer to a request.

    >>> Response(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic: orders").remark
    'no such topic: orders'
    """

    code: int = ResponseCode.SUCCESS
    header: Header | None = None
    body: Buffer | tuple[Buffer, ...] = b""
    """One buffer, or several that are written one after the other without joining them."""
    remark: str | None = None
    fields: dict[str, str] | None = None
    """Extension fields in addition to the header's."""
    body_size: int | None = None
    """The bytes of a body in many parts; None: they are counted."""


class Pending(msgspec.Struct, Generic[W], gc=False, eq=False):
    """A request in flight.

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
        """The timeout, if times are in seconds."""
        return round((self.deadline - self.sent) * 1000)

    def timed_out(self, peer: str, timeout_ms: int) -> RequestTimeout:
        """Return the error of a request that ``peer`` didn't answer in time."""
        return RequestTimeout(
            f"{peer} did not answer {self} within {timeout_ms} ms; it may still execute it",
            address=peer,
            timeout_ms=timeout_ms,
        )

    def not_sent(self, peer: str, timeout_ms: int) -> RequestTimeout:
        """Return the error of a request that expired before it was sent to ``peer``."""
        return RequestTimeout(
            f"{self} to {peer} was not sent within {timeout_ms} ms, because this event loop was "
            "blocked",
            address=peer,
        )

    def cut_off(self, peer: str, reason: str, *, was_sent: bool = True) -> ConnectionClosed:
        """Return the error of a request whose connection to ``peer`` closed before the answer."""
        if not was_sent:
            text = f"{self} to {peer} was not sent: {reason}"
            return ConnectionClosed(text, address=peer, was_sent=False)
        return ConnectionClosed(
            f"{self} to {peer} has no answer: {reason}; it may have been executed", address=peer
        )


class Session(Generic[W]):
    """The state of one end of a connection.

    ``W`` is the type of the waiters, such as a future; the caller chooses it.
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
        self._form: RequestForm | None = None
        if self._encoding is HeaderEncoding.JSON and self._identity.credentials is None:
            self._form = RequestForm(self._version, self._language)
        self._answers: AnswerForm | None = None
        if self._encoding is HeaderEncoding.JSON:
            self._answers = AnswerForm(self._version, self._language)
        self._in_flight_max = in_flight_max
        self._reader = FrameReader(frame_bytes_max)
        self._pending: dict[int, Pending[W] | Burst[W]] = {}
        self._deadlines: list[tuple[float, int, Pending[W] | Burst[W]]] = []
        self._next_opaque = 0
        self._closed: str | None = None
        self.peer = ""
        """The other end, for errors; set by the owner of the session."""
        self.late_answers = 0
        """Answers that arrived after their request had been settled."""

    def __repr__(self) -> str:
        state = (
            f"closed: {self._closed}"
            if self._closed is not None
            else f"{len(self._pending)} in flight"
        )
        return f"<Session {state}>"

    @property
    def identity(self) -> Identity:
        """What this end says about itself in every frame."""
        return self._identity

    @property
    def form(self) -> RequestForm | None:
        """The form of unsigned requests in JSON; None if requests are signed or binary."""
        return self._form

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
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

        The head contains only the size of ``body``, unless the request is signed. ``take``,
        ``expire`` or ``close`` returns ``waiter``. ``code`` is another request code with the same
        fields, and ``fields`` are added to the header's. Raise ConnectionClosed, TooManyRequests,
        or LocalProtocolError if it can't be encoded, for example because it is too large.
        """
        self._check_room(1)
        pending = self._pending
        asked = header.code if code is None else code
        opaque = self._take_number()
        head = self._request_head(header, body, asked, opaque, 0, fields)
        deadline = now + timeout
        one = pending[opaque] = Pending(opaque, asked, now, deadline, waiter)
        self._note_deadline(one, opaque)
        return opaque, head

    def begin(self, burst: Burst[W], *, now: float, timeout: float) -> None:
        """Register the requests of a burst and number them; its frames are to be written then.

        Raise ConnectionClosed, or TooManyRequests if not all of them may be in flight.
        """
        self._check_room(burst.count)
        burst.first = first = self._take_numbers(burst.count)
        burst.sent, burst.deadline = now, now + timeout
        for opaque in range(first, first + burst.count):
            self._pending[opaque] = burst
        self._note_deadline(burst, first)

    def _check_room(self, count: int) -> None:
        if self._closed is not None:
            reason = f"the connection is closed: {self._closed}"
            raise ConnectionClosed(reason, address=self.peer, was_sent=False)
        if len(self._pending) + count > self._in_flight_max:
            raise TooManyRequests(
                f"{len(self._pending)} requests are in flight on this connection; the limit is "
                f"{self._in_flight_max}"
            )

    def _note_deadline(self, one: Pending[W] | Burst[W], opaque: int) -> None:
        if len(self._deadlines) > 64 + 2 * len(self._pending):
            self.next_deadline()  # drops the entries of settled requests
        heappush(self._deadlines, (one.deadline, opaque, one))

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

        A remark is for the peer's log; the only request with one is the end of a transaction.
        """
        if self._closed is not None:
            reason = f"the connection is closed: {self._closed}"
            raise ConnectionClosed(reason, address=self.peer, was_sent=False)
        asked = header.code if code is None else code
        opaque = self._take_number()
        return self._request_head(header, body, asked, opaque, ONEWAY_FLAG, fields, remark)

    def answer(self, request: Frame, response: Response) -> tuple[Buffer, ...]:
        """Return the buffers of the answer to a request; none for a one-way request.

        Raise LocalProtocolError if it can't be encoded, for example because it is too large.
        """
        if request.flag & ONEWAY_FLAG:
            return ()
        body, size = response.body, response.body_size
        if size is None:
            size = _bytes_in_all(body) if isinstance(body, tuple) else _bytes_in(body)
        head = self._answer_head(request.opaque, response, size)
        if not size:
            return (head,)
        return (head, *body) if isinstance(body, tuple) else (head, body)

    def _answer_head(self, opaque: int, response: Response, body_size: int) -> bytes:
        code, header, remark = response.code, response.header, response.remark
        texts = response.fields
        if header is not None:
            if self._answers is not None and not texts:
                try:
                    return self._answers.head(code, opaque, header.to_json(), body_size, remark)
                except UnicodeEncodeError:
                    pass  # the error of ``encode_head`` says more
            texts = header.to_texts() | (texts or {})
        outgoing = Outgoing(code, opaque, ANSWER_FLAG, self._version, self._language, remark, texts)
        return encode_head(outgoing, body_size, self._encoding)

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
                    f"{name_of_request(code)} (code {code}) can't be encoded: {error}"
                ) from error
        texts = header.to_texts()
        if fields:
            texts.update(fields)
        identity = self._identity
        encoding = self._encoding
        if code > binary_header.CODE_MAX:  # it doesn't fit; the encoding may differ per frame
            encoding = HeaderEncoding.JSON
        if identity.credentials is not None:
            if encoding is HeaderEncoding.ROCKETMQ:
                # An empty value arrives as null, which would break the signature.
                texts = {name: text for name, text in texts.items() if text}
            texts.update(auth.sign(texts, body, identity.credentials))
        outgoing = Outgoing(code, opaque, flag, self._version, self._language, remark, texts)
        return encode_head(outgoing, size, encoding)

    def _take_number(self) -> int:
        """Return the next free number; numbers are signed 32-bit and wrap around, as in Java."""
        while True:
            opaque = self._next_opaque
            self._next_opaque = opaque + 1 if opaque < _OPAQUE_MAX else opaque + 1 - _OPAQUE_RANGE
            if opaque not in self._pending:
                return opaque

    def _take_numbers(self, count: int) -> int:
        """Return the first of consecutive free numbers."""
        while True:
            first = self._next_opaque
            if first + count > _OPAQUE_MAX:
                self._next_opaque = _OPAQUE_MAX + 1 - _OPAQUE_RANGE
                continue
            self._next_opaque = first + count
            if self._pending.keys().isdisjoint(range(first, first + count)):
                return first

    # In

    def receive(self, data: bytes, take: TakeLeading | None = None) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Exhaust the iterator before the next call.

        Frames that ``take`` serves itself are not yielded. Raise RemoteProtocolError if the bytes
        are not a frame; close the connection then.
        """
        return self._reader.feed(data, take)

    @property
    def position(self) -> int:
        """The position in the received stream behind the last frame."""
        return self._reader.position

    def receive_whole(self, data: memoryview) -> Iterator[Frame]:
        """Yield the frames that lie in ``data`` as a whole; the caller keeps what follows them.

        ``data`` begins at ``position``. Raise as ``receive`` does.
        """
        return self._reader.whole(data)

    def take_held(self) -> bytearray:
        """Return what ``receive`` holds of an incomplete frame, and forget it."""
        return self._reader.take_held()

    def take(self, answer: Frame) -> Pending[W] | None:
        """Return the request that a frame answers; None if it has been settled."""
        pending = self.forget(answer.opaque)
        if pending is None:
            self.late_answers += 1
        return pending

    def settle(self, data: bytes | bytearray, at: int) -> int:
        """Settle the leading answers that bursts take; return where the first other frame is."""
        return settle_leading(data, at, self._pending)

    def waits_for(self, opaque: int) -> bool:
        """Return whether the request with this number is in flight."""
        return opaque in self._pending

    def forget(self, opaque: int) -> Pending[W] | None:
        """Stop waiting for an answer; return the request, or None if it has been settled."""
        one = self._pending.pop(opaque, None)
        return _alone(one, opaque) if isinstance(one, Burst) else one

    # Time and end

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of the requests in flight; None if there are none."""
        deadlines, pending = self._deadlines, self._pending
        # Entries of settled requests are dropped at the top, and when they are the majority.
        if len(deadlines) > 64 and len(deadlines) > 2 * len(pending):
            deadlines[:] = [entry for entry in deadlines if self._is_waiting(*entry[1:])]
            heapify(deadlines)
        while deadlines:
            deadline, opaque, one = deadlines[0]
            if self._is_waiting(opaque, one):
                return deadline
            heappop(deadlines)
        return None

    def _is_waiting(self, opaque: int, one: Pending[W] | Burst[W]) -> bool:
        return one.left > 0 if isinstance(one, Burst) else self._pending.get(opaque) is one

    def due(self, now: float) -> set[int]:
        """Return the numbers of the requests past their deadline; they stay in flight."""
        return {opaque for opaque, one in self._pending.items() if one.deadline <= now}

    def expire(self, now: float) -> list[Pending[W]]:
        """Remove and return the requests past their deadline, earliest first."""
        expired: list[Pending[W]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, first, one = heappop(self._deadlines)
            count = one.count if isinstance(one, Burst) else 1
            due = [n for n in range(first, first + count) if self._pending.get(n) is one]
            expired += [pending for n in due if (pending := self.forget(n)) is not None]
        return expired

    def close(self, reason: str) -> list[Pending[W]]:
        """Close the session; return the requests in flight, oldest first."""
        if self._closed is None:
            self._closed = reason
        waiting = [
            _alone(one, opaque) if isinstance(one, Burst) else one
            for opaque, one in self._pending.items()
        ]
        self._pending.clear()
        self._deadlines.clear()
        return waiting


def _alone(burst: Burst[W], opaque: int) -> Pending[W]:
    """Return a request of a burst as one that goes on alone."""
    burst.left -= 1
    waiter = burst.waiter(opaque - burst.first)
    return Pending(opaque, burst.code, burst.sent, burst.deadline, waiter)


def _bytes_in_all(parts: tuple[Buffer, ...]) -> int:
    """Return the size of a body in parts; most are views of a log, a thousand in a large answer."""
    return sum(
        [
            part.nbytes if isinstance(part, memoryview) and part.c_contiguous else _bytes_in(part)
            for part in parts
        ]
    )


def _bytes_in(body: Buffer) -> int:
    """Return the size of a body on the wire; a view must be contiguous bytes."""
    if body.__class__ is bytes:
        return len(body)
    try:
        view = body if body.__class__ is memoryview else memoryview(body)
    except TypeError as error:
        raise LocalProtocolError(f"a body must be bytes, not {type(body).__name__}") from error
    if not view.c_contiguous:
        raise LocalProtocolError("a body must not be a view with gaps; pass bytes(view)")
    return view.nbytes
