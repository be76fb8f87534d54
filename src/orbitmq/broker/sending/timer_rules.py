"""When a send with a delivery time is delivered, and where it waits: Java's ``HookUtils``.

::

    TIMER_DELAY_SEC, else TIMER_DELAY_MS, else TIMER_DELIVER_MS
      not a number, or after timerMaxDelaySec ─▶ refused
      now or earlier                          ─▶ delivered at once
      later                                   ─▶ rmq_sys_wheel_timer, with TIMER_OUT_MS

TIMER_OUT_MS is the time of the slot before the delivery time: messages of a slot are delivered when
it has passed, never earlier than asked.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from orbitmq.broker.sending.stored_properties import asks_for_timer
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.ids import recall_handle
from orbitmq.message.names import RETRY_PREFIX, TIMER_TOPIC
from orbitmq.net.refusal import Refusal
from orbitmq.randomness import Randomness
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX

__all__ = ["TimerRules"]

_THOUSAND: Final = 1000
_RETRY: Final = RETRY_PREFIX.encode()
_real_topic = properties.finder(properties.REAL_TOPIC.encode())
_out_ms = properties.finder(properties.TIMER_OUT_MS.encode())


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class TimerRules:
    """Finds the place of sends with a delivery time.

    ``in_slot`` returns how many messages wait in the slot of a time.
    """

    settings: LiveSettings
    clock: Clock
    randomness: Randomness
    in_slot: Callable[[int], int]

    def place(self, found: dict[str, str], topic: str, queue_id: int) -> tuple[str, int]:
        """Return the topic and queue that a message without a delay level is stored in.

        If it waits for its time, its destination is noted in its properties.
        """
        if not asks_for_timer(found):
            return topic, queue_id
        store = self.settings.store
        if not store.timer_wheel_enabled:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false; set it, or use "
                "a delay level",
            )
        now_ms = self.clock.now_ms()
        deliver_ms = self._deliver_ms(found, now_ms)
        if deliver_ms <= now_ms:
            if properties.TIMER_DELETE_UNIQUE_KEY in found:
                raise self._illegal(f"{now_ms - deliver_ms} ms ago is too late for a recall")
            return topic, queue_id
        if deliver_ms - now_ms > store.timer_max_delay_s * _THOUSAND:
            raise self._illegal("the delay is longer; timerMaxDelaySec allows more")
        step_ms = store.timer_precision_ms
        out_ms = (deliver_ms - 1) // step_ms * step_ms
        self._check_room(out_ms)
        found[properties.TIMER_OUT_MS] = str(out_ms)
        found[properties.REAL_TOPIC] = topic
        found[properties.REAL_QUEUE_ID] = str(queue_id)
        return TIMER_TOPIC, 0

    def handle(self, text: bytes, unique_key: str | None) -> str | None:
        """Return the handle to recall a placed message with; None if it can't be recalled."""
        topic, out_ms = _real_topic(text), _out_ms(text)
        if unique_key is None or topic is None or out_ms is None or topic.startswith(_RETRY):
            return None
        name = self.settings.broker.broker_name
        try:
            # One later than the slot's time: the same rules bring a recall into the same slot.
            return recall_handle(topic.decode(), name, int(out_ms) + 1, unique_key)
        except InvalidInput:
            return None  # a client may send any unique key, and a handle has no blanks

    def _deliver_ms(self, found: Mapping[str, str], now_ms: int) -> int:
        if (seconds := found.get(properties.TIMER_DELAY_SEC)) is not None:
            return now_ms + self._number(properties.TIMER_DELAY_SEC, seconds) * _THOUSAND
        if (delay := found.get(properties.TIMER_DELAY_MS)) is not None:
            return now_ms + self._number(properties.TIMER_DELAY_MS, delay)
        name = properties.TIMER_DELIVER_MS
        return self._number(name, found[name])

    def _number(self, name: str, text: str) -> int:
        """Parse as Java's ``Long.parseLong``; Python's integers don't overflow."""
        if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None or abs(int(text)) > INT64_MAX:
            raise self._illegal(f"{name} is {text[:24]!r}, not a number of this size")
        return int(text)

    def _illegal(self, why: str) -> Refusal:
        limit_ms = self.settings.store.timer_max_delay_s * _THOUSAND
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{limit_ms}ms; or if set del msg, the delay time should be bigger than the current "
            f"time: {why}",
        )

    def _check_room(self, out_ms: int) -> None:
        limit = self.settings.store.timer_slot_messages_max
        count = self.in_slot(out_ms)
        if count <= limit or (count < 2 * limit and self.randomness.below(limit) >= count - limit):
            return
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"timer message is under flow control, max num limit is {2 * limit} or the current "
            f"value is greater than {limit} and less than {2 * limit}, trigger random flow "
            f"control: {count} messages wait for the same time; choose another one, or raise "
            "timerCongestNumEachSlot",
        )
