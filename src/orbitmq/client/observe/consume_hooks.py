"""Hooks: code of an application around each delivery, like Java's ``ConsumeMessageHook``.

::

    before ─▶ the handler gets the messages ─▶ after        (also if the handler failed)

An error that a hook raises is logged, and the delivery goes on. Hooks run on the loop and must not
block. A message that an operator has consumed directly calls no hooks, as in Java.
"""

import logging
from typing import Literal

import msgspec

from orbitmq.client.observe.hooks import HookList
from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["ConsumeContext", "ConsumeHook", "ConsumeHooks", "DeliveryStatus"]

log = logging.getLogger("orbitmq.client")

DeliveryStatus = Literal["", "success", "later", "timeout", "exception"]
"""How a delivery ended; empty before. ``later``: the handler asked for a retry. ``timeout``: it
returned, but took longer than ``consume_timeout_ms``."""


class ConsumeContext(msgspec.Struct, kw_only=True):
    """A delivery, as hooks see it; ``before`` and ``after`` get the same object.

    Attributes:
        group: the consumer group.
        client_id: the id of the client, as brokers know it.
        namespace: the namespace (version 1) that names are prefixed with; empty if none.
        queue: the queue that the messages were pulled from: of the retry topic for retries.
        messages: the messages that the handler gets in one call.
        began_ms: when the delivery began, in milliseconds since 1970.
        took_ms: how long the handler took; set for ``after``.
        is_success: whether all messages were consumed; set for ``after``.
        status: how it ended; set for ``after``.
        error: the error that the handler raised; None if it raised none.
        notes: for hooks to keep values from ``before`` to ``after``.
    """

    group: str
    client_id: str = ""
    namespace: str = ""
    queue: MessageQueue
    messages: tuple[StoredMessage, ...]
    began_ms: int
    took_ms: int = 0
    is_success: bool = False
    status: DeliveryStatus = ""
    error: BaseException | None = None
    notes: dict[str, object] = msgspec.field(default_factory=dict)


class ConsumeHook:
    """The base class of hooks; override the methods that you need.

    >>> class SlowDeliveries(ConsumeHook):
    ...     def after(self, context: ConsumeContext) -> None:
    ...         if context.took_ms > 1_000:
    ...             print(context.queue, context.took_ms)
    """

    def before(self, context: ConsumeContext) -> None:
        """Run before the handler gets messages."""

    def after(self, context: ConsumeContext) -> None:
        """Run after the handler has returned or raised an error."""


class ConsumeHooks(HookList[ConsumeHook]):
    """The hooks of one consumer; False if there are none, and no context need be made."""

    def __init__(self) -> None:
        super().__init__(("before", "after"), "orbitmq.ConsumeHook")

    def __bool__(self) -> bool:
        return self.are_set

    def before(self, context: ConsumeContext) -> None:
        """Call ``before`` of every hook, and log the errors that they raise."""
        for hook in self.hooks:
            _call(hook, "before", context)

    def after(self, context: ConsumeContext) -> None:
        """Call ``after`` of every hook, and log the errors that they raise."""
        for hook in self.hooks:
            _call(hook, "after", context)


def _call(hook: ConsumeHook, method: str, context: ConsumeContext) -> None:
    try:
        getattr(hook, method)(context)
    except Exception:
        log.exception(
            "delivery of %d messages of %s to group %s: hook %s raised an error in %s; the "
            "delivery continues",
            *(len(context.messages), context.queue, context.group, type(hook).__name__, method),
        )
