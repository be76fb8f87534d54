r"""The words of an SQL92 expression.

::

    blank      blanks, tabs, line ends · -- to the end of a line · /* to */
    number     0 · 12 · 12L · 1.5 · 5. · .5 · 1e3
    string     'it''s'
    word       a letter, _ or $, then letters, digits, _ and $; some are keywords, in any case
    symbol     = <> < <= > >= ( ) , + -

As in Java's ``SelectorParser.jj``: the longest word wins, words need no blank between them, ``012``
is two numbers, and a comment without a line end is two minus signs. Words are read one at a time,
so that a fault behind the end of an expression is not found.
"""

import re
from typing import Final, NamedTuple

from orbitmq.errors import InvalidExpression

__all__ = ["Kind", "Token", "Tokens"]

_TOKEN: Final = re.compile(
    r"""
      (?P<blank>   [ \t\n\r\f]+ | --[^\n\r]*(?:\r\n|\n|\r) | /\*(?s:.*?)\*/ )
    | (?P<float>   (?:[0-9]+\.[0-9]* | \.[0-9]+)(?:e[+-]?[0-9]+)? | [0-9]+e[+-]?[0-9]+ )
    | (?P<integer> 0 | [1-9][0-9]*l? )
    | (?P<string>  '[^']*(?:''[^']*)*' )
    | (?P<word>    [a-z_$][a-z0-9_$]* )
    | (?P<symbol>  <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_KEYWORDS: Final = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"}
    | {"CONTAINS", "STARTSWITH", "ENDSWITH"}
)

_ADVICE: Final = {
    "'": "; a text has to end with a quote, too",
    '"': "; write texts in single quotes",
    "!": "; write <> for unequal",
    "/": "; a comment has to end with */",
}


class Kind:
    """The kinds of words; that of a keyword or a symbol is the word itself, in capitals."""

    FLOAT = "float"
    INTEGER = "integer"
    STRING = "string"
    NAME = "name"
    END = "end"


class Token(NamedTuple):
    """A word."""

    kind: str
    text: str
    position: int
    """Of its first character, counted from 1."""

    def __str__(self) -> str:
        return "the end" if self.kind == Kind.END else f"{self.text[:40]!r}"


class Tokens:
    """The words of an expression: the one to be read next, and a way to go on.

    >>> tokens = Tokens("price >= 5.")
    >>> tokens.take(), tokens.take(), tokens.next.kind
    (Token(kind='name', text='price', position=1), Token(kind='>=', text='>=', position=7), 'float')

    Raise InvalidExpression if the next characters are no word.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.next = self._read()

    def take(self) -> Token:
        """Return the next word, and go on."""
        taken, self.next = self.next, self._read()
        return taken

    def skip(self, kind: str) -> bool:
        """Go on if the next word is of a kind; return whether it is."""
        if self.next.kind != kind:
            return False
        self.take()
        return True

    def _read(self) -> Token:
        text = self._text
        while True:
            start = self._at
            found = _TOKEN.match(text, start)
            if found is None:
                if start == len(text):
                    return Token(Kind.END, "", start + 1)
                first = text[start]
                raise InvalidExpression(
                    f"{first!r} begins no word{_ADVICE.get(first, '')}", position=start + 1
                )
            self._at = found.end()
            kind = found.lastgroup or ""
            if kind != "blank":
                return Token(_kind(kind, found[0]), found[0], start + 1)


def _kind(group: str, text: str) -> str:
    if group == "word":
        upper = text.upper()
        return upper if upper in _KEYWORDS else Kind.NAME
    return text if group == "symbol" else group
