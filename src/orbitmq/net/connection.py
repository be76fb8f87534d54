"""One connection, for both ends: sends requests, serves the peer's requests, matches answers.

::

    OPEN ── close(), peer gone, silent, idle, garbage, slow reader ──▶ CLOSING
                                                              CLOSING ── transport gone ──▶ CLOSED
      └── GO_AWAY, from a server that is about to stop: no new requests (``is_open`` is False),
          requests in flight may still be answered; it closes when all are settled

Invariants:

- All that is written in one turn of the loop is sent in one write; a burst is sent at once.
- A request that expires before it is written, because the loop was blocked, is not sent.
- Every request settles exactly once: with the answer, a timeout, or the reason of the close.
- A server stops reading from a peer that doesn't read its answers, and other peers are not delayed.
  A client keeps reading: if both ends stopped, they would deadlock.
- A client closes a connection that times out and on which nothing is heard; see ``Silence``.
- A handler's error is answered and logged; it never stops the server.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from itertools import chain
from math import inf
from typing import Final, cast

from orbitmq.errors import (
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.net.address import Address
from orbitmq.net.fork import check_process, process_token
from orbitmq.net.refusal import failure, logged_failure, not_supported, overload
from orbitmq.net.settings import NetSettings
from orbitmq.net.silence import Silence
from orbitmq.wire.burst import Burst
from orbitmq.wire.codes import ResponseCode, name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    ONEWAY_FLAG,
    Buffer,
    Frame,
    RequestForm,
    TakeLeading,
    without_requests,
)
from orbitmq.wire.session import Identity, Pending, Response, Session

__all__ = ["Connection", "Handler", "Outcome", "Side"]

log = logging.getLogger("orbitmq.net")

_FLUSH_BYTES = 1024 * 1024
"""More bytes than this are written before the turn ends, so that the transport can pause us."""

_BURST_BYTES = 4 * 1024
"""The transport's limit of unsent bytes once bursts are sent. A larger burst leaves at once; below
its limit, uvloop writes at the end of the turn only, and the peer would wait for that."""

_LATE_S: Final = 0.25
"""If requests expire later than this, the loop was blocked, and answers may wait to be read."""

Outcome = Response | Awaitable[Response | None] | None
Handler = Callable[["Connection", Frame], Outcome]
"""Serves one request. It returns the response, an awaitable of it, or None if the request will be
answered later by ``connection.respond(request, …)``. A ``Refusal`` is answered with its code, any
other exception with SYSTEM_ERROR."""


class Side(Enum):
    """Which end of a connection this is."""

    CLIENT = "client"
    SERVER = "server"


class _State(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


_OPEN: Final = _State.OPEN  # looking up an enum member is slow
_GO_AWAY: Final = int(ResponseCode.GO_AWAY)


class Connection(asyncio.Protocol):
    """A connection to one peer. It belongs to the event loop and the process it was made in.

    ``identity`` is what this end says about itself in every frame. Without a ``handler`` the peer's
    requests are answered "not supported".
    """

    def __init__(
        self,
        *,
        side: Side,
        identity: Identity | None = None,
        settings: NetSettings | None = None,
        handler: Handler | None = None,
        on_open: Callable[["Connection"], None] | None = None,
    ) -> None:
        self._settings = settings or NetSettings()
        self._side = side
        self._on_open = on_open
        self._handler = handler or (lambda _connection, request: not_supported(request))
        self._session: Session[asyncio.Future[Frame]] = Session(
            identity,
            in_flight_max=self._settings.in_flight_max,
            frame_bytes_max=self._settings.frame_bytes_max,
        )
        self._loop = asyncio.get_running_loop()
        self._process = process_token()
        self._state = _State.OPEN
        self._transport: asyncio.Transport | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._waiting_frames: Iterator[Frame] | None = None
        # In Python 3.12 and 3.13 writelines() of the standard loop never calls pause_writing();
        # that of uvloop does, and copies nothing.
        self._joins = isinstance(self._loop, asyncio.SelectorEventLoop)
        self._resumed: asyncio.Future[None] | None = None
        self._deadline = inf  # of the timer; a uvloop handle may not have it, if it is due at once
        self._deadline_timer: asyncio.Handle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._last_activity = 0.0
        self._silence = Silence(self._settings.request_timeout_ms / 1000)
        self._serving = 0
        self._tasks: set[asyncio.Future[None]] = set()
        self._drained: asyncio.Future[None] | None = None
        self._is_draining = False
        self._close_reason = ""
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._close_listeners: list[Callable[[Connection], None]] = []
        self.peer = "(not connected)"
        """The other end, as ``host:port``."""
        self.take_leading: TakeLeading | None = None
        """Serves the leading frames of a read together, if it can; see ``TakeLeading``."""
        self.is_open = True
        """Whether new requests may be sent; an attribute, since every send reads it."""

    def __repr__(self) -> str:
        return f"<Connection {self.peer} {self._state.value}, {self._session.in_flight} in flight>"

    # For callers

    @property
    def close_reason(self) -> str:
        """Why the connection closed; empty while it is open."""
        return self._close_reason

    async def request(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Frame:
        """Send a request and return the peer's answer, whatever its code.

        ``code`` is another request code with the same fields, and ``fields`` are added to the
        header's.

        Raises:
            RequestTimeout: no answer in time. The peer may still have executed the request, unless
                it was never sent (``timeout_ms`` is 0).
            ConnectionClosed: the connection is closed; the error says why.
            TooManyRequests: too many requests are in flight.
            LocalProtocolError: the request can't be encoded, for example because it is too large.
            WrongProcess: the process has been forked since the connection was opened.
        """
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        timeout = timeout_ms / 1000
        asked = self._loop.time()
        if self._resumed is not None:
            await self._writable(asked + timeout, timeout_ms, name_of_request(code or header.code))
        opaque, waiter = self._send(header, body, asked, timeout, code, fields)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._session.forget(opaque)
            raise

    def start_request(
        self, header: Header, body: Buffer = b"", *, timeout_ms: int, code: int | None = None
    ) -> asyncio.Future[Frame]:
        """Send a request and return the future of its answer: ``request`` with one await less.

        It never waits for a slow peer, but raises TooManyRequests if too many bytes are unsent. The
        request of a cancelled future counts as in flight until it times out.
        """
        if self._resumed is not None:
            self._check_unsent()
        now = self._loop.time()
        return self._send(header, body, now, timeout_ms / 1000, code, None)[1]

    @property
    def form(self) -> RequestForm | None:
        """The form of the requests of a burst; None if requests are signed or binary."""
        return self._session.form

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return self._session.in_flight

    def start_burst(
        self, burst: Burst[asyncio.Future[Frame]], *, now: float, timeout: float
    ) -> None:
        """Send the requests of a burst in one write; it settles them, or makes their futures.

        ``now`` is when the first was asked for, a time of the loop in seconds. Raise as
        ``start_request`` does; none has been sent then.
        """
        check_process(self._process, self)
        if self._resumed is not None:
            self._check_unsent()
        self._session.begin(burst, now=now, timeout=timeout)
        if self.take_leading is None:
            self.take_leading = self._settle_leading
            if self._transport is not None:
                self._transport.set_write_buffer_limits(high=_BURST_BYTES)
        self._out += burst.frames()
        if burst.deadline < self._deadline:
            self._watch_deadlines(burst.deadline)
        self._flush()

    def oneway(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
        remark: str | None = None,
    ) -> None:
        """Send a request without an answer. It may be lost without an error.

        Raise TooManyRequests if too many bytes are unsent, and the errors of ``request``.
        """
        check_process(self._process, self)
        self._check_unsent()
        head = self._session.oneway(header, body, code=code, fields=fields, remark=remark)
        self._write((head, body) if body else (head,))

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up; check it before sending many one-way requests."""
        return self._resumed is None

    async def writable(self) -> None:
        """Wait until the peer keeps up, or the connection closes; it has no timeout."""
        while self._resumed is not None and self._state is _OPEN:
            await asyncio.shield(self._resumed)

    def respond(self, request: Frame, response: Response) -> None:
        """Answer a request; a no-op for one-way requests and on a closed connection.

        A handler that returned None must call it exactly once per request.
        """
        check_process(self._process, self)
        if not request.flag & ONEWAY_FLAG:
            self._serving -= 1
            if self._drained is not None:
                self._note_drained()
        if self._state is not _OPEN:
            return
        try:
            buffers = self._session.answer(request, response)
        except LocalProtocolError as error:
            log.warning("%s: the answer to %r can't be sent: %s", self.peer, request, error)
            buffers = self._session.answer(request, failure(error))
        if buffers:
            self._write(buffers)

    @property
    def identity(self) -> Identity:
        """What this end says about itself in every frame."""
        return self._session.identity

    @property
    def serving_room(self) -> int:
        """How many more requests may be served now; 0 if the connection drains or closes.

        Frames that were kept while the peer did not read are served later than they were received.
        """
        if self._is_draining or self._state is not _OPEN:
            return 0
        return max(self._settings.serving_max - self._serving, 0)

    def serve_together(self, count: int) -> None:
        """Count requests as being served; there is ``serving_room`` for them.

        For ``take_leading``, which owes one ``respond_together`` for them, or ``respond`` for each.
        """
        self._serving += count

    def respond_together(self, answers: list[Buffer]) -> None:
        """Write the answers to as many requests, encoded as whole frames."""
        check_process(self._process, self)
        self._serving -= len(answers)
        if self._drained is not None:
            self._note_drained()
        if self._state is _OPEN:
            self._write((b"".join(answers),))

    def when_closed(self, listener: Callable[["Connection"], None]) -> None:
        """Call ``listener`` once, on the loop, when the connection has closed."""
        if self._state is _State.CLOSED:
            listener(self)
        else:
            self._close_listeners.append(listener)

    async def close(self, reason: str = "closed by this side") -> None:
        """Send what is buffered, and close; abort after the close timeout.

        Requests in flight fail immediately with the reason.
        """
        self._begin_close(reason)
        await asyncio.shield(self._closed)

    async def drain(self) -> None:
        """Serve no new requests, and wait until those being served are answered.

        New requests are neither executed nor answered; their connection closes soon.
        """
        self._is_draining = True
        if self._serving or self._tasks:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def abort(self, reason: str) -> None:
        """Close immediately; unsent bytes are dropped."""
        self._begin_close(reason)
        self._cut()

    # For the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to use the transport."""
        self._transport = cast(asyncio.Transport, transport)
        if self._state is not _State.OPEN:  # closed while it was being dialled
            self._transport.abort()
            return
        peername = transport.get_extra_info("peername")
        if peername:
            self.peer = self._session.peer = str(Address(str(peername[0]), int(peername[1])))
        self._last_activity = self._loop.time()
        self._watch_idle()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Serve the requests and settle the answers in ``data``."""
        if self._state is not _State.OPEN:
            return
        self._last_activity = self._silence.heard = self._loop.time()
        # A debug log has every frame, and a draining connection serves none.
        is_usual = self._is_draining or log.isEnabledFor(logging.DEBUG)
        frames = self._session.receive(data, None if is_usual else self.take_leading)
        if self._waiting_frames is None:
            self._take_in(frames)
        else:  # the transport had read this before it was paused
            self._waiting_frames = chain(self._waiting_frames, frames)

    def eof_received(self) -> None:
        """Begin to close, so that new requests fail immediately and not by a timeout."""
        self._begin_close("the peer closed it")

    def _take_in(self, frames: Iterator[Frame]) -> None:
        debug = log.isEnabledFor(logging.DEBUG)
        try:
            for frame in frames:
                if debug:
                    log.debug("%s sent %r %.2048s", self.peer, frame, _raw_fields(frame))
                if frame.flag & ANSWER_FLAG:
                    self._settle(frame)
                    continue
                self._serve(frame)
                if self._state is not _OPEN:
                    return
                if self._resumed is not None and self._side is Side.SERVER:
                    self._waiting_frames = frames  # until the peer has read some of its answers
                    return
        except RemoteProtocolError as error:
            log.warning("%s: %s; closing the connection", self.peer, error)
            self.abort(f"the peer broke the protocol: {error}")

    def pause_writing(self) -> None:
        """Stop writing: the peer reads more slowly than we write."""
        self._resumed = self._loop.create_future()
        if self._side is Side.SERVER and self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Write again: the peer has caught up."""
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._resumed = None
        if self._side is Side.SERVER and self._transport and not self._transport.is_closing():
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Serve the frames that were read before the pause, then read again."""
        frames, self._waiting_frames = self._waiting_frames, None
        if frames is not None:
            self._take_in(frames)
        if self._transport and self._resumed is None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight, and call the close listeners."""
        self._begin_close(f"the connection broke: {exc}" if exc else "the peer closed it")
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        for timer in (self._deadline_timer, self._idle_timer, self._close_timer):
            if timer is not None:
                timer.cancel()
        self._out.clear()
        self._waiting_frames = None
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        self._closed.set_result(None)
        for listener in self._close_listeners:
            try:
                listener(self)
            except Exception:
                log.exception("%s: a close listener failed", self.peer)

    # Out

    def _send(
        self,
        header: Header,
        body: Buffer,
        now: float,
        timeout: float,
        code: int | None,
        fields: Mapping[str, str] | None,
    ) -> tuple[int, asyncio.Future[Frame]]:
        check_process(self._process, self)
        waiter: asyncio.Future[Frame] = self._loop.create_future()
        opaque, head = self._session.request(
            header, body, waiter=waiter, now=now, timeout=timeout, code=code, fields=fields
        )
        self._write((head, body) if body else (head,))
        if now + timeout < self._deadline:
            self._watch_deadlines(now + timeout)
        return opaque, waiter

    def _write(self, buffers: tuple[Buffer, ...]) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += buffers
        size = self._out_bytes
        for buffer in buffers:
            size += len(buffer)
        self._out_bytes = size
        if size > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        now = self._loop.time()
        if self._deadline <= now:
            self._withdraw(now)  # only unsent ones: answers to the others may be about to be read
        out, self._out = self._out, []
        self._out_bytes = 0
        if out and self._transport is not None and not self._transport.is_closing():
            self._last_activity = now
            if self._joins:
                self._transport.write(b"".join(out))
            else:
                self._transport.writelines(out)
            if self._side is Side.SERVER and self._is_over_unsent():
                self.abort(f"the peer does not read its answers: {self._unsent()} bytes are unsent")

    def _unsent(self) -> int:
        return self._out_bytes + (self._transport.get_write_buffer_size() if self._transport else 0)

    def _is_over_unsent(self) -> bool:
        # Only a paused transport can hold that much.
        return self._resumed is not None and self._unsent() > self._settings.unsent_bytes_max

    def _check_unsent(self) -> None:
        if self._is_over_unsent():
            raise TooManyRequests(
                f"{self._unsent()} bytes are unsent, because {self.peer} does not read; try later"
            )

    async def _writable(self, deadline: float, timeout_ms: int, what: str) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self.writable()
        except TimeoutError:
            raise RequestTimeout(
                f"{what} was not sent within {timeout_ms} ms: "
                f"{self.peer} does not read what was sent before",
                address=self.peer,
                timeout_ms=timeout_ms,
            ) from None

    # In

    def _settle(self, answer: Frame) -> None:
        pending = self._session.take(answer)
        if pending is None:
            log.debug("%s answered too late: %r", self.peer, answer)
        elif not pending.waiter.done():
            pending.waiter.set_result(answer)
        if answer.code == _GO_AWAY or not self.is_open:
            self._leave()

    def _settle_leading(self, data: bytes | bytearray, at: int) -> int:
        """Settle the leading answers of a read to requests of bursts; see ``TakeLeading``."""
        end = self._session.settle(data, at)
        if end > at and not self.is_open:
            self._leave()
        return end

    def _leave(self) -> None:
        """Send no new requests; close when those in flight are settled."""
        if self.is_open:
            self.is_open = False
            log.info("%s is about to stop (GO_AWAY); new requests use a new connection", self.peer)
        if not self._session.in_flight:
            self._begin_close("the peer is about to stop (GO_AWAY)")

    def _serve(self, request: Frame) -> None:
        if self._is_draining:
            log.debug("%s: %r is not served: the connection is closing", self.peer, request)
            return
        if not request.flag & ONEWAY_FLAG:
            self._serving = serving = self._serving + 1
            if serving > self._settings.serving_max:
                self.respond(request, overload(serving - 1))
                return
        elif len(self._tasks) >= self._settings.serving_max:
            log.warning(
                "%s: %r is dropped: %d are being served", self.peer, request, len(self._tasks)
            )
            return
        try:
            outcome = self._handler(self, request)
        except Exception as error:
            self.respond(request, logged_failure(self.peer, request, error))
            return
        if outcome.__class__ is Response:
            self.respond(request, outcome)
        elif outcome is not None:
            task = asyncio.ensure_future(self._finish(request, cast(Awaitable[Response], outcome)))
            self._tasks.add(task)
            task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        self._note_drained()

    def _note_drained(self) -> None:
        if self._drained is not None and not self._serving and not self._tasks:
            self._drained.set_result(None)
            self._drained = None

    async def _finish(self, request: Frame, outcome: Awaitable[Response | None]) -> None:
        try:
            response = await outcome
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the loop is stopping
            cancelled = RuntimeError("the handler was cancelled")
            response = logged_failure(self.peer, request, cancelled)
        except Exception as error:
            response = logged_failure(self.peer, request, error)
        if response is not None:
            self.respond(request, response)

    # Time and end

    def _watch_deadlines(self, deadline: float) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline = deadline
        self._deadline_timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        was_due, self._deadline, self._deadline_timer = self._deadline, inf, None
        now = self._loop.time()
        self._withdraw(now)
        expired = self._session.expire(now)
        is_silent = self._side is Side.CLIENT and self._silence.is_long(expired, now)
        if is_silent and now - was_due < _LATE_S:  # first, so that a retry finds another connection
            self.abort(f"nothing was heard for {now - self._silence.since:.1f} s")
        for pending in expired:
            _fail(pending, pending.timed_out(self.peer, pending.timeout_ms))
        deadline = self._session.next_deadline()
        if deadline is not None:
            self._watch_deadlines(deadline)
        if not self.is_open:
            self._leave()

    def _withdraw(self, now: float) -> None:
        """Fail the requests that expired before they were written, and don't send them."""
        due = self._session.due(now) if self._out else ()
        if due:
            kept, unsent = without_requests(self._out, due)
            self._out, self._out_bytes = kept, sum(map(len, kept))
            for opaque in sorted(unsent):
                pending = self._session.forget(opaque)
                if pending is not None:
                    _fail(pending, pending.not_sent(self.peer, pending.timeout_ms))

    def _watch_idle(self) -> None:
        idle_s = self._settings.idle_close_ms / 1000
        left = self._last_activity + idle_s - self._loop.time()
        if left <= 0:
            self._begin_close(f"nothing was sent or received for {idle_s:g} s")
        else:
            self._idle_timer = self._loop.call_later(left, self._watch_idle)

    def _begin_close(self, reason: str) -> None:
        if self._state is not _State.OPEN:
            return
        check_process(self._process, self)
        self._state = _State.CLOSING
        self.is_open = False
        self._close_reason = reason
        waiting, unsent = self._session.close(reason), set[int]()
        if waiting and self._out:
            self._out, unsent = without_requests(self._out, {one.opaque for one in waiting})
            self._out_bytes = sum(map(len, self._out))
        for pending in waiting:
            was_sent = pending.opaque not in unsent
            _fail(pending, pending.cut_off(self.peer, reason, was_sent=was_sent))
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._resumed = None
        if self._transport is None:
            self.connection_lost(None)
        else:
            self._flush()
            self._transport.close()
            # A peer that doesn't read, or doesn't end TLS, would keep the transport open forever.
            self._close_timer = self._loop.call_later(
                self._settings.close_timeout_ms / 1000, self._cut
            )

    def _cut(self) -> None:
        """Abort the transport; if it does not confirm that in time, treat it as closed."""
        if self._transport is None or self._state is _State.CLOSED:
            return
        self._transport.abort()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_timer = self._loop.call_later(
            self._settings.close_timeout_ms / 1000, self.connection_lost, None
        )


def _fail(pending: Pending[asyncio.Future[Frame]], error: NetworkError) -> None:
    if not pending.waiter.done():
        pending.waiter.set_exception(error)


def _raw_fields(frame: Frame) -> str:
    """Return the extension fields as received, including those that no header declares."""
    raw = frame.raw_fields
    return repr(raw) if isinstance(raw, dict) else bytes(raw).decode(errors="replace")
