"""The properties of a message between a producer and the log: what a broker reads, adds and drops.

Most texts need no more than the broker's own properties behind them, and a look at a hundred
characters tells which do: :func:`plain_key` is on the way of every send. The others are read,
changed by Java's rules, and written again.
"""

from collections.abc import Mapping
from typing import Final

from orbitmq.broker.settings import BrokerSettings
from orbitmq.message import properties
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode

__all__ = [
    "asks_for_timer",
    "delay_level",
    "own_properties",
    "plain_key",
    "read",
    "schedule",
    "write",
]

_KEY_OPENING: Final = f"{properties.UNIQUE_KEY}{properties.NAME_END}"
_KEY_SIZE: Final = len(_KEY_OPENING)

_NEVER_STORED: Final = (properties.POP_CHECKPOINT, properties.CRC32)
# Offsets in light queues are the broker's to give; whoever named his own could write anywhere.
_NOT_FOR_CLIENTS: Final = (properties.INNER_MULTI_QUEUE_OFFSET,)
_TIMERS: Final = (
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELAY_MS,
    properties.TIMER_DELIVER_MS,
)


def own_properties(settings: BrokerSettings) -> dict[str, str]:
    """Return what a broker adds to every message that is not part of a batch.

    >>> own_properties(BrokerSettings())
    {'MSG_REGION': 'DefaultRegion', 'TRACE_ON': 'true', 'CLUSTER': 'DefaultCluster'}
    """
    return {
        properties.REGION: settings.region_id,
        properties.TRACE_ON: "true" if settings.trace_on else "false",
        properties.CLUSTER: settings.broker_cluster_name,
    }


def plain_key(text: str) -> str | None:
    r"""Return the unique key of properties that the broker's own may simply be put behind.

    None means that the text has to be read: it may lack a key, ask for a delay, a timer or a
    transaction, not wait for the disk, or bring properties that are the broker's to give. A word
    such as DELAY in a value costs time, and changes nothing. A region or cluster of the sender's
    own stays in the text: of two values the later counts, which is the broker's.

    >>> plain_key("UNIQ_KEY\x017F0000010001\x02WAIT\x01true\x02TAGS\x01paid\x02")
    '7F0000010001'
    >>> plain_key("UNIQ_KEY\x017F0000010001\x02DELAY\x013\x02") is None
    True
    """
    if (
        "DEL" in text  # DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS
        or "TRA" in text  # TRAN_MSG, and TRACE_ON, which says that a broker had it before
        or "\x01false" in text  # WAIT
        or "INNER_" in text
        or "POP_CK" in text
        or "__CRC32#" in text
    ):
        return None
    at = text.rfind(_KEY_OPENING)
    if at < 0 or text[-1] != "\x02" or (at and text[at - 1] != "\x02"):
        return None
    return text[at + _KEY_SIZE : text.find("\x02", at)] or None


def read(text: str) -> dict[str, str]:
    """Return the properties that a producer sent, without those that it can't give."""
    found = properties.decode(text.encode())
    for name in (*_NEVER_STORED, *_NOT_FOR_CLIENTS):
        found.pop(name, None)
    return found


def write(found: Mapping[str, str]) -> bytes:
    r"""Return properties that came from a peer as the text that is stored.

    Unlike ``properties.encode`` it takes what ``properties.decode`` gave, whatever that is; the
    store looks at the size.

    >>> write({"TAGS": "paid"})
    b'TAGS\x01paid\x02'
    """
    return "".join([f"{name}\x01{value}\x02" for name, value in found.items()]).encode()


def delay_level(found: Mapping[str, str], levels: int) -> int:
    """Return the delay level that a message asks for, at most the highest; 0 for none.

    Raises:
        Refusal: it is not a number.

    >>> delay_level({"DELAY": "3"}, 18), delay_level({"DELAY": "99"}, 18), delay_level({}, 18)
    (3, 18, 0)

    """
    text = found.get(properties.DELAY)
    if text is None:
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: DELAY is {text[:20]!r}, not a level from 1 to {levels}",
        )
    return max(0, min(int(text), levels))


def schedule(found: dict[str, str], level: int, topic: str, queue_id: int) -> tuple[str, int]:
    """Note in the properties where a delayed message goes in the end; return where it waits.

    >>> found = {"DELAY": "99", "TIMER_DELAY_MS": "5"}
    >>> schedule(found, 18, "orders", 2)
    ('SCHEDULE_TOPIC_XXXX', 17)
    >>> found
    {'DELAY': '18', 'REAL_TOPIC': 'orders', 'REAL_QID': '2'}
    """
    for name in _TIMERS:  # a level counts for more (Java's HookUtils.checkIfTimerMessage)
        found.pop(name, None)
    found[properties.DELAY] = str(level)
    found[properties.REAL_TOPIC] = topic
    found[properties.REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1


def asks_for_timer(found: Mapping[str, str]) -> bool:
    """Return whether a message without a delay level wants to be delivered at its own time."""
    return properties.TIMER_OUT_MS not in found and any(name in found for name in _TIMERS)
