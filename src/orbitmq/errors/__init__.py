"""Every error orbitmq raises, in one tree.

The class says whose fault it is and what to do next: ``retriable`` (the same call may succeed
later, or on another broker) and ``refresh_route`` (ask the nameserver again first). Numbers that
matter are attributes, so that no program has to read them out of a sentence::

    OrbitError
    ├─ InvalidInput                what the caller gave can't be used: field, limit, length
    │  ├─ InvalidTopic, InvalidGroup
    │  ├─ InvalidTags, InvalidKeys, InvalidProperty
    │  ├─ MessageTooLarge
    │  ├─ NoNameserver             nobody to ask for routes: the ways to set one
    │  ├─ InvalidSetting           a setting can't be used: file, line, field
    │  ├─ InvalidColumn            a column of a data frame can't be read or written: field
    │  └─ InvalidOption            an option of a read or write can't be used: field
    │     ├─ UnknownOption         there is none of that name: nearest
    │     └─ InvalidOffsets        offsets that can't be read, or of no queue: position
    ├─ LocalProtocolError          we were asked to write what the format can't hold
    ├─ RemoteProtocolError         the peer's bytes break the protocol: where, and why
    │  ├─ InvalidHeader            a header field is missing or unreadable: its name
    │  └─ InvalidBody              a body is not what its request or answer promises
    ├─ CorruptRecord               bytes that should be a stored message and are not
    │  └─ CompressionFailed        a body that can't be opened, or would open too far
    ├─ StoreError                  a store directory can't be used, or not any more
    │  ├─ StoreLocked              another process has it: pid
    │  ├─ StoreDamaged             its files contradict each other: path, position
    │  └─ DiskFailed               the system refused a file call: path, errno
    ├─ NetworkError                retriable
    │  ├─ ConnectFailed            nobody listens there, or the handshake failed
    │  ├─ ConnectionClosed         closed while (or before) the request was on its way
    │  ├─ RequestTimeout           no answer in time; it may still have been carried out
    │  └─ NameserversFailed        no nameserver answered: what became of each request
    ├─ NoRoute                     retriable: no queue of the topic: what each nameserver answered
    ├─ TooManyRequests             retriable: our own bound on requests in flight is met
    ├─ SendFailed                  a send gave up: topic, attempts, whether it may be stored
    │  ├─ SendTimeout              its time was over: where the time went
    │  │  └─ BackPressure          it was over before our own bound let the message go
    │  ├─ SendUnreachable          no broker could be reached
    │  ├─ SendRefused              the brokers answered with error codes: code, remark
    │  │  ├─ SendRefusedBusy       they were busy: their remark says with what
    │  │  ├─ SendUnauthorised      topic, group or user may not do this there
    │  │  └─ SendIllegal           they hold the message to be illegal, such as for its size
    │  ├─ SendForbidden            a hook of the application forbade it
    │  ├─ NotDurable               stored, but less safely than was required: the receipt
    │  ├─ PartlySent               of several frames some failed: receipts and errors
    │  ├─ SendHeldBack             others of its key wait in the outbox before it
    │  ├─ SendKept                 it is safe in the outbox, and will be sent later
    │  ├─ TransactionNotBegun      its half message was stored too unsurely, and dropped
    │  └─ NoReply                  a request was sent, and nobody replied in time
    ├─ RowsRejected                rows of a write can't be messages: partition, rows
    ├─ DataLost                    messages to be read are gone: queue, wanted, available
    ├─ OutboxFull                  retriable: the file of unsent messages has met its bound
    ├─ NotRunning                  a producer that is not started, or whose start failed: state
    │  └─ ProducerClosed           it was closed
    ├─ AlreadyStarted              a start of what has been started before: state
    ├─ WrongLoop                   an object of one event loop, used on another
    ├─ WrongProcess                a connection of the parent process, used after a fork
    ├─ MissingExtra                an optional package is needed: which one to install
    ├─ JavaNotFound                a session needs one of a release that is new enough: least
    ├─ SparkTooOld                 it lacks what a stream needs: least
    └─ BrokerError                 a server answered with an error code: code, remark, address
       ├─ BrokerFailed 1, BrokerBusy 2, RequestNotSupported 3, MessageRefused 13
       ├─ ServiceNotAvailable 14, NoPermission 16, TopicNotFound 17, NotFound 22
       └─ GroupNotFound 26, InvalidParameter 29
"""

from collections.abc import Mapping
from typing import ClassVar

