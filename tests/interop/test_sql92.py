"""SQL92 filters: Java's own classes as the judge, and Java's consumers on our broker."""

from typing import Any

import pytest

from orbitmq.broker.pulling.bloom import bloom_data
from tests.broker.pulling.sql92.test_parser import answers
from tests.golden_files import golden
from tests.interop.cases import CASES, Chance
from tests.interop.java import Java, JavaHostFailed
from tests.interop.operations import (
    BLOOM_POSITIONS,
    EVALUATE_SQL,
    Bloom,
    Kind,
    Outgoing,
    Refusal,
    Sql,
)
from tests.interop.team import Team

NAMES = ("a", "b", "c")
NUMBERS = ("0", "5", "7", "5L", "5.5", ".5", "5e0", "2147483648", "1e400", "0.0")
STRINGS = ("'x'", "'5'", "''", "'it''s'", "'true'", "'abc'")
VALUES = (
    *("0", "5", "7", "5.5", "x", "abc", "it's", "true", "FALSE", "-3", "+5", "NaN", "-0.0", "0.0"),
    *("2147483648", "1e3", " 5", "5d", "0x1p3", "Infinity", "9223372036854775808"),
)
BROKEN = ("", "(", ")", "NOT", "AND", "=", ",", "'", "#", "--", "/*", "a", "5", "IS", "IN")


def java_answers(java: Java, asked: list[Sql]) -> list[str | None]:
    found = java.attempt(EVALUATE_SQL, asked)
    return [None if isinstance(one, Refusal) else one for one in found]


def test_the_table_holds_java_s_answers(java_540: Java) -> None:
    table: Any = golden("sql92")
    asked = [Sql(expression, table["messages"]) for expression in table["answers"]]
    assert java_answers(java_540, asked) == list(table["answers"].values())


def value(chance: Chance, depth: int) -> str:
    kind = chance.randrange(16)
    if kind == 0 and depth:
        return f"({condition(chance, depth - 1)})"
    if kind == 1:
        return f"{chance.choice('-+')}{value(chance, depth)}"
    if kind == 2:
        return chance.choice(("TRUE", "FALSE", "NULL"))
    if kind < 5:
        return chance.choice(STRINGS)
    return chance.choice(NUMBERS if kind < 9 else NAMES)


def comparison(chance: Chance, depth: int) -> str:
    left, negated = value(chance, depth), chance.choice(("", "NOT "))
    kind = chance.randrange(10)
    if kind < 5:
        return f"{left} {chance.choice(('=', '<>', '<', '<=', '>', '>='))} {value(chance, depth)}"
    if kind == 5:
        return f"{left} IS {negated}NULL"
    if kind == 6:
        ends = f"{value(chance, depth)} AND {value(chance, depth)}"
        return f"{left} {negated}BETWEEN {ends}"
    if kind == 7:
        values = ", ".join(chance.choices(STRINGS, k=chance.randint(1, 6)))
        return f"{left} {negated}IN ({values})"
    if kind == 8:
        how = chance.choice(("CONTAINS", "STARTSWITH", "ENDSWITH"))
        return f"{left} {negated}{how} {chance.choice(STRINGS)}"
    return left


def condition(chance: Chance, depth: int) -> str:
    forms = ("{}", "{}", "({})", "NOT ({})", "NOT {}")
    parts = [comparison(chance, depth) for _ in range(chance.choice((1, 1, 2, 3)))]
    text = f" {chance.choice(('AND', 'OR'))} ".join(
        chance.choice(forms).format(part) for part in parts
    )
    return text if chance.randrange(4) else text.lower()


def random_sql(chance: Chance) -> Sql:
    """An expression of the grammar, at times with a word too many or too few; and messages."""
    words = condition(chance, 2).split(" ")
    if chance.randrange(8) == 0:
        words[chance.randrange(len(words))] = chance.choice(BROKEN)
    messages = [
        {name: chance.choice(VALUES) for name in NAMES if chance.randrange(3)} for _ in range(6)
    ]
    return Sql(" ".join(words), messages)


def test_random_expressions_are_refused_or_answered_as_by_java(
    java_540: Java, chance: Chance
) -> None:
    accepted = 0
    for some in chance.several(lambda: random_sql(chance)):
        for sql, theirs in zip(some, java_answers(java_540, some), strict=True):
            assert answers(sql.expression, sql.messages) == theirs, sql
            accepted += theirs is not None
    assert accepted > CASES / 5


def test_filters_have_java_s_bits(java: Java, chance: Chance) -> None:
    asked = [
        Bloom(chance.choice((1, 5, 20, 50, 99)), chance.choice((1, 32, 1000)), chance.text(60))
        for _ in range(200)
    ]
    for bloom, found in zip(asked, java.ask(BLOOM_POSITIONS, asked), strict=True):
        ours = bloom_data(bloom.text, error_percent=bloom.error_percent, expected=bloom.expected)
        assert [*ours.bit_pos, ours.bit_num] == found, bloom


# Java's consumers on our broker


def amount(topic: str, number: int) -> Outgoing:
    given = {"amount": str(number), "colour": ("red", "blue")[number % 2]}
    return Outgoing(topic=topic, body=b"%d" % number, properties=given)


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_properties_select(team: Team, kind: Kind) -> None:
    topic = team.topic(f"sql-{kind}")
    with team.producer() as producer:
        producer.send(*(amount(topic, number) for number in range(8)))
        expression = "amount BETWEEN 2 AND 105 AND colour = 'blue'"
        with team.consumer(topic, expression, sql=True, kind=kind) as consumer:
            assert sorted(one.body for one in consumer.wait_for(3)) == [b"3", b"5", b"7"]
            producer.send(*(amount(topic, number) for number in range(100, 110)))  # it waits
            later = consumer.wait_for(6)[3:]
            assert sorted(one.body for one in later) == [b"101", b"103", b"105"]


def test_what_is_refused_comes_again_whatever_the_filter(team: Team) -> None:
    topic = team.topic("sql-again")
    with team.consumer(topic, "amount > 5", sql=True, refusals=1) as consumer:
        with team.producer() as producer:
            producer.send(amount(topic, 5), amount(topic, 6))
        received = consumer.wait_for(2)
    assert [one.body for one in received] == [b"6", b"6"]
    assert [one.reconsume_times for one in received] == [0, 1]


def test_a_consumer_with_a_bad_expression_is_told_at_its_start(team: Team) -> None:
    topic = team.topic("sql-bad")
    with pytest.raises(JavaHostFailed, match="character 10: expected a name, a value or"):
        with team.consumer(topic, "amount > > 5", sql=True):
            pass
