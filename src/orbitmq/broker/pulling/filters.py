"""Filters by tags, as a broker applies them.

A broker compares the hashes of tags in the consume queue; the consumer compares the texts.
"""

from collections.abc import Callable

from orbitmq.errors import InvalidTags
from orbitmq.message.tags import SELECT_ALL, TagFilter
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.codes import ResponseCode

__all__ = ["TAG", "is_by_tags", "subscription_of", "wants"]

TAG = "TAG"


def is_by_tags(expression_type: str | None) -> bool:
    """Return whether an expression filters by tags; so does one without a type."""
    return not expression_type or expression_type == TAG


def subscription_of(topic: str, expression: str | None, kind: str | None) -> SubscriptionData:
    """Return the subscription of a pull; refuse one that can't be parsed or is not by tags.

    >>> subscription_of("orders", "paid || late", None).tags_set
    ('late', 'paid')
    """
    check_kind(kind)
    try:
        parsed = TagFilter.parse(expression)
    except InvalidTags as error:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"parse the consumer's subscription failed: {error}",
        ) from error
    return SubscriptionData(
        topic=topic,
        sub_string=parsed.expression,
        expression_type=TAG,
        tags_set=tuple(sorted(parsed.tags)),
        code_set=tuple(sorted(parsed.codes)),
    )


def check_kind(kind: str | None) -> None:
    """Refuse any expression but tags, as a Java broker without ``enablePropertyFilter`` does."""
    if not is_by_tags(kind):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}; subscribe by tags",
        )


def wants(subscription: SubscriptionData) -> Callable[[int], bool] | None:
    """Return the function that accepts or rejects a tags code; None if all are accepted.

    >>> wants(SubscriptionData(sub_string="*")) is None
    True
    >>> paid = wants(SubscriptionData(sub_string="paid", code_set=(3433164,)))
    >>> paid(3433164), paid(0)
    (True, False)
    """
    if subscription.class_filter_mode or subscription.sub_string == SELECT_ALL:
        return None
    return frozenset(subscription.code_set).__contains__
