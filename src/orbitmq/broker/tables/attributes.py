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
_HOW_TO_WRITE: Final = "write +name=value to set it, -name to take it away"
_SHOWN_MAX: Final = 256
"""Characters of Java's words; it shows names of any length."""


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
            java = "add/alter" if separator else "delete"
            raise _fault(f"{java} attribute format is wrong: {name}", name, _HOW_TO_WRITE)
        if name in change:
            raise _fault(f"key duplication: {name}", name, "it is there twice")
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
    _check_words(current, change)
    after = dict(current or {})
    for signed, value in change.items():
        sign, name = signed[:1], signed[1:]
        attribute = known.get(name)
        if attribute is None:
            what = f"known are {', '.join(sorted(known)) or 'none'}"
            raise _fault(f"unsupported key: {name}", name, what)
        if current is not None and not attribute.changeable:
            java = f"attempt to update an unchangeable attribute. key: {name}"
            raise _fault(java, name, "it can't be changed once the topic is there")
        if sign == _REMOVE:
            del after[name]
        elif value in attribute.values:
            after[name] = value
        else:
            allowed = ", ".join(sorted(attribute.values))
            what = f"{elided(value)} is not one of {allowed}"
            raise _fault(f"value is not in set: [{allowed}]", name, what)
    return after


def _check_words(current: Mapping[str, str] | None, change: Mapping[str, str]) -> None:
    """Check what can be told without knowing the attributes, which Java does first."""
    seen = set()
    for signed in change:
        sign, name = signed[:1], signed[1:]
        if not name or _SET in name or _REMOVE in name:
            raise _fault("kv string format wrong.", name, _HOW_TO_WRITE)
        if name in seen:
            raise _fault(f"alter duplication key. key: {name}", name, "it is there twice")
        seen.add(name)
        if sign == _SET:
            continue
        what = "only what is there can be taken away" if sign == _REMOVE else _HOW_TO_WRITE
        if current is None:
            java = f"only add attribute is supported while creating topic. key: {name}"
            raise _fault(java, name, what)
        if sign != _REMOVE:
            raise _fault(f"wrong format key: {name}", name, what)
        if name not in current:
            raise _fault(f"attempt to delete a nonexistent key: {name}", name, what)


def _fault(java: str, name: str, what: str) -> InvalidInput:
    """Return an error that begins with Java's words, which its admin tools show."""
    shown = java if len(java) <= _SHOWN_MAX else f"{java[:_SHOWN_MAX]}..."
    return InvalidInput(f"{shown}; attribute {elided(name)}: {what}", field="attributes")
