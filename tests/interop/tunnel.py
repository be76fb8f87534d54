"""A way between a client and a server that keeps what the client said."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from orbitmq.net.address import Address

CHUNK_BYTES = 64 * 1024


class Tunnel:
    """Forwards each connection to a server; for a ``with`` statement, which ends them all.

    Args:
        to: the server, which must listen by the time the first client comes.
        at: where clients come in; a free port of this machine if left out.

    Attributes:
        at: where clients come in.
        heard: what each client has said so far, in the order in which they came.

    """

    def __init__(self, to: Address, *, at: Address | None = None) -> None:
        self._to = to
        self._listener = socket.create_server(at or ("127.0.0.1", 0))
        self.at = Address(*self._listener.getsockname())
        self.heard: list[bytearray] = []
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name=f"tunnel {self.at}")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._threads[0].join()
        for end in self._ends:
            _shut(end, socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # the tunnel ends
                return
            server = socket.create_connection(self._to)
            self._ends += client, server
            said = bytearray()
            self.heard.append(said)
            for way in ((client, server, said), (server, client, None)):
                thread = threading.Thread(target=_forward, args=way, name=f"tunnel {self.at}")
                self._threads.append(thread)
                thread.start()


def _forward(source: socket.socket, sink: socket.socket, kept: bytearray | None) -> None:
    """Pass on what comes until there is no more, or one of the two has gone."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            if kept is not None:
                kept += data
            sink.sendall(data)
    _shut(sink, socket.SHUT_WR)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # the other side has gone, and it is shut
        end.shutdown(how)
