"""SQL92 expressions: the grammar, read into a filter.

::

    expression  := condition {OR condition}            condition := equality {AND equality}
    equality    := comparison { = comparison | <> comparison | IS [NOT] NULL }
    comparison  := unary { < unary | <= unary | > unary | >= unary
                         | [NOT] BETWEEN unary AND unary
                         | [NOT] IN ( string {, string} )
                         | [NOT] CONTAINS string | [NOT] STARTSWITH string | [NOT] ENDSWITH string }
    unary       := {+ | - | NOT} ( name | number | string | TRUE | FALSE | NULL | ( expression ) )

The grammar is that of Java's ``SelectorParser.jj``, and so are two surprises:

- ``NOT`` before an operand binds to that operand: ``NOT a = 1`` is ``(NOT a) = 1``.
- Whatever follows a complete expression is ignored: ``a = 1 b`` is ``a = 1``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from orbitmq.broker.pulling.sql92 import conditions
from orbitmq.broker.pulling.sql92.conditions import IllegalOperand, Operand, Test
from orbitmq.broker.pulling.sql92.lexer import Kind, Token, Tokens
from orbitmq.broker.pulling.sql92.numbers import Incomparable
from orbitmq.errors import InvalidExpression

__all__ = ["EXPRESSION_MAX", "NESTING_MAX", "SqlFilter", "parse"]

EXPRESSION_MAX: Final = 32_768
"""The most characters of an expression: parsing takes about 1 µs for each, on the loop."""
NESTING_MAX: Final = 100
"""The most parentheses and signs around an operand: each takes stack frames, here and later.

So does each further operator of a chain, such as ``a IS NULL IS NULL``; those count too.
"""
_REMEMBERED_MAX: Final = 100  # as in Java; pulls that carry an expression repeat it

_SEARCHES: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")


class SqlFilter:
    r"""A compiled expression.

    >>> cheap = parse("price < 5 AND colour IN ('red', 'blue')")
    >>> cheap.matches("price\x014\x02colour\x01red\x02"), cheap.matches("colour\x01red\x02")
    (True, False)
    """

    def __init__(self, expression: str, test: Test, terms: int, ignored: Token | None) -> None:
        self.expression = expression
        self.terms = terms
        """How many operands it has, which is what a message costs at most."""
        self.ignored = ignored
        """Where the text begins that is ignored; None if there is none."""
        self.test = test
        """Returns True, False or None for unknown; raises Incomparable."""

    def __repr__(self) -> str:
        return f"<SqlFilter {self.expression[:80]!r}>"

    def matches(self, properties: str) -> bool:
        """Return whether a message matches, by the text of its properties."""
        try:
            return self.test(properties) is True
        except Incomparable:
            return False


@lru_cache(_REMEMBERED_MAX)
def parse(expression: str) -> SqlFilter:
    """Return an expression as a filter; raise InvalidExpression, with the position, if it is none.

    >>> parse("a > > 5")
    Traceback (most recent call last):
    orbitmq.errors.InvalidExpression: SQL92 expression 'a > > 5', character 5: expected a \
