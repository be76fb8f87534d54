"""A consumer group of two that handles the orders while they arrive, and fails on one.

::

    shop-orders ── queues 0, 1 ──▶ member 1 ──┬── handled
                └─ queues 2, 3 ──▶ member 2 ──┴── fails ──▶ a second later ──▶ fails ──▶ …
                                                             the third time: a dead letter
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Self

from orbitmq.blocking import Admin, Consumer
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock, pause
from orbitmq.demo.figures import Billed
from orbitmq.demo.latency import spread
from orbitmq.demo.shop import TOPIC, Event
from orbitmq.errors import OrbitError
from orbitmq.message.model import StoredMessage

__all__ = ["Billing"]

GROUP: Final = "shop-billing"
_MEMBERS: Final = 2
_RETRIES: Final = 2
_RETRY_LEVEL: Final = 1  # one second, as brokers are set by default; without it ten, then thirty
_PAUSE_MS: Final = 10
_WAIT_MS_MAX: Final = 60_000


class Billing:
    """The members; a context manager. Their handler fails on the messages of order ``refused``."""

    def __init__(self, client: ClientSettings, clock: Clock, refused: str) -> None:
        self._clock = clock
        self._refused = refused
        self._took_ms: list[list[int]] = [[] for _ in range(_MEMBERS)]
        self._failures: list[str] = []
        self._members = [
            Consumer(
                GROUP,
                client=client,
                subscribe={TOPIC: "*"},
                consume_from="first",
                max_reconsume_times=_RETRIES,
                trace=True,
            )
            for _ in range(_MEMBERS)
        ]
        for member, took_ms in zip(self._members, self._took_ms, strict=True):
            member.on_message(lambda message, took_ms=took_ms: self._handle(message, took_ms))
        self._running = ExitStack()

    def _handle(self, message: StoredMessage, took_ms: list[int]) -> None:
        if message.reconsume_times == 0:
            took_ms.append(self._clock.now_ms() - message.store_timestamp_ms)
        if self._refused in message.keys:
            self._failures.append(message.message_id)
            raise RetryLater("its address is unknown", delay_level=_RETRY_LEVEL)

    def __enter__(self) -> Self:
        for member in self._members:
            self._running.enter_context(member)
        self._await(self._is_shared, "shared the queues")
        return self

    def _is_shared(self) -> bool:
        first, second = (member.queues for member in self._members)
        return len(first) == len(second) > 0 and not first & second

    def __exit__(self, *exc_info: object) -> None:
        self._running.close()

    def result(self, admin: Admin, happened: Sequence[Event]) -> Billed:
        """Wait until the members are done with all events, stop them, and say what they did."""
        dead = sum(event.order == self._refused for event in happened)
        self._await(
            lambda: sum(map(len, self._took_ms)) >= len(happened), f"got {len(happened)} messages"
        )
        self._await(lambda: _dead(admin) >= dead, f"given up on order {self._refused}")
        self._running.close()  # with the last reports to the trace topic
        return Billed(
            shares=tuple(map(len, self._took_ms)),
            missing=len(happened) - sum(map(len, self._took_ms)),
            took=spread(one for each in self._took_ms for one in each),
            refused=self._refused,
            deliveries=len(self._failures),
            dead=_dead(admin),
        )

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_ms = self._clock.monotonic_ms() + _WAIT_MS_MAX
        while not condition():
            if self._clock.monotonic_ms() > deadline_ms:
                raise OrbitError(f"the consumers of {GROUP} have not {what} in time")
            pause(_PAUSE_MS)


def _dead(admin: Admin) -> int:
    return sum(1 for _ in admin.dead_letters(GROUP))
