"""Every error orbitmq raises, in one tree.

The class says what went wrong and what to do next: ``retriable`` (the same call may succeed later,
or on another broker) and ``refresh_route`` (ask the nameserver again first). Values that programs
may need are attributes, so that none has to parse a message::

    OrbitError
    ├─ InvalidInput                an argument or message is invalid: field, limit, length
    │  ├─ InvalidTopic, InvalidGroup
    │  ├─ InvalidTags, InvalidKeys, InvalidProperty
    │  ├─ InvalidExpression        a filter expression can't be parsed: position
    │  ├─ MessageTooLarge
    │  ├─ NoNameserver             no nameserver is configured: the ways to set one
    │  ├─ InvalidSetting           a setting is invalid: file, line, field
    │  ├─ InvalidColumn            a column of a data frame is invalid: field
    │  └─ InvalidOption            an option of a read or write is invalid: field
    │     ├─ UnknownOption         there is no option of that name: nearest
    │     └─ InvalidOffsets        offsets are unreadable, or of unknown queues: position
    ├─ LocalProtocolError          a value does not fit the format it has to be written in
    ├─ RemoteProtocolError         the peer's bytes violate the protocol: position
    │  ├─ InvalidHeader            a header field is missing or unreadable: field
    │  └─ InvalidBody              a body does not have the format of its request or answer
    ├─ CorruptRecord               bytes that should be a stored message are not one: position
    │  └─ CompressionFailed        a body can't be decompressed, or would be too large
    ├─ StoreError                  a store directory can't be used: path
    │  ├─ StoreLocked              another process uses it: pid
    │  ├─ StoreDamaged             its files contradict each other: path, position
    │  └─ DiskFailed               a file call failed: path, errno
    ├─ LogsDiverged                primary and replica have different logs: own, other
    ├─ NetworkError                retriable
    │  ├─ ConnectFailed            the connection was refused, or the handshake failed
    │  ├─ ConnectionClosed         the connection was closed before the answer came
    │  ├─ ConsensusFailed          the store that elections stand on did not answer
    │  ├─ RequestTimeout           no answer in time; the request may have been carried out
    │  └─ NameserversFailed        no nameserver answered: the result of each request
    ├─ NoRoute                     retriable: no queue of the topic: the nameservers' answers
    ├─ TooManyRequests             retriable: the limit of requests in flight is reached
    ├─ SendFailed                  a send failed: topic, attempts, whether it may be stored
    │  ├─ SendTimeout              it timed out: where the time went
    │  │  └─ BackPressure          it timed out while the in-flight limit was reached
    │  ├─ SendUnreachable          no broker could be reached
    │  ├─ SendNoRoute              also a NoRoute: no queue of the topic to write to
    │  ├─ SendNameserversFailed    also a NameserversFailed: no nameserver answered
    │  ├─ SendRefused              the brokers answered with error codes: code, remark
    │  │  ├─ SendRefusedBusy       they were too busy: see the remark
    │  │  ├─ SendUnauthorised      topic, group or user lacks the permission
    │  │  └─ SendIllegal           the message is illegal for them, such as too large
    │  ├─ SendForbidden            a hook of the application forbade it
    │  ├─ NotDurable               stored, but less safely than required: the receipt
    │  ├─ PartlySent               some of several frames failed: receipts and errors
    │  ├─ SendHeldBack             older messages of its key are in the outbox
    │  ├─ SendKept                 it is safe in the outbox, and will be sent later
    │  ├─ TransactionNotBegun      its half message was stored less safely than asked, and dropped
    │  └─ NoReply                  a request was sent, and no reply came in time
    ├─ RowsRejected                rows of a write can't be messages: partition, rows
    ├─ DataLost                    messages to be read are gone: queue, wanted, available
    ├─ LocationInUse               retriable: another run works on the directory: place, owner
    ├─ LocationDamaged             a file of an archive or a ledger is unreadable: place
    ├─ LedgerDamaged               a file of a ledger can't be used: path
    ├─ CommitTooLate               a transactional write took too long: write
    ├─ CommitIncomplete            it is decided, but not all delivered: write, left
    ├─ OutboxFull                  retriable: the file of unsent messages reached its limit
    ├─ NotRunning                  a producer is not started, or its start failed: state
    │  └─ ProducerClosed           it is closed
    ├─ NotAssigned                 a consumer does not read the queue, or no longer: queue
    ├─ AlreadyStarted              an object was started twice: state
    ├─ WrongLoop                   an object of one event loop was used on another
    ├─ WrongProcess                an object of the parent process was used after a fork
    ├─ MissingExtra                an optional package is missing: which one to install
    ├─ JavaNotFound                a session needs a newer JVM: least
    ├─ SparkTooOld                 this release can't read streams: least
    ├─ WorkerPythonFailed          a session's python can't load orbitmq: python
    └─ BrokerError                 a server answered with an error code: code, remark, address
       ├─ BrokerFailed 1, BrokerBusy 2, RequestNotSupported 3, MessageRefused 13
       ├─ ServiceNotAvailable 14, NoPermission 16, TopicNotFound 17, NotFound 22
       └─ GroupNotFound 26, InvalidParameter 29, ConsumerNotOnline 206
"""

from orbitmq.errors.base import OrbitError
from orbitmq.errors.brokers import (
    BrokerBusy,
    BrokerError,
    BrokerFailed,
    ConsumerNotOnline,
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
    InvalidExpression,
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
    NotAssigned,
    NotRunning,
    OutboxFull,
    ProducerClosed,
    WrongLoop,
    WrongProcess,
)
from orbitmq.errors.network import (
    ConnectFailed,
    ConnectionClosed,
    ConsensusFailed,
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
    CommitIncomplete,
    CommitTooLate,
    DataLost,
    InvalidColumn,
    InvalidOffsets,
    InvalidOption,
    JavaNotFound,
    LedgerDamaged,
    LocationDamaged,
    LocationInUse,
    RowsRejected,
    SparkTooOld,
    UnknownOption,
    WorkerPythonFailed,
)
from orbitmq.errors.stores import (
    DiskFailed,
    LogsDiverged,
    StoreDamaged,
    StoreError,
    StoreLocked,
)

__all__ = [
    "AlreadyStarted",
    "BackPressure",
    "BrokerBusy",
    "BrokerError",
    "BrokerFailed",
    "CommitIncomplete",
    "CommitTooLate",
    "CompressionFailed",
    "ConnectFailed",
    "ConnectionClosed",
    "ConsensusFailed",
    "ConsumerNotOnline",
    "CorruptRecord",
    "DataLost",
    "DiskFailed",
    "GroupNotFound",
    "InvalidBody",
    "InvalidColumn",
    "InvalidExpression",
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
    "LedgerDamaged",
    "LocalProtocolError",
    "LocationDamaged",
    "LocationInUse",
    "LogsDiverged",
    "MessageRefused",
    "MessageTooLarge",
    "MissingExtra",
    "NameserversFailed",
    "NetworkError",
    "NoNameserver",
    "NoPermission",
    "NoReply",
    "NoRoute",
    "NotAssigned",
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
    "WorkerPythonFailed",
    "WrongLoop",
    "WrongProcess",
]