from orbitmq.errors.base import OrbitError
from orbitmq.errors.inputs import (
    InvalidGroup,
    InvalidInput,
    InvalidKeys,
    InvalidProperty,
    InvalidSetting,
    InvalidTags,
    InvalidTopic,
    MessageTooLarge,
    NoNameserver,
)
from orbitmq.errors.sends import (
    BackPressure,
    NoReply,
    NotDurable,
    PartlySent,
    SendFailed,
    SendForbidden,
    SendHeldBack,
    SendIllegal,
    SendKept,
    SendRefused,
    SendRefusedBusy,
    SendTimeout,
    SendUnauthorised,
    SendUnreachable,
    TransactionNotBegun,
)
from orbitmq.errors.spark import (
    DataLost,
    InvalidColumn,
    InvalidOffsets,
    InvalidOption,
    JavaNotFound,
    RowsRejected,
    SparkTooOld,
    UnknownOption,
)

__all__ = [
    "AlreadyStarted",
    "BackPressure",
    "BrokerBusy",
    "BrokerError",
    "BrokerFailed",
    "CompressionFailed",
    "ConnectFailed",
    "ConnectionClosed",
    "CorruptRecord",
    "DataLost",
    "DiskFailed",
    "GroupNotFound",
    "InvalidBody",
    "InvalidColumn",
    "InvalidGroup",
    "InvalidHeader",
    "InvalidInput",
    "InvalidKeys",
    "InvalidOffsets",
    "InvalidOption",
    "InvalidParameter",
    "InvalidProperty",
    "InvalidSetting",
    "InvalidTags",
    "InvalidTopic",
    "JavaNotFound",
    "LocalProtocolError",
    "MessageRefused",
    "MessageTooLarge",
    "MissingExtra",
    "NameserversFailed",
    "NetworkError",
    "NoNameserver",
    "NoPermission",
    "NoReply",
    "NoRoute",
    "NotDurable",
    "NotFound",
    "NotRunning",
    "OrbitError",
    "OutboxFull",
    "PartlySent",
    "ProducerClosed",
    "RemoteProtocolError",
    "RequestNotSupported",
    "RequestTimeout",
    "RowsRejected",
    "SendFailed",
    "SendForbidden",
    "SendHeldBack",
    "SendIllegal",
    "SendKept",
    "SendRefused",
    "SendRefusedBusy",
    "SendTimeout",
    "SendUnauthorised",
    "SendUnreachable",
    "ServiceNotAvailable",
    "SparkTooOld",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "TooManyRequests",
    "TopicNotFound",
    "TransactionNotBegun",
    "UnknownOption",
    "WrongLoop",
    "WrongProcess",
]


class LocalProtocolError(OrbitError):
    """We were asked to write something that the format can't hold, such as too long a frame."""


class RemoteProtocolError(OrbitError):
    """The peer's bytes break the protocol; the connection can't go on.

    Attributes:
        position: the byte of the stream (or of the buffer given) at which it went wrong.

    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class InvalidHeader(RemoteProtocolError):
    """A header field is missing or unreadable; frames after it are fine.

    Attributes:
        field: the name on the wire of the first field at fault, or None if all of them are.

    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidBody(RemoteProtocolError):
    """A body is not what its request or answer promises; frames after it are fine."""


class CorruptRecord(OrbitError):
    """Bytes that should be a stored message and are not.

    Attributes:
        position: where in the buffer the record, or the fault in it, begins.

    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class CompressionFailed(CorruptRecord):
    """A body that can't be opened, or that would grow past the bound."""


class StoreError(OrbitError):
    """A store directory can't be used, or not any more.

    Attributes:
        path: the file or directory at fault.

    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StoreLocked(StoreError):
    """Another process uses the store directory.

    Attributes:
        pid: that process, None if the system doesn't tell.

    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{path} is locked by {holder}; stop it first, or use another place", path=path
        )
        self.pid = pid


class StoreDamaged(StoreError):
    """Files of the store contradict each other, or are not what their names say.

    Attributes:
        position: the byte of the stream or file at which it shows.

    """

    def __init__(self, message: str, *, path: str, position: int = 0) -> None:
        super().__init__(message, path=path)
        self.position = position


class DiskFailed(StoreError):
    """The system refused a file call: no space, no permission, an error of the device.

    Attributes:
        errno: the system's number of the reason.

    """

    def __init__(self, message: str, *, path: str, errno: int) -> None:
        super().__init__(message, path=path)
        self.errno = errno


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
    """Nobody answered at the address, or the TLS handshake failed; nothing was sent."""

    refresh_route = True


class ConnectionClosed(NetworkError):
    """The connection closed before the answer came; the message says who closed it and why."""

    refresh_route = True