name, a value or (, found '>'
    """
    if len(expression) > EXPRESSION_MAX:
        raise InvalidExpression(
            f"SQL92 expression {expression[:40]!r}…: {len(expression)} characters, "
            f"{EXPRESSION_MAX} are allowed; shorten it",
            position=EXPRESSION_MAX + 1,
        )
    try:
        return _Parser(expression).filter()
    except InvalidExpression as fault:
        shown = expression if len(expression) <= 200 else f"{expression[:200]}…"
        raise InvalidExpression(
            f"SQL92 expression {shown!r}, character {fault.position}: {fault}",
            position=fault.position,
        ) from None


class _Parser:
    """Reads one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = Tokens(expression)
        self._terms = 0
        self._nesting = 0

    def filter(self) -> SqlFilter:
        start = self._tokens.next
        condition = self._build(start, conditions.as_condition, self._logic())
        rest = self._tokens.next
        return SqlFilter(
            self._expression,
            condition.read,
            self._terms,
            None if rest.kind == Kind.END else rest,
        )

    def _logic(self) -> Operand:
        """Read operands with AND and OR between them; one without is returned as it is."""
        tokens = self._tokens
        start = tokens.next
        operand = self._equality()
        if tokens.next.kind not in ("AND", "OR"):
            return operand
        choices, every = [], [self._build(start, conditions.as_condition, operand)]
        while tokens.next.kind in ("AND", "OR"):
            if tokens.take().kind == "OR":
                choices.append(conditions.all_of(every))
                every = []
            start = tokens.next
            every.append(self._build(start, conditions.as_condition, self._equality()))
        return conditions.any_of([*choices, conditions.all_of(every)])

    def _equality(self) -> Operand:
        operand, tokens, chain = self._comparison(), self._tokens, 0
        while (sign := tokens.next).kind in ("=", "<>", "IS"):
            chain = self._deeper(sign, chain)
            tokens.take()
            if sign.kind == "IS":
                wanted = not tokens.skip("NOT")
                self._expect("NULL", "NULL or NOT NULL")
                operand = self._build(sign, conditions.is_null, operand)
            else:
                wanted = sign.kind == "="
                operand = self._build(sign, conditions.equal, operand, self._comparison())
            if not wanted:
                operand = conditions.negation(operand)
        return operand

    def _comparison(self) -> Operand:
        operand, tokens, chain = self._unary(), self._tokens, 0
        while True:
            sign = tokens.next
            if sign.kind in ("<", "<=", ">", ">="):
                tokens.take()
                operand = self._build(sign, conditions.ordered, sign.kind, operand, self._unary())
            elif sign.kind in ("NOT", "BETWEEN", "IN", *_SEARCHES):
                chain = self._deeper(sign, chain)
                wanted = not tokens.skip("NOT")
                operand = self._choice(operand, wanted=wanted)
            else:
                return operand

    def _choice(self, operand: Operand, *, wanted: bool) -> Operand:
        """Read a comparison that can have NOT before it."""
        word = self._tokens.take()
        if word.kind == "BETWEEN":
            low = self._unary()
            self._expect("AND", "AND")
            build = conditions.between if wanted else conditions.outside
            return self._build(word, build, operand, low, self._unary())
        if word.kind == "IN":
            self._expect("(", "(")
            values = [self._string()]
            while self._tokens.skip(","):
                values.append(self._string())
            self._expect(")", ", or )")
            found = self._build(word, conditions.one_of, operand, values)
            return found if wanted else conditions.negation(found)
        if word.kind in _SEARCHES:
            part = self._string()
            return self._build(word, conditions.search, word.kind, operand, part, wanted)
        raise _unexpected(word, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT")

    def _unary(self) -> Operand:
        token = self._tokens.take()
        if (leaf := _LEAVES.get(token.kind)) is not None:
            self._terms += 1
            return self._build(token, leaf, token.text)
        if token.kind not in ("(", "+", "-", "NOT"):
            raise _unexpected(token, "a name, a value or (")
        self._nest(token)
        if token.kind == "(":
            operand = self._logic()
            self._expect(")", ")")
        else:
            operand = self._unary()
            if token.kind != "+":
                build = conditions.minus if token.kind == "-" else conditions.negation
                operand = self._build(token, build, operand)
        self._nesting -= 1
        return operand

    def _deeper(self, token: Token, chain: int) -> int:
        """Count an operator of a chain, whose first one needs no nesting; return the new count.

        Unlike parentheses, a chain stays counted: what is around it is evaluated above it.
        """
        if chain:
            self._nest(token)
        return chain + 1

    def _nest(self, token: Token) -> None:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise _fault(
                token,
                f"more than {NESTING_MAX} parentheses, signs and chained operators are nested",
            )

    def _string(self) -> str:
        return _unquoted(self._expect(Kind.STRING, "a text in quotes").text)

    def _expect(self, kind: str, expected: str) -> Token:
        token = self._tokens.next
        if token.kind != kind:
            raise _unexpected(token, expected)
        return self._tokens.take()

    def _build(self, token: Token, build: Callable[..., Operand], *operands: Any) -> Operand:
        try:
            return build(*operands)
        except IllegalOperand as error:
            raise _fault(token, str(error)) from None


def _unquoted(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


def _unexpected(token: Token, expected: str) -> InvalidExpression:
    return _fault(token, f"expected {expected}, found {token}")


def _fault(token: Token, what: str) -> InvalidExpression:
    return InvalidExpression(what, position=token.position)


_LEAVES: Final[Mapping[str, Callable[[str], Operand]]] = {
    Kind.NAME: conditions.property_named,
    Kind.STRING: lambda image: conditions.string(_unquoted(image)),
    Kind.INTEGER: conditions.integer,
    Kind.FLOAT: conditions.double,
    "TRUE": lambda _image: conditions.TRUE,
    "FALSE": lambda _image: conditions.FALSE,
    "NULL": lambda _image: conditions.NULL,
}
