"""Errors that a server answered with: one class for each response code that a caller may handle."""

from typing import ClassVar, Final

from orbitmq.errors.base import OrbitError

__all__ = [
    "BrokerBusy",
    "BrokerError",
    "BrokerFailed",
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
