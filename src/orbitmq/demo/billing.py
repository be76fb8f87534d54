"""A consumer group of two that handles the orders while they arrive.

::

    shop-orders ── queues 0, 1 ──▶ member 1 ──┬── handled
                └─ queues 2, 3 ──▶ member 2 ──┴── refused ──▶ dead letter
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, NamedTuple, Self

from orbitmq.blocking import Admin, Consumer
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock, pause
from orbitmq.demo.shop import TOPIC
from orbitmq.errors import OrbitError
from orbitmq.message.model import StoredMessage

__all__ = ["Billed", "Billing"]

GROUP: Final = "shop-billing"
_MEMBERS: Final = 2
_DEAD_LETTER: Final = -1
_PAUSE_MS: Final = 10
_WAIT_MS_MAX: Final = 30_000


class Billed(NamedTuple):
    """What the members did."""

    shares: tuple[int, ...]
    """Messages of each member."""
    missing: int
    """Messages of the topic that no member got."""
    p50_ms: int
    p99_ms: int
    """From the storing of a message to its handler."""
    dead: tuple[str, ...]
    """Keys of the dead letters."""


class Billing:
    """The members; a context manager. The messages of order ``refused`` become dead letters."""

    def __init__(self, client: ClientSettings, clock: Clock, refused: str) -> None:
        self._clock = clock
        self._refused = refused
        self._took_ms: list[list[int]] = [[] for _ in range(_MEMBERS)]
        self._members = [
            Consumer(GROUP, client=client, subscribe={TOPIC: "*"}, consume_from="first")
            for _ in range(_MEMBERS)
        ]
        for member, took_ms in zip(self._members, self._took_ms, strict=True):
            member.on_message(lambda message, took_ms=took_ms: self._handle(message, took_ms))
        self._running = ExitStack()

    def _handle(self, message: StoredMessage, took_ms: list[int]) -> None:
        took_ms.append(self._clock.now_ms() - message.store_timestamp_ms)
        if self._refused in message.keys:
            raise RetryLater("its address is unknown", delay_level=_DEAD_LETTER)

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

    def result(self, admin: Admin, count: int) -> Billed:
        """Wait until the members have got ``count`` messages, stop them, and say what they did."""
        self._await(lambda: sum(map(len, self._took_ms)) >= count, f"got {count} messages")
        self._running.close()  # what was refused is at the broker by then
        took_ms = sorted(one for each in self._took_ms for one in each)
        letters = admin.dead_letters(GROUP)
        return Billed(
            shares=tuple(map(len, self._took_ms)),
            missing=count - len(took_ms),
            p50_ms=took_ms[len(took_ms) // 2],
            p99_ms=took_ms[len(took_ms) * 99 // 100],
            dead=tuple(key for letter in letters for key in letter.message.keys),
        )

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_ms = self._clock.monotonic_ms() + _WAIT_MS_MAX
        while not condition():
            if self._clock.monotonic_ms() > deadline_ms:
                raise OrbitError(f"the consumers of {GROUP} have not {what} in time")
            pause(_PAUSE_MS)
