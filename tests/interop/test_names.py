"""Names of topics and groups, namespaces and subscriptions: what Java takes, makes and refuses."""

from collections.abc import Callable

from orbitmq.errors import InvalidInput
from orbitmq.message import names
from orbitmq.message.tags import TagFilter
from tests.interop.cases import CASES, Chance
from tests.interop.java import Java
from tests.interop.operations import (
    CHECK_GROUP,
    CHECK_TOPIC,
    NAMESPACE_OF,
    STRIP_ANY_NAMESPACE,
    STRIP_NAMESPACE,
    SUBSCRIBE,
    WRAP_NAMESPACE,
    Namespaced,
    Refusal,
    Subscription,
)

SPECIAL = ("", "%RETRY%", "%DLQ%", "%LMQ%", "rmq_sys_", "CID_RMQ_SYS_", "TBW102", "ns%", "a%b%")


def random_name(chance: Chance) -> str:
    """A name near the edge of what is allowed: too long, with a bad letter, or plain."""
    start = chance.choice(SPECIAL)
    size = chance.choice((0, 1, 5, 119, 120, 121, 126, 127, 128, 255, 256)) - len(start)
    name = start + "".join(chance.choices("abzAZ09_-%|", k=max(size, 0)))
    return name + (chance.text(2) if chance.randrange(3) == 0 else "")


def is_allowed(check: Callable[[str], None], name: str) -> bool:
    try:
        check(name)
    except InvalidInput:
        return False
    return True


def test_the_same_topics_are_allowed(java: Java, chance: Chance) -> None:
    for some in chance.several(lambda: random_name(chance)):
        for name, refusal in zip(some, java.attempt(CHECK_TOPIC, some), strict=True):
            assert is_allowed(names.check_topic, name) is (refusal is None), ascii(name)


def test_the_same_groups_are_allowed(java_540: Java, chance: Chance) -> None:
    # 4.9 allows 255 characters, from which no retry topic could be made any more.
    for some in chance.several(lambda: random_name(chance)):
        for name, refusal in zip(some, java_540.attempt(CHECK_GROUP, some), strict=True):
            assert is_allowed(names.check_group, name) is (refusal is None), ascii(name)


def random_namespaced(chance: Chance) -> Namespaced:
    """A namespace and a name that is in it, in another one, in none, or the system's own."""
    namespace = chance.choice(("ns", "a", "ns2", ""))
    name = chance.choice(SPECIAL) + chance.choice(("", "ns%", "a%")) + chance.choice(("", "x", "%"))
    return Namespaced(namespace, name)


def test_namespaces_are_put_on_and_taken_off_alike(java_540: Java, chance: Chance) -> None:
    cases = [random_namespaced(chance) for _ in range(CASES // 2)]
    plain = [one.name for one in cases]
    assert java_540.ask(WRAP_NAMESPACE, cases) == [
        names.wrap_namespace(one.namespace, one.name) for one in cases
    ]
    assert java_540.ask(STRIP_NAMESPACE, cases) == [
        names.strip_namespace(one.name, one.namespace) for one in cases
    ]
    assert java_540.ask(STRIP_ANY_NAMESPACE, plain) == [*map(names.strip_any_namespace, plain)]
    assert java_540.ask(NAMESPACE_OF, plain) == [*map(names.namespace_of, plain)]


def our_subscription(expression: str) -> Subscription | None:
    """What we make of an expression, None if we refuse it."""
    try:
        parsed = TagFilter.parse(expression)
    except InvalidInput:
        return None
    return Subscription(parsed.expression, parsed.tags, parsed.codes)


def selects_nothing(answer: Subscription | Refusal) -> bool:
    """Java refuses some expressions without a tag, and makes of others what selects nothing."""
    return isinstance(answer, Refusal) or (answer.expression != "*" and not answer.tags)


def test_tag_expressions_are_read_alike(java: Java, chance: Chance) -> None:
    def random_expression() -> str:
        pieces = ("a", "TagB", "||", "||", "|", " ", "\t", "\u3000", "*", "é")
        return "".join(chance.choices(pieces, k=chance.randrange(7)))

    for expressions in chance.several(random_expression):
        for expression, answer in zip(
            expressions, java.attempt(SUBSCRIBE, expressions), strict=True
        ):
            ours = our_subscription(expression)
            assert selects_nothing(answer) if ours is None else ours == answer, ascii(expression)
