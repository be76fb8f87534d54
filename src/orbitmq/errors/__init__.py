"""Every error orbitmq raises, in one tree.

The class says whose fault it is and what to do next: ``retriable`` (the same call may succeed
later, or on another broker) and ``refresh_route`` (ask the nameserver again first). Numbers that
matter are attributes, so that no program has to read them out of a sentence::

    OrbitError
    ├─ InvalidInput                what the caller gave can't be used: field, limit, length
    │  ├─ InvalidTopic, InvalidGroup
    │  ├─ InvalidTags, InvalidKeys, InvalidProperty
    │  ├─ MessageTooLarge
    │  ├─ NoNameserver             no nameserver is set: the ways to set one
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
    │  ├─ ConnectFailed            the address can't be reached, or the handshake failed
    │  ├─ ConnectionClosed         closed while, or before, the request was in flight
    │  ├─ RequestTimeout           no answer in time; it may have been carried out
    │  └─ NameserversFailed        no nameserver answered: the error of each request
    ├─ NoRoute                     retriable: no queue of the topic: what each nameserver answered
    ├─ TooManyRequests             retriable: the limit on requests in flight is reached
    ├─ SendFailed                  a send failed: topic, attempts, whether it may be stored
    │  ├─ SendTimeout              its time budget ended: where the time went
    │  │  └─ BackPressure          the limit on sends in flight did not admit it in time
    │  ├─ SendUnreachable          no broker could be reached
    │  ├─ SendNoRoute              also a NoRoute: no queue of the topic to write to
    │  ├─ SendNameserversFailed    also a NameserversFailed: no nameserver answered
    │  ├─ SendRefused              the brokers answered with error codes: code, remark
    │  │  ├─ SendRefusedBusy       they were busy: their remark says with what
    │  │  ├─ SendUnauthorised      topic, group or user may not do this there
    │  │  └─ SendIllegal           they reject the message, such as for its size
    │  ├─ SendForbidden            a hook of the application forbade it
    │  ├─ NotDurable               stored, but less safely than was required: the receipt
    │  ├─ PartlySent               some of several frames failed: receipts and errors
    │  ├─ SendHeldBack             earlier ones of its key are in the outbox
    │  ├─ SendKept                 it is in the outbox, and will be sent later
    │  ├─ TransactionNotBegun      its half message was not stored safely, and dropped
    │  └─ NoReply                  a request was sent, and no reply came in time
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

from orbitmq.errors.base import OrbitError
from orbitmq.errors.brokers import (
    BrokerBusy,
    BrokerError,
    BrokerFailed,
    GroupNotFound,
    InvalidParameter,
    MessageRefused,
    NoPermission,
    NotFound,
    RequestNotSupported,
    ServiceNotAvailable,
    TopicNotFound,
)
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
from orbitmq.errors.life import (
    AlreadyStarted,
    MissingExtra,
    NotRunning,
    OutboxFull,
    ProducerClosed,
    WrongLoop,
    WrongProcess,
)
from orbitmq.errors.network import (
    ConnectFailed,
    ConnectionClosed,
    NameserversFailed,
    NetworkError,
    NoRoute,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.errors.protocol import (
    CompressionFailed,
    CorruptRecord,
    InvalidBody,
    InvalidHeader,
    LocalProtocolError,
    RemoteProtocolError,
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
    SendNameserversFailed,
    SendNoRoute,
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
from orbitmq.errors.stores import DiskFailed, StoreDamaged, StoreError, StoreLocked

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
    "SendNameserversFailed",
    "SendNoRoute",
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
