"""Delay levels: the delay of each level, and a warning about levels that brokers may not have.

Brokers before 5.0 offer eighteen fixed delays, chosen by level. Later ones also accept any time
(``Message.delay``, ``Message.deliver_at``).
"""

import logging
from datetime import timedelta
from typing import Final

from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message

__all__ = ["DELAYS", "HighLevelWarning", "delay_level"]

log = logging.getLogger("orbitmq.client")

_S, _M, _H = 1, 60, 3600
DELAYS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(1 * _S, 5 * _S, 10 * _S, 30 * _S),
        *(minutes * _M for minutes in range(1, 11)),
        *(20 * _M, 30 * _M, 1 * _H, 2 * _H),
    )
)
"""The delays of levels 1 to 18 of a broker with default settings (``messageDelayLevel``)."""


def delay_level(delay: timedelta) -> int:
    """Return the lowest delay level that waits at least that long; 0 for no delay.

    Raises:
        InvalidInput: the delay is negative, or longer than that of the highest level.

    >>> delay_level(timedelta(seconds=5)), delay_level(timedelta(seconds=6))
    (2, 3)
    """
    if not timedelta() <= delay <= DELAYS[-1]:
        raise InvalidInput(
            f"no delay level waits for {delay}: the levels wait from {DELAYS[0]} to {DELAYS[-1]}; "
            "use Message.delay, which takes any time, with a broker of release 5.0 or later",
            field="delay",
        )
    if not delay:
        return 0
    return next(level for level, waits in enumerate(DELAYS, 1) if waits >= delay)


class HighLevelWarning:
    """Warns once per producer of a delay level that a broker with default settings lowers to 18.

    Such a level is valid: ``messageDelayLevel`` of a broker may list more than 18 delays, and a
    client can't see that setting.
    """

    def __init__(self) -> None:
        self._has_warned = False

    def look(self, message: Message) -> None:
        """Log the warning if the message's level is above 18 and none was logged before."""
        if message.delay_level > len(DELAYS) and not self._has_warned:
            self._has_warned = True
            log.warning(
                "delay_level %d of a message to %s is above %d: a broker with default delay levels "
                "delivers it after 2 h; use Message.delay for other times, or set the broker's "
                "messageDelayLevel (this is logged once per producer)",
                *(message.delay_level, message.topic, len(DELAYS)),
            )
