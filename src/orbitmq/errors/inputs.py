"""Errors of input: what the caller gave can't be used, and nothing was done with it."""

import re

from orbitmq.errors.base import OrbitError

__all__ = [
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
    """What the caller gave can't be used; nothing was sent.

    Attributes:
        field: the name of the argument or message field.
        length: the length of the value given, in the unit the message states, if it has one.
        limit: the largest length allowed, if a length is what is wrong.
        code: Java's number for a message that is illegal.

    """

    code = 13

    def __init__(
        self, message: str, *, field: str, length: int | None = None, limit: int | None = None
    ) -> None:
        told = length is None or re.search(rf"(?<!\d){length}(?!\d)", message)
        super().__init__(message if told else f"{message} (length {length})")
        self.field = field
        self.length = length
        self.limit = limit


class InvalidTopic(InvalidInput):
    """A topic name RocketMQ would refuse."""


class InvalidGroup(InvalidInput):
    """A producer or consumer group name RocketMQ would refuse."""


class InvalidTags(InvalidInput):
    """A tag that no subscription could select."""


class InvalidKeys(InvalidInput):
    """Keys that could not be told apart again, since a blank separates them."""


class InvalidProperty(InvalidInput):
    """A property whose name is reserved, or whose text the property format can't hold."""


class MessageTooLarge(InvalidInput):
    """A body, or all properties together, over the limit; see ``length`` and ``limit``."""


class NoNameserver(InvalidInput):
    """Nothing says whom to ask for routes; the message names the ways to set it."""

    code = 10004


class InvalidSetting(InvalidInput):
    """A setting, or a whole file of them, can't be used.

    Attributes:
        file: where it was said; an argument of a command is ``--set``.
        line: the line of the file, 0 if it has none.

    """

    def __init__(self, message: str, *, file: str, line: int = 0, field: str = "") -> None:
        super().__init__(message, field=field)
        self.file = file
        self.line = line
