"""The properties that are stored with a message: those of the producer and those of the broker.

Most texts only need the broker's properties appended; ``plain/meanings.py`` recognizes them. The
others are decoded, changed by Java's rules, and encoded again.
"""

from collections.abc import Mapping
from typing import Final

from orbitmq.broker.settings import BrokerSettings
from orbitmq.message import properties
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode

__all__ = [
    "TIMERS",
    "asks_for_timer",
    "delay_level",
    "is_plain",
    "own_properties",
    "read",
    "schedule",
]

_NEVER_STORED: Final = (properties.POP_CHECKPOINT, properties.CRC32)
# Only the broker assigns offsets in light queues; a client could write anywhere with its own.
_NOT_FOR_CLIENTS: Final = (properties.INNER_MULTI_QUEUE_OFFSET,)
TIMERS: Final = (
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELAY_MS,
    properties.TIMER_DELIVER_MS,
)


def own_properties(settings: BrokerSettings) -> dict[str, str]:
    """Return the properties that a broker adds to every message outside a batch.

    >>> own_properties(BrokerSettings())
    {'MSG_REGION': 'DefaultRegion', 'TRACE_ON': 'true', 'CLUSTER': 'DefaultCluster'}
    """
    return {
        properties.REGION: settings.region_id,
        properties.TRACE_ON: "true" if settings.trace_on else "false",
        properties.CLUSTER: settings.broker_cluster_name,
    }


def is_plain(text: str) -> bool:
    r"""Return whether a text has no property that changes what happens to a message.

    It doesn't ask for a delay, a timer, a transaction or a priority, waits for the disk, and has no
    property that only brokers set. A word such as DELAY in a value only costs time. The sender's
    own region or cluster may stay in the text: the later of two values counts, the broker's.

    >>> is_plain("WAIT\x01true\x02TAGS\x01paid\x02"), is_plain("DELAY\x013\x02")
    (True, False)
    """
    return not (
        "DEL" in text  # DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS
        or "TRA" in text  # TRAN_MSG, and TRACE_ON, which a broker has added before
        or "\x01false" in text  # WAIT
        or "INNER_" in text
        or "POP_CK" in text
        or "__CRC32#" in text
        or properties.PRIORITY in text
    )


def read(text: str) -> dict[str, str]:
    """Return the properties that a producer sent, without those that only brokers set."""
    found = properties.decode(text.encode())
    for name in (*_NEVER_STORED, *_NOT_FOR_CLIENTS):
        found.pop(name, None)
    return found


def delay_level(found: Mapping[str, str], levels: int) -> int:
    """Return the delay level of a message, at most ``levels``; 0 for none.

    Refuse one that is not a number.

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
    """Note the destination of a delayed message in its properties; return the queue it waits in.

    >>> found = {"DELAY": "99", "TIMER_DELAY_MS": "5"}
    >>> schedule(found, 18, "orders", 2)
    ('SCHEDULE_TOPIC_XXXX', 17)
    >>> found
    {'DELAY': '18', 'REAL_TOPIC': 'orders', 'REAL_QID': '2'}
    """
    for name in TIMERS:  # a level takes precedence (Java's HookUtils.checkIfTimerMessage)
        found.pop(name, None)
    found[properties.DELAY] = str(level)
    found[properties.REAL_TOPIC] = topic
    found[properties.REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1


def asks_for_timer(found: Mapping[str, str]) -> bool:
    """Return whether a message without a delay level asks for a delivery time."""
    return properties.TIMER_OUT_MS not in found and any(name in found for name in TIMERS)
