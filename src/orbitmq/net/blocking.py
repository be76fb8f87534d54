"""A connection for code without an event loop: Spark tasks, one-shot commands.

It drives the same session as the asyncio connection, from one thread. Requests can be pipelined:
``start`` several, then take each ``result``. Requests of the peer are served while waiting for
answers. Nothing is read while sending, so starting many requests with large bodies and large
answers would deadlock: take results in between.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import (
    ConnectFailed,
    ConnectionClosed,
    InvalidInput,
    NetworkError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.net.address import Address
from orbitmq.net.fork import check_process, process_token
from orbitmq.net.landing import Landing
from orbitmq.net.refusal import failure, not_supported
from orbitmq.net.settings import NetSettings
from orbitmq.net.silence import Silence
from orbitmq.wire.codes import name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer, Frame
from orbitmq.wire.session import Identity, Response, Session

__all__ = ["BlockingConnection"]

log = logging.getLogger("orbitmq.net")

_READ_SIZE = 256 * 1024
_PAUSE_MAX_S = 0.5
"""The longest pause in an answer that is still being received; after it, the answer is late."""


class BlockingConnection:
    """A connection for one thread at a time; a context manager.

    ``handler`` serves requests of the peer while waiting; by default it answers "not supported".
    Raise ConnectFailed if the peer can't be reached in time, or the TLS handshake failed.
    """

    def __init__(
        self,
        address: Address,
        *,
        identity: Identity | None = None,
        settings: NetSettings | None = None,
        tls: ssl.SSLContext | None = None,
        handler: Callable[[Frame], Response] = not_supported,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings or NetSettings()
        self._handler = handler
        self._clock = clock or SystemClock()
        self._process = process_token()
        self._answers: dict[int, Frame] = {}
        self._failures: dict[int, NetworkError] = {}
        self._closed: str | None = None
        self._silence = Silence(self._settings.request_timeout_ms)
        self._landing: Landing | None = None  # memory of the caller to receive into
        self._session: Session[None] = Session(
            identity,
            in_flight_max=self._settings.in_flight_max,
            frame_bytes_max=self._settings.frame_bytes_max,
        )
        self.peer = str(address)
        self._socket = _dial(address, tls, self._settings.connect_timeout_ms)

    def __repr__(self) -> str:
        state = "open" if self._closed is None else f"closed: {self._closed}"
        return f"<BlockingConnection {self.peer} {state}, {self._session.in_flight} in flight>"

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._closed is None

    def request(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Frame:
        """Send a request and return the peer's answer, whatever its code.

        Raise as ``Connection.request`` does.
        """
        return self.result(
            self.start(header, body, timeout_ms=timeout_ms, code=code, fields=fields)
        )

    def start(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> int:
        """Send a request and return its number; pass that to ``result`` exactly once.

        Raise as ``request`` does; also RequestTimeout if the peer didn't read it in time.
        """
        check_process(self._process, self)
        self._check_taken()
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        now = self._clock.monotonic_ms()
        opaque, head = self._session.request(
            header, body, waiter=None, now=now, timeout=timeout_ms, code=code, fields=fields
        )
        try:
            self._send(head, body, timeout_ms, name_of_request(code or header.code))
        except BaseException:  # raised here, so never to be taken
            self.abandon(opaque)
            raise
        return opaque

    def start_all(self, headers: Iterable[Header], *, timeout_ms: int | None = None) -> list[int]:
        """Send requests without a body in one write; return their numbers, in the same order.

        That saves a system call per request, here and at the peer. If it fails, none of them has
        a result to wait for.
        """
        check_process(self._process, self)
        self._check_taken()
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        now = self._clock.monotonic_ms()
        numbers: list[int] = []
        heads: list[bytes] = []
        try:
            for header in headers:
                number, head = self._session.request(
                    header, waiter=None, now=now, timeout=timeout_ms
                )
                numbers.append(number)
                heads.append(head)
            self._send(b"".join(heads), b"", timeout_ms, f"a pipeline of {len(numbers)} requests")
        except BaseException:  # raised here, so never to be taken
            for number in numbers:
                self.abandon(number)
            raise
        return numbers

    def abandon(self, number: int) -> None:
        """Drop the answer to a request that was started, now or when it arrives."""
        self._session.forget(number)
        self._answers.pop(number, None)
        self._failures.pop(number, None)

    def result(self, number: int) -> Frame:
        """Wait for the answer to a request that was started, and return it.

        Raise RequestTimeout or ConnectionClosed as ``request`` does.
        """
        check_process(self._process, self)
        while self._session.waits_for(number):
            self._receive()
        if number in self._answers:
            return self._answers.pop(number)
        if number in self._failures:
            raise self._failures.pop(number)
        raise InvalidInput(
            f"request {number} was not started here, or its result was already taken",
            field="number",
        )

    def receive_into(self, memory: memoryview | None) -> None:
        """Receive into some writable memory from now on; None: into memory of this connection.

        The bodies of later answers are views of ``memory``; one that doesn't fit, and all after
        it, have memory of their own. Answers that have arrived and were not taken are copied, so
        the memory given before is free when this returns: only bodies that were taken lie in it.
        Keep ``memory`` as it is until the next call.
        """
        check_process(self._process, self)
        rest: Buffer = b""
        if self._closed is None:
            rest = self._session.take_held() if self._landing is None else self._landing.rest()
        landing = None if memory is None else Landing(memory)
        for answer in self._answers.values():
            placed = None if landing is None else landing.place(answer.body)
            answer.body = bytes(answer.body) if placed is None else placed
        self._landing = landing
        if landing is None or not landing.begin(rest):
            self._receive_apart(rest)

    def oneway(
        self,
        header: Header,
        body: Buffer = b"",
        *,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """Send a request without an answer. It may be lost without an error."""
        check_process(self._process, self)
        head = self._session.oneway(header, body, code=code, fields=fields)
        what = name_of_request(code or header.code)
        self._send(head, body, self._settings.request_timeout_ms, what)

    def poll(self) -> bool:
        """Read what has arrived, without waiting; return whether requests can be sent.

        Call it on a connection that was idle: the peer may have closed it meanwhile.
        """
        check_process(self._process, self)
        while self._closed is None and self._read(0):
            pass
        return self._closed is None

    def close(self, reason: str = "closed by this side") -> None:
        """Close; the results of requests in flight fail with the reason."""
        if self._closed is not None:
            return
        self._closed = reason
        for pending in self._session.close(reason):
            self._failures[pending.opaque] = pending.cut_off(self.peer, reason)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_taken(self) -> None:
        if len(self._answers) + len(self._failures) >= self._settings.in_flight_max:
            raise TooManyRequests(
                f"{len(self._answers)} answers of {self.peer} were never taken; "
                "call result or abandon for each request"
            )

    def _send(self, head: bytes, body: Buffer, timeout_ms: int, what: str) -> None:
        """Send a frame. A failure closes the connection, since part of the frame may be sent."""
        self._socket.settimeout(max(timeout_ms, 1) / 1000)  # 0 would make the socket non-blocking
        frame = b"".join((head, body))
        try:
            self._socket.sendall(frame)
        except TimeoutError:
            self.close(f"{what} was sent only in part")
            raise RequestTimeout(
                f"{what} was not read by {self.peer} within {timeout_ms} ms",
                address=self.peer,
                timeout_ms=timeout_ms,
            ) from None
        except OSError as error:
            self.close(f"the connection broke: {error}")
            raise ConnectionClosed(
                f"{what} could not be sent to {self.peer}: {error}", address=self.peer
            ) from error
        except BaseException:  # of a signal handler; part of the frame may be sent
            self.close(f"{what} was interrupted while it was sent")
            raise

    def _receive(self) -> None:
        """Read once, at most until the next deadline, and settle the answers."""
        now = self._clock.monotonic_ms()
        deadline = self._session.next_deadline()
        assert deadline is not None  # the caller waits for a request in flight
        if deadline > now:
            self._read((deadline - now) / 1000)
        else:
            self._catch_up(now + self._settings.request_timeout_ms)
        now = self._clock.monotonic_ms()
        expired = self._session.expire(now)
        for pending in expired:
            timeout_ms = round(pending.deadline - pending.sent)
            self._failures[pending.opaque] = pending.timed_out(self.peer, timeout_ms)
        if self._silence.is_long(expired, now):
            self.close(f"nothing was heard for {(now - self._silence.since) / 1000:.1f} s")

    def _catch_up(self, until_ms: float) -> None:
        """Read all that arrives without a pause, after a deadline passed while we were not reading.

        Answers that arrived in time don't count as late. The peer may still be sending them, if the
        socket's buffers were full.
        """
        while self._session.in_flight and self._read(_PAUSE_MAX_S):
            if self._clock.monotonic_ms() >= until_ms:
                break

    def _read(self, timeout: float) -> bool:
        """Read once and settle the answers; return whether there may be more."""
        self._socket.settimeout(timeout)
        room = None if self._landing is None else self._landing.room()
        if self._landing is not None and room is None:
            self._receive_apart(self._landing.rest())
        data = b""
        try:
            if room is None:
                data = self._socket.recv(_READ_SIZE)
                size = len(data)
            else:
                size = self._socket.recv_into(room)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            self.close(f"the connection broke: {error}")
            return False
        if not size:
            self.close("the peer closed it")
            return False
        self._silence.heard = self._clock.monotonic_ms()
        session, landing = self._session, self._landing
        try:
            for frame in (
                session.receive(data) if landing is None else landing.receive(size, session)
            ):
                if frame.is_answer:
                    self._settle(frame)
                else:
                    self._serve(frame)
        except RemoteProtocolError as error:
            self.close(f"the peer broke the protocol: {error}")
        return self._closed is None

    def _receive_apart(self, rest: Buffer) -> None:
        """Receive into memory of this connection, beginning with a part of a frame."""
        self._landing = None
        incomplete = not [*self._session.receive(bytes(rest))]
        assert incomplete

    def _settle(self, answer: Frame) -> None:
        pending = self._session.take(answer)
        if pending is not None:
            self._answers[pending.opaque] = answer

    def _serve(self, request: Frame) -> None:
        """Serve a request of the peer; a failure is answered and logged, not raised."""
        try:
            buffers = self._session.answer(request, self._handler(request))
        except Exception as error:
            log.exception("%s: %r failed", self.peer, request)
            buffers = self._session.answer(request, failure(error))
        if buffers:
            head, *body = buffers
            try:
                self._send(bytes(head), b"".join(body), self._settings.request_timeout_ms, "answer")
            except (
                NetworkError
            ) as error:  # it closed the connection, so waiting callers get an error
                log.warning("%s: the answer to %r was not sent: %s", self.peer, request, error)


def _dial(address: Address, tls: ssl.SSLContext | None, timeout_ms: int) -> socket.socket:
    try:
        plain = socket.create_connection(address, timeout=timeout_ms / 1000)
    except (OSError, ValueError, OverflowError) as error:  # ValueError: an invalid host name
        raise ConnectFailed(f"no connection to {address}: {error}", address=str(address)) from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        return tls.wrap_socket(plain, server_hostname=address.host)
    except (OSError, ValueError) as error:  # an ssl.SSLError is the first, a bad name the second
        plain.close()
        raise ConnectFailed(
            f"no TLS connection to {address}: {error}; is TLS enabled on both sides?",
            address=str(address),
        ) from error
