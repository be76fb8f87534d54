r"""The properties of a half message while it waits, and of the message that it becomes.

::

    sent       …TRAN_MSG\x01true\x02…
    waits      …TRAN_MSG\x01true\x02…  __transactionId__\x01 key \x02
                                       REAL_TOPIC\x01 orders \x02  REAL_QID\x01 3 \x02
    committed  …TRAN_MSG\x01true\x02…  __transactionId__\x01 key \x02

Texts that are usual go from one to the next as bytes. The others are decoded, and changed by all
the rules, in :mod:`orbitmq.broker.sending.half_messages`.
"""

import re
from typing import Final, NamedTuple

from orbitmq.broker.sending.plain.meanings import Meanings, PlainText
from orbitmq.message import properties

__all__ = ["DESTINATION_MAX", "Ended", "HalfTexts", "destination", "ended", "without_mark"]

DESTINATION_MAX: Final = 512
"""What is added to a usual half has fewer bytes."""
_KEY_MAX: Final = 128
_END: Final = properties.VALUE_END.encode()
_END_BYTE: Final = _END[0]
_NAME_END: Final = properties.NAME_END.encode()
_MARK: Final = b"%b%btrue%b" % (properties.TRANSACTION_PREPARED.encode(), _NAME_END, _END)
_ID: Final = properties.TRANSACTION_ID.encode() + _NAME_END
_TOPIC: Final = properties.REAL_TOPIC.encode() + _NAME_END
_QUEUE: Final = properties.REAL_QUEUE_ID.encode() + _NAME_END
_DESTINATION: Final = _ID + b"%b" + _END + _TOPIC + b"%b" + _END + _QUEUE + b"%d" + _END
_BEFORE_TOPIC: Final = _END + _TOPIC
_BEFORE_QUEUE: Final = _END + _QUEUE
_is_not_usual: Final = re.compile(b"REAL_|DEL|" + re.escape(properties.CRC32).encode()).search
"""Finds names that a usual text may not have, besides those that ``ended`` cuts off: a delay begins
with the commit, and may bring other rules."""


class HalfTexts:
    """Reads the property texts of halves; those that need care have no meaning."""

    __slots__ = ("_meanings",)

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings

    def __repr__(self) -> str:
        return f"<HalfTexts, {self._meanings!r}>"

    def read(self, text: bytes) -> PlainText | None:
        """Return a text in its parts, as ``Meanings.read`` does; None if it isn't a usual half."""
        if text[-1] != _END_BYTE:
            text += _END
        rest = without_mark(text)
        found = self._meanings.read(rest) if rest else None
        if found is None or len(found[1]) > _KEY_MAX:
            return None
        _, key, keys, meaning = found
        return text, key, keys, meaning


class Ended(NamedTuple):
    """Where a committed message goes, and its properties there."""

    topic: str
    queue_id: int
    text: bytes


def without_mark(text: bytes) -> bytes | None:
    r"""Return the text of a sent half without what makes it one; None if it isn't a usual half.

    >>> without_mark(b"TAGS\x01paid\x02TRAN_MSG\x01true\x02")
    b'TAGS\x01paid\x02'
    """
    before, found, rest = text.partition(_MARK)
    if not found or (before and before[-1] != _END_BYTE):
        return None
    return None if b"REAL_" in text or _ID in text else before + rest


def destination(unique_key: bytes, topic: str, queue_id: int) -> bytes:
    r"""Return what the broker adds to a half: the name of the transaction, and where it may go.

    >>> destination(b"7F00", "orders", 3)
    b'__transactionId__\x017F00\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02'
    """
    return _DESTINATION % (unique_key, topic.encode(), queue_id)


def ended(text: bytes) -> Ended | None:
    r"""Return where a half goes that is committed; None if its text isn't usual.

    >>> ended(b"TAGS\x01paid\x02" + destination(b"7F00", "orders", 3))
    Ended(topic='orders', queue_id=3, text=b'TAGS\x01paid\x02__transactionId__\x017F00\x02')
    >>> ended(b"DELAY\x013\x02" + destination(b"7F00", "orders", 3)) is None
    True
    """
    before, _, rest = text.rpartition(_BEFORE_TOPIC)
    topic, _, number = rest.partition(_BEFORE_QUEUE)
    if not number.endswith(_END) or not number[:-1].isdigit() or len(number) > 10:
        return None
    if not before or not topic or _END in topic or _is_not_usual(before):
        return None
    return Ended(topic.decode(errors="replace"), int(number[:-1]), before + _END)
