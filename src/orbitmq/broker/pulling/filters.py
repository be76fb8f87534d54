"""What of a topic a subscription selects: by tags, or by an SQL92 expression over properties.

A broker compares the hashes of tags in the consume queue; the consumer compares the texts. An SQL92
expression is evaluated by the broker alone, from the properties in the log.
"""

from collections.abc import Callable

from orbitmq.broker.pulling.sql92.parser import SqlFilter, parse
from orbitmq.errors import InvalidExpression, InvalidTags
from orbitmq.message.tags import SELECT_ALL, TagFilter
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.codes import ResponseCode

__all__ = [
    "SQL92",
    "TAG",
    "check_enabled",
    "compiled",
    "fault",
    "is_by_tags",
    "sent_filter",
    "subscription_of",
    "wants",
]

TAG = "TAG"
SQL92 = "SQL92"


def is_by_tags(expression_type: str | None) -> bool:
    """Return whether an expression filters by tags; so does one without a type."""
    return not expression_type or expression_type == TAG


def subscription_of(topic: str, expression: str | None, kind: str | None) -> SubscriptionData:
    """Return the subscription of a pull; refuse tags that can't be parsed, and an empty expression.

    >>> subscription_of("orders", "paid || late", None).tags_set
    ('late', 'paid')
    """
    if kind and not is_by_tags(kind):
        if not expression:
            raise _unparsed(f"the expression of type {kind} is empty")
        return SubscriptionData(topic=topic, sub_string=expression, expression_type=kind)
    try:
        parsed = TagFilter.parse(expression)
    except InvalidTags as error:
        raise _unparsed(error) from error
    return SubscriptionData(
        topic=topic,
        sub_string=parsed.expression,
        expression_type=TAG,
        tags_set=tuple(sorted(parsed.tags)),
        code_set=tuple(sorted(parsed.codes)),
    )


def check_enabled(kind: str | None, *, is_enabled: bool) -> None:
    """Refuse any expression but tags, unless ``enablePropertyFilter`` is on."""
    if not is_enabled and not is_by_tags(kind):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}; set "
            "enablePropertyFilter=true at the broker, or subscribe by tags",
        )


def compiled(expression: str, kind: str | None) -> SqlFilter:
    r"""Return an expression that is not by tags as a filter; raise InvalidExpression if it is none.

    >>> compiled("price < 5", "SQL92").matches("price\x014\x02")
    True
    """
    if kind != SQL92:
        raise InvalidExpression(
            f"expressions of type {kind} are not known; use {TAG} or {SQL92}", position=1
        )
    return parse(expression)


def sent_filter(subscription: SubscriptionData) -> SqlFilter:
    """Return the filter of a subscription that came with a pull; refuse what can't be parsed."""
    try:
        return compiled(subscription.sub_string, subscription.expression_type)
    except InvalidExpression as error:
        raise _unparsed(error) from error


def fault(subscription: SubscriptionData) -> str:
    """Return why a subscription that is not by tags has no filter, or a guess."""
    try:
        compiled(subscription.sub_string, subscription.expression_type)
    except InvalidExpression as error:
        return str(error)
    return "no heartbeat has brought it here yet"


def wants(subscription: SubscriptionData) -> Callable[[int], bool] | None:
    """Return the function that accepts or rejects a tags code; None if all are accepted.

    >>> wants(SubscriptionData(sub_string="*")) is None
    True
    >>> paid = wants(SubscriptionData(sub_string="paid", code_set=(3433164,)))
    >>> paid(3433164), paid(0)
    (True, False)
    """
    if (
        subscription.class_filter_mode
        or subscription.sub_string == SELECT_ALL
        or not is_by_tags(subscription.expression_type)
    ):
        return None
    return frozenset(subscription.code_set).__contains__


def _unparsed(why: object) -> Refusal:
    return Refusal(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {why}"
    )
