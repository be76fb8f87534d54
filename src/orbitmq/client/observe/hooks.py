"""Hooks: code of an application around each send, like Java's ``SendMessageHook``.

::

    check ──raises──▶ the send is forbidden       (Java: CheckForbiddenHook)
      │
    before ─▶ all attempts ─▶ after               (also if the send failed)

An error that a hook raises in ``before`` or ``after`` is logged, and the send goes on. Hooks run on
the loop and must not block.
"""

import enum
import logging
from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from orbitmq.client.arguments import check_methods
from orbitmq.client.user_code import is_async
from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.message.trace import MessageKind

__all__ = ["HookList", "Hooks", "SendContext", "SendHook", "SendMode", "kind_of"]

log = logging.getLogger("orbitmq.client")

H = TypeVar("H")


class SendMode(enum.Enum):
    """Whether a send waits for a receipt."""

    ANSWERED = "answered"
    ONEWAY = "oneway"


class SendContext(msgspec.Struct, kw_only=True):
    """A send, as hooks see it; ``check``, ``before`` and ``after`` get the same object.

    Attributes:
        group: the producer group.
        mode: whether the send waits for a receipt.
        namespace: the namespace (version 1) that names are prefixed with; empty if none.
        message: the message; for a batch, its first message.
        messages: all messages of the send.
        message_ids: the unique ids of the messages; for a single message, the send id.
        kind: normal, delayed or half.
        send_id: the unique id of the send.
        began_ms: when it began, in milliseconds since 1970.
        queue: the queue; None before the first attempt unless the caller chose it.
        broker_address: the address of the queue's broker.
        took_ms: how long the send took; set for ``after``.
        receipt, error: the outcome; one of them is set for ``after``, neither for a one-way send.
        notes: for hooks to keep values from ``before`` to ``after``.
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
    """The base class of hooks; override the methods that you need.

    >>> class NoSecrets(SendHook):
    ...     def check(self, context: SendContext) -> None:
    ...         if b"secret" in context.message.body:
    ...             raise PermissionError("secrets are not sent")
    """

    def check(self, context: SendContext) -> None:
        """Raise to forbid the send; the caller gets ``SendForbidden`` with your error as cause."""

    def before(self, context: SendContext) -> None:
        """Run before the first attempt of a send."""

    def after(self, context: SendContext) -> None:
        """Run after a send has ended, also if it failed or was cancelled."""


class HookList(Generic[H]):
    """Hooks of one kind, in the order in which they were added.

    ``methods`` are what a hook has to have, ``base`` is the name of their base class, for errors.
    """

    def __init__(self, methods: tuple[str, ...], base: str) -> None:
        self._methods = methods
        self._base = base
        self.hooks: tuple[H, ...] = ()
        self.are_set = False
        """Whether there are any hooks."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {[type(hook).__name__ for hook in self.hooks]}>"

    def add(self, hook: H) -> None:
        """Call a hook from now on."""
        check_methods(hook, "hook", self._methods, self._base)
        for name in self._methods:
            if is_async(getattr(hook, name)):
                raise InvalidInput(
                    f"{name} of hook {type(hook).__name__[:60]} is a coroutine function, and hooks "
                    "are not awaited; write it with def, without async",
                    field="hook",
                )
        self.hooks = (*self.hooks, hook)
        self.are_set = True

    def remove(self, hook: H) -> None:
        """Remove a hook; ValueError if it was not added."""
        hooks = list(self.hooks)
        hooks.remove(hook)
        self.hooks = tuple(hooks)
        self.are_set = bool(hooks)


class Hooks(HookList[SendHook]):
    """The hooks of one producer."""

    def __init__(self) -> None:
        super().__init__(("check", "before", "after"), "orbitmq.SendHook")

    def check(self, context: SendContext) -> None:
        """Call ``check`` of every hook; an error that one raises forbids the send."""
        for hook in self.hooks:
            hook.check(context)

    def before(self, context: SendContext) -> None:
        """Call ``before`` of every hook, and log the errors that they raise."""
        for hook in self.hooks:
            _call(hook, "before", context)

    def after(self, context: SendContext) -> None:
        """Call ``after`` of every hook, and log the errors that they raise."""
        for hook in self.hooks:
            _call(hook, "after", context)


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


def _call(hook: SendHook, method: str, context: SendContext) -> None:
    try:
        getattr(hook, method)(context)
    except Exception:
        log.exception(
            "send %s to %s: hook %s raised an error in %s; the send continues",
            *(context.send_id, context.message.topic, type(hook).__name__, method),
        )
