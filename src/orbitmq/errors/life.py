"""Errors of use: an object in the wrong state, loop or process, or a missing package."""

from orbitmq.errors.base import OrbitError

__all__ = [
    "AlreadyStarted",
    "MissingExtra",
    "NotAssigned",
    "NotRunning",
    "OutboxFull",
    "ProducerClosed",
    "WrongLoop",
    "WrongProcess",
]


class OutboxFull(OrbitError):
    """The file of unsent messages has reached its limit; the message was not kept.

    Attributes:
        path: the file.
    """

    retriable = True

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class AlreadyStarted(OrbitError):
    """An object was started twice; create a new one.

    Attributes:
        state: its current state.
    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class NotRunning(OrbitError):
    """A producer was used that is not running.

    Attributes:
        state: its current state.
    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class ProducerClosed(NotRunning):
    """The producer is closed; create a new one."""


class NotAssigned(OrbitError):
    """A consumer was asked about a queue that it does not read, or no longer.

    Attributes:
        queue: the queue.
    """

    def __init__(self, message: str, *, queue: str) -> None:
        super().__init__(message)
        self.queue = queue


class WrongLoop(OrbitError):
    """An object of one event loop was used on another; create one per loop."""


class WrongProcess(OrbitError):
    """An object from before a fork was used in the child; create a new one there."""


class MissingExtra(OrbitError, ImportError):
    """An optional package is missing; the message has the command that installs it."""

    def __init__(self, purpose: str, *, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra package: pip install 'orbitmq[{extra}]'")
        self.extra = extra
