import pytest

from orbitmq.broker.pulling.sql92.lexer import Kind, Tokens
from orbitmq.errors import InvalidExpression


def words(text: str) -> list[str]:
    tokens, found = Tokens(text), []
    while tokens.next.kind != Kind.END:
        found.append(tokens.take().text)
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" \t\r\n\f", []),
        ("a>=5", ["a", ">=", "5"]),
        ("a<>'it''s'", ["a", "<>", "'it''s'"]),
        ("a < > b", ["a", "<", ">", "b"]),
        ("012L 0L", ["0", "12L", "0", "L"]),
        ("1.5 5. .5 5e3 5.E-3 1e", ["1.5", "5.", ".5", "5e3", "5.E-3", "1", "e"]),
        ("5AND b", ["5", "AND", "b"]),
        ("a -- to the end\n= /* here */ 5", ["a", "=", "5"]),
        ("a -- no end", ["a", "-", "-", "no", "end"]),
        ("a /* ** / */ b /***/", ["a", "b"]),
        ("$a _b1", ["$a", "_b1"]),
    ],
)
def test_the_longest_word_wins(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_keywords_are_known_in_any_case_and_names_are_not_changed() -> None:
    tokens = Tokens("Not iNside")
    assert [tokens.take().kind, tokens.next.kind, tokens.next.text] == ["NOT", Kind.NAME, "iNside"]


@pytest.mark.parametrize(
    ("text", "position"), [("a # b", 3), ("a = 'x", 5), ("a /* b", 3), ("é", 1)]
)
def test_a_character_that_begins_no_word_is_reported_with_its_position(
    text: str, position: int
) -> None:
    with pytest.raises(InvalidExpression) as error:
        words(text)
    assert error.value.position == position


def test_words_are_read_one_at_a_time() -> None:
    tokens = Tokens("a b #")
    assert tokens.take().text == "a"  # and b is the next; the fault is behind it
