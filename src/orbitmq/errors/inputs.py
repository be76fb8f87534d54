"""Errors of input: an argument, message or setting is invalid, and nothing was done with it."""

import re

from orbitmq.errors.base import OrbitError

__all__ = [
    "InvalidExpression",
    "InvalidGroup",
    "InvalidInput",
    "InvalidKeys",
    "InvalidProperty",
    "InvalidSetting",
    "InvalidTags",
    "InvalidTopic",
    "MessageTooLarge",
    "NoNameserver",
]


class InvalidInput(OrbitError, ValueError):
    """An argument or message is invalid; nothing was sent.

    Attributes:
        field: the name of the argument or message field.
        length: the length of the value, in the unit of the message; None if it is not the problem.
        limit: the largest allowed length; None if there is none.
        code: Java's code for an illegal message.
    """

    code = 13

    def __init__(
        self, message: str, *, field: str, length: int | None = None, limit: int | None = None
    ) -> None:
        shown = length is None or re.search(rf"(?<!\d){length}(?!\d)", message)
        super().__init__(message if shown else f"{message} (length {length})")
        self.field = field
        self.length = length
        self.limit = limit


class InvalidTopic(InvalidInput):
    """A topic name that RocketMQ refuses."""


class InvalidGroup(InvalidInput):
    """A producer or consumer group name that RocketMQ refuses."""


class InvalidTags(InvalidInput):
    """A tag that no subscription could select."""


class InvalidExpression(InvalidInput):
    """A filter expression can't be parsed.

    Attributes:
        position: of the character where it can't be understood, counted from 1.
    """

    def __init__(self, message: str, *, position: int) -> None:
        super().__init__(message, field="expression")
        self.position = position


class InvalidKeys(InvalidInput):
    """A key with a blank, which is the separator of keys."""


class InvalidProperty(InvalidInput):
    """A property has a reserved name, or characters that the property format can't contain."""


class MessageTooLarge(InvalidInput):
    """The body, or all properties together, exceed the limit; see ``length`` and ``limit``."""


class NoNameserver(InvalidInput):
    """No nameserver is configured; the message names the ways to set one."""

    code = 10004


class InvalidSetting(InvalidInput):
    """A setting, or a whole file of settings, is invalid.

    Attributes:
        file: the file; ``--set`` for an argument of a command.
        line: the line in the file; 0 if there is none.
    """

    def __init__(self, message: str, *, file: str, line: int = 0, field: str = "") -> None:
        super().__init__(message, field=field)
        self.file = file
        self.line = line
