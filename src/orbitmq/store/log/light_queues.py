"""Light queues (LMQ, multi-dispatch): a message is also in the queues that its producer names.

::

    record of orders/2   INNER_MULTI_DISPATCH       %LMQ%alice,%LMQ%bob     by the producer
                         INNER_MULTI_QUEUE_OFFSET   7,0                     added when it is stored
            │
            └─▶ entries in orders/2, in %LMQ%alice/0 at offset 7, in %LMQ%bob/0 at offset 0

A light queue has no settings and is created by its first message, so there may be thousands. The
offsets are in the record, so that a recovery finds the same entries (``store/dispatch.py``).
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from orbitmq.errors import LocalProtocolError
from orbitmq.message import properties
from orbitmq.message.names import LMQ_PREFIX, is_lmq, is_retry_topic, is_system_topic
from orbitmq.store.layout import is_directory_name
from orbitmq.store.log.append import Incoming

__all__ = ["light_queues_of", "numbered", "unnumbered"]

_NAMES: Final = properties.INNER_MULTI_DISPATCH
_OFFSETS: Final = properties.INNER_MULTI_QUEUE_OFFSET
_RAW_NAMES: Final = _NAMES.encode()
_SHOWN_MAX: Final = 100


def numbered(message: Incoming, take_offset: Callable[[str], int]) -> Incoming:
    """Return a message with its offset in each light queue that it names.

    ``take_offset`` returns the next offset of a light queue. Raise LocalProtocolError, before any
    offset is taken, if a queue can't exist or is named twice.
    """
    if _RAW_NAMES not in message.properties or not _may_name(message.topic):
        return message
    found = properties.decode(message.properties)
    names = light_queues_of(found.get(_NAMES, ""))
    if not names:
        return message
    offsets = [str(take_offset(name)) for name in names]
    found[_OFFSETS] = ",".join(offsets)
    found.pop(properties.WAIT, None)  # as in Java
    return replace(message, properties=properties.join(found))


def unnumbered(message: Incoming) -> Incoming:
    """Return a message without the offsets of an earlier delivery: it is in no light queue."""
    found = properties.decode(message.properties)
    found.pop(_OFFSETS, None)
    return replace(message, properties=properties.join(found))


def light_queues_of(text: str) -> Sequence[str]:
    """Return the light queues that a text names; raise LocalProtocolError if one can't exist.

    Java's broker stops dispatching at a name that is not one of a light queue, and gives wrong
    offsets if one is there twice.

    >>> light_queues_of("%LMQ%alice,%LMQ%bob,")
    ['%LMQ%alice', '%LMQ%bob']
    """
    names = text.rstrip(",").split(",") if text.strip() else []
    earlier: set[str] = set()
    for name in names:
        if not is_lmq(name) or not is_directory_name(name) or name in earlier:
            raise LocalProtocolError(
                f"{_NAMES} has {name[:_SHOWN_MAX]!r}; the name of a light queue begins with "
                f"{LMQ_PREFIX}, has up to 255 bytes and no /, and is there once"
            )
        earlier.add(name)
    return names


def _may_name(topic: str) -> bool:
    """Return whether messages of a topic may be in light queues.

    Those of the broker's own topics are delivered later, or again, and get their offsets then.
    """
    return not is_retry_topic(topic) and not is_system_topic(topic)
