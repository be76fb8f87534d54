"""Typed header fields of requests and answers, one module per conversation.

>>> request_type(11) is pull.PullMessage, answer_type(11) is pull.PullMessageAnswer
(True, True)
"""

from orbitmq.wire.fields import ANSWERS, REQUESTS, Header
from orbitmq.wire.headers import (
    admin,
    controller,
    heartbeat,
    offset,
    pop,
    pull,
    query,
    route,
    send,
    transaction,
)

__all__ = ["CONVERSATIONS", "answer_type", "request_type"]

CONVERSATIONS = (
    *(admin, controller, heartbeat, offset, pop, pull, query, route, send, transaction),
)
"""Importing the modules declares their headers."""


def request_type(code: int) -> type[Header] | None:
    """Return the header class of a request code; None if it is not declared."""
    return REQUESTS.get(code)


def answer_type(code: int) -> type[Header] | None:
    """Return the header class of the answer to a request code; None if not declared."""
    return ANSWERS.get(code)
