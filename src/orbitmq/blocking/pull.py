"""The pull consumer for code without an event loop."""

from collections.abc import Iterator
from typing import Unpack

from orbitmq.blocking.wrappers import Member, blocking, on_loop
from orbitmq.client.consumer import pull
from orbitmq.client.consumer.options import PullConsumerOptions
from orbitmq.client.consumer.polling.assignments import AssignmentListener
from orbitmq.client.consumer.settings import PullConsumerSettings
from orbitmq.client.core.machine import Machine
from orbitmq.client.life import ClientState
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NotRunning
from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["PullConsumer"]


class PullConsumer(Member[pull.PullConsumer]):
    """Reads messages when it is asked to; a context manager, or ``start`` and ``close``.

    The arguments and errors are those of ``orbitmq.PullConsumer``. Threads may share it, but a poll
    of one acknowledges what another's poll returned.

    >>> from orbitmq import Message, embedded
    >>> from orbitmq.blocking.producer import Producer
    >>> with embedded.start() as cluster:
    ...     with Producer("shop", nameserver=cluster.nameserver) as producer:
    ...         _ = producer.send(Message("orders", b"paid"))
    ...     with PullConsumer(
    ...         "audit", nameserver=cluster.nameserver, consume_from="first"
    ...     ) as consumer:
    ...         consumer.subscribe("orders")
    ...         [message.body for message in consumer.poll(timeout_ms=10_000)]
    [b'paid']
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: PullConsumerSettings | None = None,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> None:
        super().__init__(
            pull.PullConsumer(group, settings=settings, client=client, machine=machine, **options)
        )

    def __repr__(self) -> str:
        return f"<blocking PullConsumer {self.settings.group} {self.state.value}>"

    # Life

    @property
    def settings(self) -> PullConsumerSettings:
        """Its settings."""
        return self._inner.settings

    @property
    def statistics(self) -> ConsumeStatistics:
        """Counts and times of what it read."""
        return self._inner.statistics

    def __exit__(self, *exc_info: object) -> None:
        if any(exc_info) and self._thread is not None:
            self.discard()
        self.close()

    def _not_running(self) -> NotRunning:
        return NotRunning(
            f"The consumer not running, please start it first. Pull consumer "
            f"{self.settings.group} is {self.state.value}; use 'with' or start(), and make a "
            "new one after its close",
            state=self.state.value,
        )

    # What it reads

    subscribe = blocking(pull.PullConsumer.subscribe)
    assign = blocking(pull.PullConsumer.assign)
    unsubscribe = blocking(pull.PullConsumer.unsubscribe)
    queues = blocking(pull.PullConsumer.queues)
    on_queues_changed = blocking(pull.PullConsumer.on_queues_changed)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that it reads now; none unless it is running."""
        return self._inner.assignment

    def on_assignment(self, listener: AssignmentListener) -> AssignmentListener:
        """Call a function when the group gives queues, or takes some; a decorator too.

        As ``orbitmq.PullConsumer.on_assignment``; a plain function may call this consumer.
        """
        return self._inner.on_assignment(listener)

    # Messages

    poll = blocking(pull.PullConsumer.poll)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield messages until it is closed; taking the next acknowledges the one before."""
        while self.state is ClientState.RUNNING:
            yield from self.poll(max_messages=1)

    # Positions and commits

    position = blocking(pull.PullConsumer.position)
    seek = blocking(pull.PullConsumer.seek)
    seek_to_begin = blocking(pull.PullConsumer.seek_to_begin)
    seek_to_end = blocking(pull.PullConsumer.seek_to_end)
    seek_to_time = blocking(pull.PullConsumer.seek_to_time)
    pause = on_loop(pull.PullConsumer.pause)
    resume = on_loop(pull.PullConsumer.resume)
    commit = blocking(pull.PullConsumer.commit)
    commit_async = on_loop(pull.PullConsumer.commit_async)
    committed = blocking(pull.PullConsumer.committed)
    begin_offset = blocking(pull.PullConsumer.begin_offset)
    end_offset = blocking(pull.PullConsumer.end_offset)
    offsets_for_time = blocking(pull.PullConsumer.offsets_for_time)
    discard = on_loop(pull.PullConsumer.discard)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        return self._inner.paused
