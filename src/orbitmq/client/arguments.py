"""Arguments of a call, checked before anything is done with them: what is wrong, and what to give.

Only what was given is looked at, so that a plain send pays for none of it.
"""

from collections.abc import Iterable, Sequence

from orbitmq.client.field_types import shown, whole_or_none
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.properties import check_utf8
from orbitmq.wire.fields import INT32_MAX

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
]


def check_timeout_ms(given: object) -> None:
    """Check the time of a call. One that is over already, 0 or less, is left to end as a timeout.

    Whole numbers of other types, such as numpy's, will do; a float won't, since times may travel.

    >>> check_timeout_ms(3_000)
    >>> check_timeout_ms("3")
    Traceback (most recent call last):
    orbitmq.errors.InvalidInput: timeout_ms is '3'; it must be a whole number of milliseconds up \
to 2147483647, or left out

    Raises:
        InvalidInput: it is no whole number, or larger than one that travels.

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


def check_text(given: object, field: str) -> None:
    """Check that a name, key or id is a text that can travel.

    Raises:
        InvalidInput: it is something else, or has half a pair of surrogates.

    """
    if not isinstance(given, str):
        raise InvalidInput(f"{field} is {shown(given)}; it must be a text", field=field)
    check_utf8(given, field, field=field, error=InvalidInput)


def check_queue(given: object, field: str = "queue") -> None:
    """Check that a queue is one.

    Raises:
        InvalidInput: it is something else.

    """
    if not isinstance(given, MessageQueue):
        raise InvalidInput(
            f"{field} is {shown(given)}; it must be a MessageQueue, such as producer.queues(topic) "
            "returns",
            field=field,
        )


def check_queue_topic(queue: MessageQueue, topic: str) -> None:
    """Check that a queue is one of the topic that a message is for.

    Raises:
        InvalidInput: it is one of another.

    """
    if queue.topic != topic:
        raise InvalidInput(
            f"queue is one of {queue.topic}, and the message is for {topic}", field="queue"
        )


def check_queues(given: object, count: int) -> None:
    """Check a list that says where each of so many messages goes; None in it leaves that open.

    Raises:
        InvalidInput: it is no such list, or one of another length.

    """
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
            f"queues says where {len(given)} messages go, and there are {count}", field="queues"
        )


def check_selector(given: object) -> None:
    """Check that a selector can be called; a text is none.

    Raises:
        InvalidInput: it can't be called.

    """
    if not callable(given):
        key = f"; to go by a key, give sharding_key={shown(given)}" if type(given) is str else ""
        raise InvalidInput(
            f"selector is {shown(given)}; it must be a function from queues and message to one of "
            "the queues: your own, or one that by_hash, by_random, by_machine_room or "
            f"orbitmq.ConsistentHash makes{key}",
            field="selector",
        )


def listed(messages: Iterable[Message]) -> list[Message]:
    """Return messages as a list; what each of them is, others check.

    Raises:
        InvalidInput: there is one alone, or none at all.

    """
    given: object = messages
    if not isinstance(given, Iterable):
        hint = "; send() takes a single message" if isinstance(given, Message) else ""
        raise InvalidInput(
            f"messages is {shown(given)}; it must be a list of messages{hint}", field="messages"
        )
    return list(messages)


def check_methods(given: object, field: str, methods: Sequence[str], base: str) -> None:
    """Check that an object has the methods that it will be asked for.

    Args:
        given: the object.
        field: the name of the argument.
        methods: their names.
        base: the class to derive it from, or that shows how it is made.

    Raises:
        InvalidInput: it is a class, or lacks one of them.

    """
    what = ", ".join(methods)
    if isinstance(given, type):
        raise InvalidInput(
            f"{field} is the class {given.__name__[:60]}; give an object of it", field=field
        )
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise InvalidInput(
            f"{field} is {shown(given)}, which lacks {', '.join(missing)}; it must be an object "
            f"with the methods {what}: see {base}",
            field=field,
        )


def check_listener(given: object) -> None:
    """Check what decides about transactions: a function, or an object that does both.

    Raises:
        InvalidInput: it is neither.

    """
    if isinstance(given, type) or not (given is None or callable(given)):
        base = "orbitmq.TransactionListener, or give a function that checks"
        check_methods(given, "transaction_listener", ("execute", "check"), base)
