"""Checks of the arguments of calls; each raises InvalidInput with what is wrong and what to give.

Only arguments that were given are checked, so a plain send does not pay for it.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from orbitmq.client.field_types import shown, whole_or_none
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.properties import check_utf8
from orbitmq.wire.fields import INT32_MAX, INT64_MAX

__all__ = [
    "check_listener",
    "check_methods",
    "check_queue",
    "check_queue_topic",
    "check_queues",
    "check_selector",
    "check_text",
    "check_timeout_ms",
    "listed",
    "time_ms",
]


def check_timeout_ms(given: object) -> None:
    """Check a timeout: an integer of any type, such as numpy's, but not a float.

    One of 0 or less is accepted; such a call times out.

    >>> check_timeout_ms(3_000)
    >>> check_timeout_ms("3")
    Traceback (most recent call last):
    orbitmq.errors.InvalidInput: timeout_ms is '3'; it must be a whole number of milliseconds up \
to 2147483647, or left out
    """
    if given is None:
        return
    number = whole_or_none(given)
    if number is None or number > INT32_MAX:
        hint = "; write int(…) around it" if isinstance(given, float) and given.is_integer() else ""
        raise InvalidInput(
            f"timeout_ms is {shown(given)}; it must be a whole number of milliseconds up to "
            f"{INT32_MAX}, or left out{hint}",
            field="timeout_ms",
        )


def time_ms(given: object, field: str) -> int:
    """Return a time in milliseconds since 1970: such a number, or a datetime with a time zone.

    >>> time_ms(datetime.fromisoformat("2026-01-31T12:00:00+00:00"), "when")
    1769860800000
    """
    if isinstance(given, datetime) and given.utcoffset() is not None:
        return int(given.timestamp() * 1_000)
    number = whole_or_none(given)
    if number is None or not 0 <= number <= INT64_MAX:
        raise InvalidInput(
            f"{field} is {shown(given)}; it must be a datetime with a time zone, or a whole number "
            "of milliseconds since 1970",
            field=field,
        )
    return number


def check_text(given: object, field: str) -> None:
    """Check that a name, key or id is a text that can be encoded as UTF-8."""
    if not isinstance(given, str):
        raise InvalidInput(f"{field} is {shown(given)}; it must be a text", field=field)
    check_utf8(given, field, field=field, error=InvalidInput)


def check_queue(given: object, field: str = "queue") -> None:
    """Check that an argument is a MessageQueue."""
    if not isinstance(given, MessageQueue):
        raise InvalidInput(
            f"{field} is {shown(given)}; it must be a MessageQueue, such as one of "
            "producer.queues(topic)",
            field=field,
        )


def check_queue_topic(queue: MessageQueue, topic: str) -> None:
    """Check that a queue belongs to the topic of the message."""
    if queue.topic != topic:
        raise InvalidInput(
            f"queue belongs to topic {queue.topic}, and the message to {topic}", field="queue"
        )


def check_queues(given: object, count: int) -> None:
    """Check a list with the queue of each message, or None; ``count`` is the number of messages."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidInput(
            f"queues is {shown(given)}; it must be a list with a MessageQueue or None for each "
            "message",
            field="queues",
        )
    for queue in given:
        if queue is not None:
            check_queue(queue, "queues")
    if len(given) != count:
        raise InvalidInput(
            f"queues has {len(given)} entries for {count} messages; give one for each message",
            field="queues",
        )


def check_selector(given: object) -> None:
    """Check that a selector can be called."""
    if not callable(given):
        key = f"; to choose by key, give sharding_key={shown(given)}" if type(given) is str else ""
        raise InvalidInput(
            f"selector is {shown(given)}; it must be a function that gets queues and a message and "
            "returns one of the queues: your own, or one of by_hash, by_random, by_machine_room or "
            f"orbitmq.ConsistentHash{key}",
            field="selector",
        )


def listed(messages: Iterable[Message]) -> list[Message]:
    """Return an iterable of messages as a list, without checking its elements."""
    given: object = messages
    if not isinstance(given, Iterable):
        hint = "; send() takes a single message" if isinstance(given, Message) else ""
        raise InvalidInput(
            f"messages is {shown(given)}; it must be a list of messages{hint}", field="messages"
        )
    return list(messages)


def check_methods(given: object, field: str, methods: Sequence[str], base: str) -> None:
    """Check that an argument is an object with certain methods; the error refers to ``base``."""
    what = ", ".join(methods)
    if isinstance(given, type):
        raise InvalidInput(
            f"{field} is the class {given.__name__[:60]}; give an instance of it", field=field
        )
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise InvalidInput(
            f"{field} is {shown(given)}, without {', '.join(missing)}; it must be an object with "
            f"the methods {what}: see {base}",
            field=field,
        )


def check_listener(given: object) -> None:
    """Check a transaction listener: a check function, or an object for local work and checks."""
    if isinstance(given, type) or not (given is None or callable(given)):
        base = "orbitmq.TransactionListener, or give a check function"
        check_methods(given, "transaction_listener", ("execute", "check"), base)
