"""The consumer for code without an event loop."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

from orbitmq.blocking.wrappers import Member, blocking, on_loop
from orbitmq.client.consumer import push
from orbitmq.client.consumer.delivery.iterated import Messages
from orbitmq.client.consumer.options import ConsumerOptions
from orbitmq.client.consumer.push import H
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscriptions import Selection
from orbitmq.client.core.machine import Machine
from orbitmq.client.life import ClientState
from orbitmq.client.observe.consume_hooks import ConsumeHook
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NotRunning
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.threads import start_thread

__all__ = ["Consumer"]

log = logging.getLogger("orbitmq.client")


class Consumer(Member[push.Consumer]):
    """Consumes the messages of its group; a context manager, or ``start`` and ``close``.

    The arguments and errors are those of ``orbitmq.Consumer``. A handler that is a function runs on
    threads of the consumer; a coroutine runs on the loop thread, and must not block.

    >>> from orbitmq import Message, embedded
    >>> from orbitmq.blocking.producer import Producer
    >>> with embedded.start() as cluster:
    ...     with Producer("shop", nameserver=cluster.nameserver) as producer:
    ...         _ = producer.send(Message("orders", b"paid"))
    ...     with Consumer(
    ...         "billing",
    ...         nameserver=cluster.nameserver,
    ...         subscribe={"orders": "*"},
    ...         consume_from="first",
    ...     ) as consumer:
    ...         next(iter(consumer)).body
    b'paid'
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        subscribe: Mapping[str, Selection] | Iterable[str] = (),
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            push.Consumer(
                group,
                subscribe=subscribe,
                settings=settings,
                client=client,
                machine=machine,
                **options,
            )
        )

    def __repr__(self) -> str:
        return f"<blocking Consumer {self.settings.group} {self.state.value}>"

    # Life

    @property
    def settings(self) -> ConsumerSettings:
        """Its settings."""
        return self._inner.settings

    @property
    def statistics(self) -> ConsumeStatistics:
        """Counts and times of what it consumed; NotRunning if it was never started."""
        return self._inner.statistics

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that it consumes now, without those of retries."""
        return self._inner.queues

    def on_message(self, handler: H) -> H:
        """Call a function with each message, as ``orbitmq.Consumer.on_message``; a decorator too.

        Raises:
            InvalidInput: it can't be called, or there is another one already.
            AlreadyStarted: the consumer has started.
        """
        return self._inner.on_message(handler)

    def add_hook(self, hook: ConsumeHook) -> None:
        """Call a hook around each delivery; it runs on the loop thread."""
        self._inner.add_hook(hook)

    def remove_hook(self, hook: ConsumeHook) -> None:
        """Remove a hook; ValueError if it was not added."""
        self._inner.remove_hook(hook)

    def close(self) -> None:
        """Finish what is in hand, commit, and leave the group; a repeat does nothing.

        It waits up to ``stop_timeout_ms`` for handlers. Called by its own handler it returns at
        once: the consumer closes when the handler has returned, and its message is consumed.

        Raises:
            WrongLoop, WrongProcess: it can't be closed here.
        """
        if self._inner._leave_handler():  # perhaps before the start has returned
            start_thread(self._close_behind, name="orbitmq-close", daemon=False)
        else:
            super().close()

    def _close_behind(self) -> None:
        try:
            super().close()
        except Exception:
            log.exception("%r could not be closed", self)

    def _not_running(self) -> NotRunning:
        return NotRunning(
            f"consumer {self.settings.group} is {self.state.value}; use 'with' or start(), and "
            "make a new one after its close",
            state=self.state.value,
        )

    # While it runs

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield messages until closed; taking the next one acknowledges the one before.

        Raises:
            InvalidInput: it has a handler.
            NotRunning, WrongLoop, WrongProcess: it can't be used here and now.
        """
        thread, inner = self._reach()
        messages = thread.call(_iterate, inner)
        try:
            while True:
                thread.check(self)
                message = thread.call(anext, messages, None)
                if message is None:
                    return
                yield message
        finally:
            if self._thread is not None:
                thread.call(messages.aclose)

    def wait(self) -> None:
        """Wait until it is closed, by another thread or by its handler.

        Raises:
            NotRunning: it was never started.
            WrongLoop, WrongProcess: it can't be used here.
        """
        try:
            self._wait()
        except NotRunning:
            if self.state is not ClientState.CLOSED:
                raise

    _wait = blocking(push.Consumer.wait)
    subscribe = blocking(push.Consumer.subscribe)
    unsubscribe = blocking(push.Consumer.unsubscribe)
    pause = on_loop(push.Consumer.pause)
    resume = on_loop(push.Consumer.resume)


async def _iterate(consumer: push.Consumer) -> Messages:
    return aiter(consumer)
