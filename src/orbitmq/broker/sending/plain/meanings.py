r"""What a property text says besides its unique key and its keys, remembered by that text.

Most sends of a topic differ in these two properties alone::

    UNIQ_KEY\x01 7F… \x02  WAIT\x01true\x02  TAGS\x01paid\x02  KEYS\x01 o-41 \x02
                 ▔▔▔                                                ▔▔▔▔
"""

from typing import Final, NamedTuple

from orbitmq.broker.sending import stored_properties
from orbitmq.message import properties
from orbitmq.store.dispatch import Dispatcher

__all__ = ["Meaning", "Meanings", "PlainText"]

_UNIQUE_KEY: Final = f"{properties.UNIQUE_KEY}{properties.NAME_END}".encode()
_UNIQUE_KEY_SIZE: Final = len(_UNIQUE_KEY)
_KEYS: Final = f"{properties.KEYS}{properties.NAME_END}".encode()
_KEYS_SIZE: Final = len(_KEYS)
_NAME_END: Final = properties.NAME_END.encode()
_END: Final = properties.VALUE_END.encode()
_END_BYTE: Final = _END[0]
_REMEMBERED: Final = 4096
_REMEMBERED_LENGTH: Final = 1024
_ALSO_SAFE: Final = b"-_.:@+/=,"
"""Marks that a unique key may have besides letters and digits: no JSON text escapes them."""


class Meaning(NamedTuple):
    """The tags code and the tags of a text."""

    tags_code: int
    tags: bytes | None


PlainText = tuple[bytes, bytes, bytes, Meaning]
"""The text with its closing separator, the unique key, the keys, and what the rest means."""


class Meanings:
    r"""Reads property texts; one that needs care has no meaning.

    >>> Meanings().read(b"TAGS\x01paid\x02UNIQ_KEY\x017F00\x02KEYS\x01o-41")[1:]
    (b'7F00', b'o-41', Meaning(tags_code=3433164, tags=b'paid'))
    >>> Meanings().read(b"UNIQ_KEY\x017F00\x02DELAY\x013\x02") is None
    True
    """

    __slots__ = ("_by_rest", "_labels")

    def __init__(self) -> None:
        self._by_rest: dict[bytes, Meaning | None] = {}
        self._labels = Dispatcher(()).labels

    def __repr__(self) -> str:
        return f"<Meanings of {len(self._by_rest)} texts>"

    def read(self, text: bytes) -> PlainText | None:
        """Return a text in its parts; None if it has to be read with care."""
        if text[-1] != _END_BYTE:  # RocketMQ's clients before 5.0 leave it out
            text += _END
        at = text.find(_UNIQUE_KEY)
        if at:
            if at < 0 or text[at - 1] != _END_BYTE:
                return None
            end = text.find(_END, at)
            rest = text[:at] + text[end + 1 :]
        else:
            end = text.find(_END)
            rest = text[end + 1 :]
        key = text[at + _UNIQUE_KEY_SIZE : end]
        keys = b""
        at = rest.find(_KEYS)
        if at >= 0:
            if at and rest[at - 1] != _END_BYTE:
                return None
            end = rest.find(_END, at)
            keys = rest[at + _KEYS_SIZE : end]
            rest = rest[:at] + rest[end + 1 :]
            if _NAME_END in keys:
                return None
        meaning = self.of_rest(rest)
        if meaning is None or not (key.isalnum() or key.translate(None, _ALSO_SAFE).isalnum()):
            return None
        return text, key, keys, meaning

    def of_rest(self, rest: bytes) -> Meaning | None:
        """Return what a text means that has no unique key and no keys any more."""
        try:
            return self._by_rest[rest]
        except KeyError:
            return self._look(rest)

    def _look(self, rest: bytes) -> Meaning | None:
        meaning = None
        is_plain = stored_properties.is_plain(rest.decode())
        if is_plain and _UNIQUE_KEY not in rest and _KEYS not in rest:
            code, _, _, tags = self._labels("", rest, 0)
            meaning = Meaning(code, tags)
        if len(rest) <= _REMEMBERED_LENGTH:
            if len(self._by_rest) >= _REMEMBERED:
                self._by_rest.clear()
            self._by_rest[rest] = meaning
        return meaning
