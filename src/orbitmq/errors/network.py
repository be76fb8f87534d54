"""Errors of connections and routes."""

from collections.abc import Mapping

from orbitmq.errors.base import OrbitError

__all__ = [
    "ConnectFailed",
    "ConnectionClosed",
    "ConsensusFailed",
    "NameserversFailed",
    "NetworkError",
    "NoRoute",
    "RequestTimeout",
    "TooManyRequests",
]


class NetworkError(OrbitError):
    """The request may or may not have arrived.

    Attributes:
        address: the peer, as ``host:port``.
    """

    retriable = True

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class ConnectFailed(NetworkError):
    """The address could not be reached, or the TLS handshake failed; nothing was sent."""

    refresh_route = True


class ConnectionClosed(NetworkError):
    """The connection closed before the answer came; the text says which side closed it, and why.

    Attributes:
        was_sent: False: the request never left.
    """

    refresh_route = True

    def __init__(self, message: str, *, address: str = "", was_sent: bool = True) -> None:
        super().__init__(message, address=address)
        self.was_sent = was_sent


class ConsensusFailed(NetworkError):
    """The store that elections stand on did not answer; a change may have been made anyway."""


class RequestTimeout(NetworkError):
    """No answer in time; the peer may have carried out the request anyway.

    Attributes:
        timeout_ms: how long the answer was awaited; 0: the request never left.
    """

    refresh_route = True  # a broker that fell silent may have been replaced

    def __init__(self, message: str, *, address: str = "", timeout_ms: int = 0) -> None:
        super().__init__(message, address=address)
        self.timeout_ms = timeout_ms


class NameserversFailed(NetworkError):
    """No nameserver answered.

    Attributes:
        answers: how the request to each failed, by address.
    """

    def __init__(self, message: str, *, answers: Mapping[str, str]) -> None:
        super().__init__(message, address=", ".join(answers))
        self.answers = dict(answers)


class NoRoute(OrbitError):
    """There is no queue of the topic to write to, or to read from.

    Attributes:
        topic: the topic.
        is_missing: True: no nameserver knows the topic. False: it is known, and no broker
            serves it now.
        answers: the answer of each nameserver, by address.
        code: Java's response code.
    """

    retriable = True
    refresh_route = True
    code = 10005

    def __init__(
        self, message: str, *, topic: str, is_missing: bool, answers: Mapping[str, str]
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.is_missing = is_missing
        self.answers = dict(answers)


class TooManyRequests(OrbitError):
    """The limit on requests in flight is reached; wait for answers, then try again."""

    retriable = True
