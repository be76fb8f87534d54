"""Error answers of servers: one class for each response code that a caller may handle."""

from typing import ClassVar, Final

from orbitmq.errors.base import OrbitError

__all__ = [
    "BrokerBusy",
    "BrokerError",
    "BrokerFailed",
    "ConsumerNotOnline",
    "GroupNotFound",
    "InvalidParameter",
    "MessageRefused",
    "NoPermission",
    "NotFound",
    "RequestNotSupported",
    "ServiceNotAvailable",
    "TopicNotFound",
]


_ACL_EXCEPTION: Final = "org.apache.rocketmq.acl."


class BrokerError(OrbitError):
    r"""A server answered with an error code, or several answers together amount to one.

    Attributes:
        code: RocketMQ's response code.
        remark: the text of the answer.
        address: the server, as ``host:port``; empty: the remark says what several answered.

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
        text = " ".join((remark or "(no remark)").splitlines())  # Java's have several lines
        is_ours = remark is not None and not address  # what the client concludes, as a sentence
        super().__init__(text if is_ours else f"{address or 'the server'} answered {code}: {text}")
        self.code = code
        self.remark = remark
        self.address = address

    @classmethod
    def of(cls, code: int, remark: str | None, *, address: str = "") -> "BrokerError":
        """Return an error of the class for ``code``; of this class if there is none.

        The access control of 4.x answers with code 1 and the name of Java's exception; that is a
        ``NoPermission`` too, and keeps its code.
        """
        kind = BrokerError.by_code.get(code, BrokerError)
        if kind is BrokerFailed and remark is not None and remark.startswith(_ACL_EXCEPTION):
            kind = NoPermission
        return kind(code, remark, address=address)


class BrokerFailed(BrokerError):
    """The server failed while it processed the request; see the remark."""

    default_code = 1
    retriable = True


class BrokerBusy(BrokerError):
    """The server is too busy: a queue is full, the request waited too long, or the disk is slow."""

    default_code = 2
    retriable = True


class RequestNotSupported(BrokerError):
    """The server doesn't know this request code."""

    default_code = 3


class MessageRefused(BrokerError):
    """The message is illegal for the broker: too large, or too many properties."""

    default_code = 13


class ServiceNotAvailable(BrokerError):
    """The broker can't write now: it is a slave, is shutting down, or its disk is full."""

    default_code = 14
    retriable = True
    refresh_route = True


class NoPermission(BrokerError):
    """The topic, group or user lacks the permission."""

    default_code = 16
    retriable = True
    refresh_route = True


class TopicNotFound(BrokerError):
    """The server does not have the topic, and may not create it."""

    default_code = 17
    retriable = True
    refresh_route = True


class NotFound(BrokerError):
    """The query found nothing."""

    default_code = 22


class GroupNotFound(BrokerError):
    """The broker does not have the subscription group."""

    default_code = 26


class InvalidParameter(BrokerError):
    """The broker refused a parameter of the request; the remark names it."""

    default_code = 29


class ConsumerNotOnline(BrokerError):
    """No consumer of the group, or not the one that was named, is connected."""

    default_code = 206
