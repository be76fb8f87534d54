"""Attributes of topics and groups, and how operators change them.

A change is a text of ``+name=value`` to set and ``-name`` to remove, separated by commas
(``AttributeParser`` and ``AttributeUtil`` in Java)::

    +message.type=FIFO,-cleanup.policy
"""

from collections.abc import Mapping
from reprlib import repr as elided
from typing import Final

import msgspec

from orbitmq.errors import InvalidInput

__all__ = ["GROUP_ATTRIBUTES", "TOPIC_ATTRIBUTES", "Attribute", "change_of", "changed"]

_SET, _REMOVE = "+", "-"
_HOW_TO_WRITE: Final = "write +name=value to set it, -name to remove it"
_SHOWN_MAX: Final = 256
"""Characters shown of Java's remark, which has names of any length."""


class Attribute(msgspec.Struct, frozen=True):
    """The allowed values of an attribute."""

    values: frozenset[str]
    changeable: bool
    """Whether it may be set or removed after the topic was created."""


TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(frozenset({"SimpleCQ", "BatchCQ"}), changeable=False),
    # Our store has no compaction.
    "cleanup.policy": Attribute(frozenset({"DELETE"}), changeable=False),
    "message.type": Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"}),
        changeable=True,
    ),
}
"""Java also has ``reserve.time``, and refuses it unless its store is tiered."""

GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}
"""Java has none either."""


def change_of(text: str | None) -> dict[str, str]:
    """Parse a change, made of ``+name=value`` and ``-name``; each name keeps its sign.

    Raise InvalidInput if a part is neither, or a name comes twice.

    >>> change_of("+message.type=FIFO,-queue.type")
    {'+message.type': 'FIFO', '-queue.type': ''}
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
    """Return the attributes after a change; ``current`` is None while a topic is created.

    Raise InvalidInput if an attribute is unknown, fixed, missing, changed twice, or has a value
    that is not allowed.
    """
    _check_words(current, change)
    after = dict(current or {})
    for signed, value in change.items():
        sign, name = signed[:1], signed[1:]
        attribute = known.get(name)
        if attribute is None:
            what = f"the known ones are {', '.join(sorted(known)) or 'none'}"
            raise _fault(f"unsupported key: {name}", name, what)
        if current is not None and not attribute.changeable:
            java = f"attempt to update an unchangeable attribute. key: {name}"
            raise _fault(java, name, "it can't be changed after the topic was created")
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
    """Check the form of a change, which Java does before it looks at the names."""
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
        what = "only an existing attribute can be removed" if sign == _REMOVE else _HOW_TO_WRITE
        if current is None:
            java = f"only add attribute is supported while creating topic. key: {name}"
            raise _fault(java, name, what)
        if sign != _REMOVE:
            raise _fault(f"wrong format key: {name}", name, what)
        if name not in current:
            raise _fault(f"attempt to delete a nonexistent key: {name}", name, what)


def _fault(java: str, name: str, what: str) -> InvalidInput:
    """Return an error that begins with Java's remark, which its admin tools show."""
    shown = java if len(java) <= _SHOWN_MAX else f"{java[:_SHOWN_MAX]}..."
    return InvalidInput(f"{shown}; attribute {elided(name)}: {what}", field="attributes")
