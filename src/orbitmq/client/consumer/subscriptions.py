"""Which messages of a topic a consumer gets: ``*``, tags as ``a || b``, or SQL92.

>>> subscription_data("orders", "paid || late").tags_set
('late', 'paid')
>>> subscription_data("orders", Sql("amount > 10")).expression_type
'SQL92'
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from orbitmq.client.field_types import check_name, shown
from orbitmq.errors import InvalidInput
from orbitmq.message.names import check_topic
from orbitmq.message.tags import TagFilter, java_hash
from orbitmq.wire.bodies.heartbeat import SubscriptionData

__all__ = ["SQL92", "TAG", "Selection", "Sql", "check_subscriptions", "subscription_data"]

TAG: Final = "TAG"
SQL92: Final = "SQL92"
"""The types of expressions, as subscriptions have them."""


class Sql(msgspec.Struct, frozen=True):
    """A filter in SQL92 on the properties of messages, which the broker evaluates.

    >>> Sql("amount > 10 AND TAGS = 'paid'")
    Sql(expression="amount > 10 AND TAGS = 'paid'")
    """

    expression: str

    def __post_init__(self) -> None:
        given: object = self.expression
        if not isinstance(given, str) or not given.strip():
            raise InvalidInput(
                f"the SQL expression is {shown(given)}; it must be a text such as 'amount > 10'",
                field="expression",
            )


Selection: TypeAlias = str | Sql
"""What is selected of a topic."""


def subscription_data(topic: str, selection: Selection, *, version: int = 0) -> SubscriptionData:
    """Return a subscription as heartbeats have it; ``topic`` is the name on the wire.

    Raise InvalidInput if the selection is neither a text nor `Sql`, and InvalidTags if it has no
    tag. Brokers check SQL.
    """
    if isinstance(selection, Sql):
        return SubscriptionData(
            topic=topic,
            sub_string=selection.expression,
            expression_type=SQL92,
            sub_version=version,
        )
    if not isinstance(selection, str):
        raise InvalidInput(
            f"the subscription of {topic} is {shown(selection)}; it must be '*', tags such as "
            "'paid || late', or Sql(…)",
            field="subscribe",
        )
    tags = TagFilter.parse(selection)
    # Sorted: Java writes sets, and equal subscriptions should be equal.
    names = tuple(sorted(tags.tags))
    return SubscriptionData(
        topic=topic,
        sub_string=tags.expression,
        tags_set=names,
        code_set=tuple(map(java_hash, names)),
        sub_version=version,
    )


def check_subscriptions(given: object) -> dict[str, Selection]:
    """Return the subscriptions of a consumer, by topic; raise InvalidInput for invalid ones.

    One topic, or several in a list, select all messages.

    >>> check_subscriptions("orders"), check_subscriptions({"orders": "paid"})
    ({'orders': '*'}, {'orders': 'paid'})
    """
    if isinstance(given, str):
        given = {given: "*"}
    elif isinstance(given, list | tuple | set | frozenset):
        given = dict.fromkeys(given, "*")
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"subscribe is {shown(given)}; it must be a dict such as {{'orders': '*'}}, or topics",
            field="subscribe",
        )
    for topic, selection in given.items():
        check_name("subscribe", topic, check_topic)
        subscription_data(topic, selection)
    return dict(given)