class RequestTimeout(NetworkError):
    """No answer in time; the peer may still have carried the request out.

    Attributes:
        timeout_ms: how long was waited for the answer; 0: the request never left, and nobody
            carries it out.

    """

    def __init__(self, message: str, *, address: str = "", timeout_ms: int = 0) -> None:
        super().__init__(message, address=address)
        self.timeout_ms = timeout_ms


class NameserversFailed(NetworkError):
    """No nameserver answered.

    Attributes:
        answers: what became of the request to each, by address.

    """

    def __init__(self, message: str, *, answers: Mapping[str, str]) -> None:
        super().__init__(message, address=", ".join(answers))
        self.answers = dict(answers)


class NoRoute(OrbitError):
    """There is no queue of the topic that could be written to, or read from.

    Attributes:
        topic: the topic.
        is_missing: True: no nameserver knows the topic. False: it is known, and no broker
            serves it now.
        answers: what each nameserver answered, by address.
        code: Java's number for it.

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
    """Our own bound on requests in flight is met; wait for answers, then try again."""

    retriable = True


class OutboxFull(OrbitError):
    """The file of unsent messages has met its bound; the message at hand is not in it.

    Attributes:
        path: the file.

    """

    retriable = True

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class AlreadyStarted(OrbitError):
    """Something was started that has been started before; make a new one.

    Attributes:
        state: what it is now.

    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class NotRunning(OrbitError):
    """Something was asked of a producer that is not running.

    Attributes:
        state: what it is instead.

    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class ProducerClosed(NotRunning):
    """The producer was closed; make a new one."""


class WrongLoop(OrbitError):
    """An object that belongs to one event loop was used on another; make one there."""


class WrongProcess(OrbitError):
    """A connection opened before a fork was used in the child; open a new one there."""


class MissingExtra(OrbitError, ImportError):
    """An optional package is needed; the message names the command that installs it."""

    def __init__(self, purpose: str, *, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra package: pip install 'orbitmq[{extra}]'")
        self.extra = extra


_ACL_EXCEPTION = "org.apache.rocketmq.acl."


class BrokerError(OrbitError):
    r"""A server answered with an error code.

    Attributes:
        code: the response code, RocketMQ's number.
        remark: the server's own words.
        address: who answered, as ``host:port``.

    >>> BrokerError.of(17, "No topic route info\nsee below", address="127.0.0.1:9876")
    TopicNotFound('127.0.0.1:9876 answered 17: No topic route info see below')

    """

    default_code: ClassVar[int | None] = None
    by_code: ClassVar[dict[int, type["BrokerError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.default_code is not None:
            BrokerError.by_code[cls.default_code] = cls

    def __init__(self, code: int, remark: str | None, *, address: str = "") -> None:
        words = " ".join((remark or "(no remark)").splitlines())  # Java's have an address below
        super().__init__(f"{address or 'the server'} answered {code}: {words}")
        self.code = code
        self.remark = remark
        self.address = address

    @classmethod
    def of(cls, code: int, remark: str | None, *, address: str = "") -> "BrokerError":
        """Return the error of the class that stands for ``code``, this class if none does.

        The access control of 4.x refuses with code 1 and the name of Java's exception: that is a
        ``NoPermission``, too, and keeps its code.
        """
        kind = BrokerError.by_code.get(code, BrokerError)
        if kind is BrokerFailed and remark is not None and remark.startswith(_ACL_EXCEPTION):
            kind = NoPermission
        return kind(code, remark, address=address)


class BrokerFailed(BrokerError):
    """The server failed while it carried out the request; its remark says how."""

    default_code = 1
    retriable = True


class BrokerBusy(BrokerError):
    """The server refused for now: a queue is full, waited too long, or the disk is behind."""

    default_code = 2
    retriable = True


class RequestNotSupported(BrokerError):
    """The server doesn't know this request code."""

    default_code = 3


class MessageRefused(BrokerError):
    """The broker holds the message to be illegal: too large, or too many properties."""

    default_code = 13


class ServiceNotAvailable(BrokerError):
    """The broker can't write now: a slave, shutting down, or its disk is full."""

    default_code = 14
    retriable = True
    refresh_route = True


class NoPermission(BrokerError):
    """The topic, the group or the user may not do this here."""

    default_code = 16
    retriable = True
    refresh_route = True


class TopicNotFound(BrokerError):
    """The server has no such topic, and may not create it."""

    default_code = 17
    retriable = True
    refresh_route = True


class NotFound(BrokerError):
    """The query was understood and found nothing."""

    default_code = 22


class GroupNotFound(BrokerError):
    """The broker has no such subscription group."""

    default_code = 26


class InvalidParameter(BrokerError):
    """The broker refused a parameter of the request; its remark names it."""

    default_code = 29
