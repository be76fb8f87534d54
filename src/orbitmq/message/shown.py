"""Values as text of bounded length or without control characters: for errors, and for terminals."""

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from orbitmq.errors import InvalidInput

__all__ = ["BodyForm", "shown_body", "shown_int"]

BodyForm: TypeAlias = Literal["auto", "text", "json", "hex"]
"""How a body is shown."""

_BITS_SHOWN: Final = 128
_HEX_COLUMNS: Final = 16
_KEPT: Final = "\n\t"


def shown_int(value: int) -> str:
    """Return a number as text, or its size: Python refuses to format over some 4300 digits.

    >>> shown_int(-7), shown_int(10**5000)
    ('-7', 'a number of 16610 bits')
    """
    bits = value.bit_length()
    return str(value) if bits <= _BITS_SHOWN else f"a number of {bits} bits"


def shown_body(body: bytes, form: BodyForm = "auto") -> str:
    r"""Return the body of a message for people to read; it is safe to print on a terminal.

    Args:
        body: the body.
        form: ``text`` is UTF-8, with other bytes and control characters escaped; ``json`` is
            indented JSON; ``hex`` has 16 bytes a line; ``auto`` is text if nothing has to be
            escaped, else hexadecimal.

    Raises:
        InvalidInput: there is no such form, or the body is not JSON.

    >>> shown_body(b"paid"), shown_body(b"\x00\x1b[2J"), shown_body(b"a\x1b\xff", "text")
    ('paid', '00 1b 5b 32 4a', 'a\\x1b\\xff')
    >>> print(shown_body(b'{"id":7}', "json"))
    {
      "id": 7
    }
    """
    if form not in get_args(BodyForm):
        raise InvalidInput(
            f"form is {str(form)[:40]!r}; it must be one of {', '.join(get_args(BodyForm))}",
            field="form",
        )
    if form == "json":
        return _escaped(_indented(body))
    if form == "text" or (form == "auto" and _is_text(body)):
        return _escaped(body.decode(errors="backslashreplace"))
    starts = range(0, len(body), _HEX_COLUMNS)
    return "\n".join(body[start : start + _HEX_COLUMNS].hex(" ") for start in starts)


def _indented(body: bytes) -> str:
    try:
        msgspec.json.decode(body)  # format() does not look into everything
        return msgspec.json.format(body, indent=2).decode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the body is not JSON: {str(error)[:120]}; show it as text or hex", field="form"
        ) from error


def _is_text(body: bytes) -> bool:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    return all(map(_may_print, text))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if _may_print(one) else ascii(one)[1:-1] for one in text)


def _may_print(character: str) -> bool:
    return character in _KEPT or character.isprintable()
