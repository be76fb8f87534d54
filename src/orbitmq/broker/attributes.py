"""Attributes of topics and groups: which there are, and how operators change them.

A change travels as a text of ``+name=value`` to set and ``-name`` to take away, separated by
commas (``AttributeParser`` and ``AttributeUtil`` in Java)::

    +message.type=FIFO,-cleanup.policy
"""

from collections.abc import Mapping
from reprlib import repr as elided
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput

__all__ = ["GROUP_ATTRIBUTES", "TOPIC_ATTRIBUTES", "Attribute", "change_of", "changed"]

_SET, _REMOVE = "+", "-"


class Attribute(msgspec.Struct, frozen=True):
    """What an attribute may be."""

    values: frozenset[str]
    changeable: bool
    """Whether it may be set, or taken away, after the topic was created."""


TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    # Our store has no batch queues and compacts nothing: what it can't keep can't be asked for.
    "queue.type": Attribute(frozenset({"SimpleCQ"}), changeable=False),
    "cleanup.policy": Attribute(frozenset({"DELETE"}), changeable=False),
    "message.type": Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
        changeable=True,
    ),
}
"""Java has ``reserve.time`` too, and refuses it unless its store is tiered."""

GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}
"""Java has none either."""


def change_of(text: str | None) -> dict[str, str]:
    """Return the change that a text says, each name with its sign.

    >>> change_of("+message.type=FIFO,-queue.type")
    {'+message.type': 'FIFO', '-queue.type': ''}

    Raises:
        InvalidInput: a part is neither ``+name=value`` nor ``-name``, or a name comes twice.

    """
    change: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, separator, value = part.partition("=")
        if not name.startswith(_SET if separator else _REMOVE):
            raise _fault(name, "write +name=value to set it, -name to take it away")
        if name in change:
            raise _fault(name, "it is there twice")
        change[name] = value
    return change


def changed(
    current: Mapping[str, str] | None, change: Mapping[str, str], known: Mapping[str, Attribute]
) -> dict[str, str]:
    """Return the attributes after a change.

    Args:
        current: those before it; None while a topic is being created.
        change: as `change_of` gives it.
        known: the attributes there are.

    Raises:
        InvalidInput: an attribute is unknown, fixed, not there to be taken away, changed twice, or
            its value is not one of those allowed.

    """
    after = dict(current or {})
    seen = set()
    for signed, value in change.items():
        sign, name = signed[:1], signed[1:]
        if name in seen:
            raise _fault(name, "it is there twice")
        seen.add(name)
        attribute = known.get(name)
        if attribute is None:
            raise _fault(name, f"known are {', '.join(sorted(known)) or 'none'}")
        if current is not None and not attribute.changeable:
            raise _fault(name, "it can't be changed once the topic is there")
        if sign == _SET:
            if value not in attribute.values:
                allowed = ", ".join(sorted(attribute.values))
                raise _fault(name, f"{elided(value)} is not one of {allowed}")
            after[name] = value
        elif sign == _REMOVE and name in after:
            del after[name]
        else:
            raise _fault(name, "only what is there can be taken away")
    return after


def _fault(name: str, what: str) -> InvalidInput:
    return InvalidInput(f"attribute {elided(name)}: {what}", field="attributes")
