"""Hooks: what an application may do around each send, as Java's ``SendMessageHook`` allows.

::

    check ──raises──▶ the send is forbidden       (Java: CheckForbiddenHook)
      │
    before ─▶ one attempt after another ─▶ after  (also when the send failed)

A hook that raises in ``before`` or ``after`` is logged, and the send goes on. Hooks run on the
loop: they must not block.
"""

import enum
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.client.arguments import check_methods
from orbitmq.client.user_code import is_async
from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.message.trace import MessageKind

__all__ = ["Hooks", "SendContext", "SendHook", "SendMode", "kind_of"]

log = logging.getLogger("orbitmq.client")

_METHODS: Final = ("check", "before", "after")


class SendMode(enum.Enum):
    """How a message is sent: whether somebody waits for the receipt."""

    ANSWERED = "answered"
    ONEWAY = "oneway"


class SendContext(msgspec.Struct, kw_only=True):
    """What hooks are told of a send; one object from ``check`` to ``after``.

    Attributes:
        group: the producer group.
        mode: whether a receipt is waited for.
        namespace: the namespace that wraps names (version 1), empty if none.
        message: what is sent; of a batch, its first message.
        messages: all that is sent: one message, or those of a batch.
        message_ids: the unique ids of the messages; of a single one it is the send id.
        kind: normal, delayed or half.
        send_id: the unique id of the send.
        began_ms: when it began, in milliseconds since 1970.
        queue: where it goes; before the first attempt None, unless the caller chose it.
        broker_address: where the broker of the queue is.
        took_ms: how long all of it took; known to ``after`` alone.
        receipt, error: how it ended; one of them is known to ``after``, neither for a oneway send.
        notes: a place for hooks to keep things from ``before`` to ``after``.

    """

    group: str
    mode: SendMode
    namespace: str
    message: Message
    messages: tuple[Message, ...]
    message_ids: tuple[str, ...] = ()
    kind: MessageKind
    send_id: str
    began_ms: int
    queue: MessageQueue | None = None
    broker_address: str = ""
    took_ms: int = 0
    receipt: SendReceipt | None = None
    error: BaseException | None = None
    notes: dict[str, object] = msgspec.field(default_factory=dict)


class SendHook:
    """What to do around each send; override what you need.

    >>> class NoSecrets(SendHook):
    ...     def check(self, context: SendContext) -> None:
    ...         if b"secret" in context.message.body:
    ...             raise PermissionError("secrets are not sent")

    """

    def check(self, context: SendContext) -> None:
        """Raise to forbid the send; the caller gets ``SendForbidden``, with this as its cause."""

    def before(self, context: SendContext) -> None:
        """Be told that a message is about to be sent."""

    def after(self, context: SendContext) -> None:
        """Be told how a send ended; also of one that failed or was cancelled."""


class Hooks:
    """The hooks of one producer, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: tuple[SendHook, ...] = ()
        self.are_set = False
        """Whether there is any."""

    def __repr__(self) -> str:
        return f"<Hooks {[type(hook).__name__ for hook in self._hooks]}>"

    def add(self, hook: SendHook) -> None:
        """Have a hook called for each send that begins from now on.

        Raises:
            InvalidInput: it lacks a method of ``SendHook``, each send would fail by that; or one
                is a coroutine function, which nobody would await.

        """
        check_methods(hook, "hook", _METHODS, "orbitmq.SendHook")
        for name in _METHODS:
            if is_async(getattr(hook, name)):
                raise InvalidInput(
                    f"{name} of hook {type(hook).__name__[:60]} is a coroutine function, and hooks "
                    "are not awaited; write it with def, without async",
                    field="hook",
                )
        self._hooks = (*self._hooks, hook)
        self.are_set = True

    def remove(self, hook: SendHook) -> None:
        """Call a hook no more; ValueError if it was not added."""
        hooks = list(self._hooks)
        hooks.remove(hook)
        self._hooks = tuple(hooks)
        self.are_set = bool(hooks)

    def check(self, context: SendContext) -> None:
        """Ask every hook; what one of them raises forbids the send."""
        for hook in self._hooks:
            hook.check(context)

    def before(self, context: SendContext) -> None:
        """Tell every hook that a send begins."""
        for hook in self._hooks:
            try:
                hook.before(context)
            except Exception as fault:
                _log_fault(hook, "before", context, fault)

    def after(self, context: SendContext) -> None:
        """Tell every hook how a send ended."""
        for hook in self._hooks:
            try:
                hook.after(context)
            except Exception as fault:
                _log_fault(hook, "after", context, fault)


def kind_of(message: Message, marks: Mapping[str, str]) -> MessageKind:
    """Return the kind of a message; ``marks`` are the properties that only RocketMQ may set.

    >>> kind_of(Message("orders", b"paid", delay_level=3), {}).name
    'DELAYED'
    """
    if marks.get(properties.TRANSACTION_PREPARED) == "true":
        return MessageKind.HALF
    if message.delay_level or message.delay is not None or message.deliver_at is not None:
        return MessageKind.DELAYED
    return MessageKind.NORMAL


def _log_fault(hook: SendHook, when: str, context: SendContext, fault: Exception) -> None:
    log.error(
        "send %s to %s: hook %s failed in %s; the send goes on",
        context.send_id,
        context.message.topic,
        type(hook).__name__,
        when,
        exc_info=fault,
    )
