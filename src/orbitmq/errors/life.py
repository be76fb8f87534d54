"""Errors of use: an object in the wrong state, loop or process, or without its package."""

from orbitmq.errors.base import OrbitError

__all__ = [
    "AlreadyStarted",
    "MissingExtra",
    "NotRunning",
    "OutboxFull",
    "ProducerClosed",
    "WrongLoop",
    "WrongProcess",
]


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
