"""Send headers for one queue, with the constant part encoded once."""

from collections.abc import Collection
from typing import Final

import msgspec

from orbitmq.wire.fields import Header
from orbitmq.wire.headers.send import SendMessage, SendMessageV2

__all__ = ["SendTemplate", "inside_json", "plain_form"]

_write_json: Final = msgspec.json.Encoder().encode
_read_texts: Final = msgspec.json.Decoder(dict[str, str]).decode

# The fields that differ per message, in the order in which both headers declare them. A header
# without properties has no text for them, so they are added at the end.
_BLANKS: Final = ("sys_flag", "born_timestamp", "flag")


class _FilledSend(Header):
    """A send header made by a template, for one request; its fields are JSON already."""

    json: bytes

    def to_json(self) -> bytes:
        """Return the fields, not a copy."""
        return self.json

    def to_texts(self) -> dict[str, str]:
        """Decode the fields again, for signatures and the binary encoding."""
        return _read_texts(self.json)


class SendTemplate:
    r"""A send header for many messages, with the constant part encoded once.

    Making and encoding a header takes 1.6 µs per message; filling in a template, a third of that.

    >>> template = SendTemplate(SendMessageV2(
    ...     producer_group="billing", topic="orders", default_topic="TBW102",
    ...     default_topic_queue_nums=4, queue_id=3, sys_flag=0, born_timestamp=0, flag=0))
    >>> template.fill(1_700_000_000_000, "TAGS\x01paid\x02").to_texts()["g"]
    '1700000000000'
    """

    __slots__ = ("_form",)

    def __init__(self, header: SendMessage | SendMessageV2) -> None:
        self._form = _form(header, _BLANKS, b"%b")

    def fill(self, born_ms: int, properties: str, *, sys_flag: int = 0, flag: int = 0) -> Header:
        """Return the header of one message, for one request."""
        return _FilledSend(json=self._form % (sys_flag, born_ms, flag, _write_json(properties)))


def plain_form(header: SendMessageV2, properties: str) -> bytes:
    r"""Return the fields of many plain messages, with four blanks: born time, flag, id, the rest.

    ``properties`` are those that all of them have, with ``ID`` in place of the first unique id.

    >>> header = SendMessageV2(
    ...     producer_group="billing", topic="orders", default_topic="TBW102",
    ...     default_topic_queue_nums=4, queue_id=3, sys_flag=0, born_timestamp=0, flag=0)
    >>> form = plain_form(header, "UNIQ_KEY\x01ID\x02TAGS\x01paid\x02")
    >>> texts = _read_texts(form % (1_700_000_000_000, 0, b"7F01", inside_json("KEYS\x01o-42\x02")))
    >>> texts["g"], texts["i"]
    ('1700000000000', 'UNIQ_KEY\x017F01\x02TAGS\x01paid\x02KEYS\x01o-42\x02')
    """
    before, _, after = properties.partition("ID")
    text = b'"%b%%b%b%%b"' % tuple(_literal(part)[1:-1] for part in (before, after))
    return _form(header, _BLANKS[1:], text)


def inside_json(text: str) -> bytes:
    """Return a text as part of a JSON text."""
    return _write_json(text)[1:-1]


def _form(header: SendMessage | SendMessageV2, blanks: Collection[str], properties: bytes) -> bytes:
    """Return the fields of a header as JSON with blanks for numbers, and its properties last."""
    name_of = dict(
        zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True)
    ).__getitem__
    blank_names = [name_of(field) for field in blanks]
    fields = [
        _write_json(name) + b":" + (b'"%d"' if name in blank_names else _literal(text))
        for name, text in header.to_texts().items()
    ]
    return b"{%b}" % b",".join([*fields, _write_json(name_of("properties")) + b":" + properties])


def _literal(text: str) -> bytes:
    """Return a text as JSON, with percent signs escaped for the form."""
    return _write_json(text).replace(b"%", b"%%")
