"""Checks of settings: whether a value has the type that its field declares, and is in range.

A msgspec struct does not check its arguments: a text in place of a list would become a list of
letters.
"""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from orbitmq.errors import InvalidInput
from orbitmq.message.shown import shown_int

__all__ = [
    "check_address_map",
    "check_is",
    "check_name",
    "check_ranges",
    "check_types",
    "shown",
    "shown_settings",
    "take_enum",
    "take_path",
    "take_tuple",
    "whole_or_none",
]

_SHOWN_MAX: Final = 40
_HINTS: Final[Mapping[str, str]] = {"nameserver": "; several are separated by ';' in one text"}
_SECRET: Final = frozenset({"secret_key", "security_token", "tls_key_password"})


def shown(value: object) -> str:
    """Return a value as an error shows it: shortened; of objects only the type.

    >>> shown("3"), shown(float("nan")), shown([1, 2]), shown(None)
    ("'3'", 'nan', 'of type list', 'None')
    """
    if type(value) is int:
        return shown_int(value)
    if value is None or type(value) in (str, float, bool):
        return repr(value if type(value) is not str else value[:_SHOWN_MAX])
    return f"of type {type(value).__name__[:_SHOWN_MAX]}"


def whole_or_none(value: object) -> int | None:
    """Return an integer of any type, such as numpy's, as an int; None if the value is not one.

    A float is not one, even 3.0, and neither is a bool.

    >>> whole_or_none(3), whole_or_none(3.0), whole_or_none(True), whole_or_none("3")
    (3, None, None, None)
    """
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # an array with several values, or with one that is not an integer
        return None


def check_types(settings: msgspec.Struct) -> None:
    """Check fields of type str and bool; raise InvalidInput for values of other types.

    The error does not show the value of a text field: it could be a secret.
    """
    for field, kind in _plain_fields(type(settings)):
        value: object = getattr(settings, field)
        if isinstance(value, kind):
            continue
        if kind is bool:
            raise InvalidInput(f"{field} is {shown(value)}; it must be True or False", field=field)
        hint = "; write str(…) around a path" if isinstance(value, os.PathLike) else ""
        raise InvalidInput(
            f"{field} must be a str, not {type(value).__name__}{hint}{_HINTS.get(field, '')}",
            field=field,
        )


@cache
def _plain_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, type], ...]:
    fields = msgspec.structs.fields(kind)
    return tuple((one.name, one.type) for one in fields if one.type in (str, bool))


def check_is(settings: msgspec.Struct, field: str, kind: type) -> None:
    """Check that a field is None or of a type; raise InvalidInput if not."""
    value: object = getattr(settings, field)
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(
            f"{field} is {shown(value)}; it must be of type {kind.__name__}, or left out",
            field=field,
        )


def check_ranges(
    settings: msgspec.Struct,
    ranges: Mapping[str, tuple[int, int]],
    optional: frozenset[str] = frozenset(),
) -> None:
    """Check that fields are integers in their ranges; raise InvalidInput if not.

    Fields in ``optional`` may be None. Integers of other types, such as numpy's, become ints.
    """
    for field, (low, high) in ranges.items():
        value: object = getattr(settings, field)
        if value is None and field in optional:
            continue
        number = whole_or_none(value)
        if number is None or not low <= number <= high:
            raise InvalidInput(
                f"{field} is {shown(value)}; it must be a whole number from {low} to {high}",
                field=field,
            )
        if number is not value:
            force_setattr(settings, field, number)


def take_path(settings: msgspec.Struct, field: str) -> None:
    """Replace a path object by its text; leave any other value unchanged."""
    value: object = getattr(settings, field)
    if isinstance(value, os.PathLike):
        force_setattr(settings, field, os.fspath(value))


def take_enum(settings: msgspec.Struct, field: str, kind: type[Enum]) -> None:
    """Replace a text by the enum member with that value, or that name if values aren't texts.

    Raises InvalidInput if there is no such member.
    """
    value: object = getattr(settings, field)
    if isinstance(value, kind):
        return
    members = {one.value if isinstance(one.value, str) else one.name: one for one in kind}
    if not isinstance(value, str) or value not in members:
        raise InvalidInput(
            f"{field} is {shown(value)}; it must be one of {', '.join(members)}", field=field
        )
    force_setattr(settings, field, members[value])


def take_tuple(settings: msgspec.Struct, field: str, kind: type) -> None:
    """Replace an iterable by a tuple; raise InvalidInput for a text, or values of another type."""
    given: object = getattr(settings, field)
    wanted = f"it must be a list of {kind.__name__}"
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        example = f", as in {field}=[{shown(given)}]" if isinstance(given, kind) else ""
        raise InvalidInput(f"{field} is {shown(given)}; {wanted}{example}", field=field)
    values = []
    for value in given:
        taken: object = whole_or_none(value) if kind is int else value
        if not isinstance(taken, kind):
            raise InvalidInput(f"{field} contains {shown(value)}; {wanted}", field=field)
        values.append(taken)
    force_setattr(settings, field, tuple(values))


def check_address_map(given: Mapping[str, str] | Callable[[str], str] | None) -> None:
    """Check that an address map is a function, or a mapping of texts; raise InvalidInput if not."""
    value: object = given
    if value is None or callable(value):
        return
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"address_map is {shown(value)}; it must be a dict from advertised to reachable "
            "addresses, or a function that returns one for the other",
            field="address_map",
        )
    for part in (*value.keys(), *value.values()):
        if not isinstance(part, str):
            raise InvalidInput(
                f"address_map contains {shown(part)}; its keys and values must be texts such as "
                "'10.0.0.1:10911'",
                field="address_map",
            )


def check_name(field: str, name: str, check: Callable[[str], None]) -> None:
    """Check a name by a function; raise its InvalidInput with the field that has the name."""
    try:
        check(name)
    except InvalidInput as error:
        raise type(error)(f"{field}: {error}", field=field) from error


def shown_settings(settings: msgspec.Struct) -> str:
    """Return a repr of the fields that differ from their defaults, without secrets."""
    fields = msgspec.structs.fields(settings)
    given = [one for one in fields if getattr(settings, one.name) != one.default]
    return f"{type(settings).__name__}({', '.join(_parts(settings, given))})"


def _parts(settings: msgspec.Struct, given: Iterable[msgspec.structs.FieldInfo]) -> Iterable[str]:
    for one in given:
        value = "…" if one.name in _SECRET else repr(getattr(settings, one.name))
        yield f"{one.name}={value}"
