"""Operations of RocketMQ's own transactional producers; the Java host imports this.

The body of a message says how its transaction ends, in the words of Java's LocalTransactionState:
first what the producer decides itself, then its answers to checks, the last one for all later ones.
``UNKNOW COMMIT_MESSAGE 7`` is left open, committed when it is asked about, and the seventh.
"""

import threading

import jpype

from tests.interop.java_producers import from_result, numbers, producers, to_message
from tests.interop.java_remoting import override
from tests.interop.java_types import HEARTBEAT_MS, Java, java_class
from tests.interop.operations import ProducerOptions, Sending, Sent

State = java_class("LocalTransactionState")

listeners: dict[int, "Listener"] = {}


@jpype.JImplements(java_class("TransactionListener"))
class Listener:
    """Does as the bodies of messages say, and keeps those that it was asked about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.checked: list[bytes] = []

    @override
    def executeLocalTransaction(self, message: Java, _argument: Java) -> Java:  # noqa: N802
        """Return what the producer decides."""
        return getattr(State, words_of(bytes(message.getBody()))[0])

    @override
    def checkLocalTransaction(self, message: Java) -> Java:  # noqa: N802
        """Return the answer to a check."""
        body = bytes(message.getBody())
        with self._lock:
            times = self.checked.count(body)
            self.checked.append(body)
        answers = words_of(body)[1:] or ["UNKNOW"]
        return getattr(State, answers[min(times, len(answers) - 1)])


def words_of(body: bytes) -> list[str]:
    """Return the states that a body names."""
    return [word for word in body.decode().split() if not word.isdigit()]


def open_transaction_producer(options: ProducerOptions) -> int:
    """Start a producer of transactions, a client of its own, and return its number."""
    number = next(numbers)
    listener = Listener()
    producer = java_class("TransactionMQProducer")(options.group)
    producer.setNamesrvAddr(options.nameserver)
    producer.setInstanceName(f"transactions-{number}")
    producer.setSendMsgTimeout(options.timeout_ms)
    producer.setPollNameServerInterval(options.poll_routes_ms)
    producer.setHeartbeatBrokerInterval(HEARTBEAT_MS)
    producer.setTransactionListener(listener)
    producer.start()
    producers[number] = producer
    listeners[number] = listener
    return number


def send_in_transaction(sending: Sending) -> list[Sent]:
    """Send messages, each in a transaction of its own."""
    producer = producers[sending.producer]
    return [
        from_result(producer.sendMessageInTransaction(to_message(one), None))
        for one in sending.messages
    ]


def checked(number: int) -> list[bytes]:
    """Return the bodies that a producer was asked about, in order."""
    listener = listeners[number]
    with listener._lock:
        return list(listener.checked)
