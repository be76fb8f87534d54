"""A group that fails on all it gets, so that its messages die."""

from collections.abc import Sequence

from orbitmq import Message, StoredMessage
from orbitmq.blocking import Admin, Consumer, Producer
from orbitmq.client.admin.dead_letters import DeadLetter
from tests.interop.waiting import until

CAUSES = ("timeout after 30 ms", "timeout after 7 ms", "no such account")
SENT = [
    Message(
        "orders" if number % 3 else "refunds",
        f"number {number}".encode(),
        tags="paid" if number % 2 else "open",
        keys=[f"o-{number}"],
        properties={"colour": "blue", "x-cause": CAUSES[number % len(CAUSES)]},
    )
    for number in range(24)
]


def failing(nameserver: str, group: str) -> Consumer:
    """Return a consumer whose first failure of a message is its last; it traces."""
    consumer = Consumer(
        group,
        nameserver=nameserver,
        subscribe=["orders", "refunds"],
        consume_from="first",
        max_reconsume_times=0,
        trace=True,
    )

    @consumer.on_message
    def fail(message: StoredMessage) -> None:
        raise ValueError(f"no luck with {message.keys}")

    return consumer


def die(nameserver: str, group: str, messages: Sequence[Message] = SENT) -> list[DeadLetter]:
    """Send messages that die in a group; return its dead letters."""
    with Producer("shop", nameserver=nameserver) as producer:
        for message in messages:
            producer.send(message)
    with failing(nameserver, group), Admin(nameserver=nameserver) as admin:
        return until(
            lambda: found if len(found := [*admin.dead_letters(group)]) == len(messages) else None,
            what=f"{len(messages)} messages of {group} are dead",
        )
