"""A way between a client and a server that keeps what both said, and may hold it back."""

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
        told: what each was answered.

    """

    def __init__(self, to: Address, *, at: Address | None = None) -> None:
        self._to = to
        self._listener = socket.create_server(at or ("127.0.0.1", 0))
        self.at = Address(*self._listener.getsockname())
        self.heard: list[bytearray] = []
        self.told: list[bytearray] = []
        self._flows = threading.Event()
        self._flows.set()
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name=f"tunnel {self.at}")]

    def hold(self) -> None:
        """Pass nothing on any more; connections stay, until the tunnel ends and all is lost."""
        self._flows.clear()

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
        self._flows.set()
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
            said, answered = bytearray(), bytearray()
            self.heard.append(said)
            self.told.append(answered)
            for way in ((client, server, said), (server, client, answered)):
                given = (*way, self._flows)
                thread = threading.Thread(target=_forward, args=given, name=f"tunnel {self.at}")
                self._threads.append(thread)
                thread.start()


def _forward(
    source: socket.socket, sink: socket.socket, kept: bytearray, flows: threading.Event
) -> None:
    """Pass on what comes until there is no more, or one of the two has gone."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            flows.wait()
            kept += data
            sink.sendall(data)
    _shut(sink, socket.SHUT_WR)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # the other side has gone, and it is shut
        end.shutdown(how)
