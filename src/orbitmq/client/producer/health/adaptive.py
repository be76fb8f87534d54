"""Adaptive fault tolerance: a bad broker gets only probes, and its full share within seconds.

The states of one broker::

    good ──▶ failed, or slower than its peers ──▶ avoided ◀── bad ──┐
     ▲                                              │ pause ended   │
     └── pause below 8 ms ◀─ good: pause ÷ 4 ◀── one probe ── × 2 ──┘

A broker that does not answer is treated as avoided until it answers.
"""

from typing import Final

import msgspec

from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing, keep

__all__ = ["AdaptiveHealth"]

_FIRST_PAUSE_MS: Final = 250
_PAUSE_MAX_MS: Final = 2_000
_PAUSE_MIN_MS: Final = 8
"""A broker with a shorter pause is good again: such a pause hardly matters."""
_RELAPSE_MS: Final = 10_000
"""A broker that fails again within this time is avoided twice as long as the last time."""
_SENDS_PER_PROBE: Final = 16
"""Sends to other brokers between two failed probes: with few sends, most would be probes."""
_SLOW_MS: Final = 100
_SLOW_TIMES: Final = 5
"""Slow: over 100 ms, and over five times the usual time of the best peer."""
_SILENT_MS: Final = 500
_SILENT_TIMES: Final = 8
"""Silent: no answer for half a second after a send, and for eight times the usual time."""
_SMOOTHING: Final = 8
"""The usual time is that of about the last eight answers."""
_NEVER_MS: Final = -(2**62)


class _BrokerRecord(msgspec.Struct):
    """What is known of one broker."""

    usual_ms: float = 0.0  # smoothed time of stored sends, from 0 up: the first may be slow
    has_stored: bool = False
    pause_ms: int = 0  # between two probes; 0: it is good
    probe_at_ms: int = 0
    probe_after: int = 0  # the number of sends to all brokers that must be reached too
    changed_ms: int = _NEVER_MS  # the last change; answers to earlier attempts don't count
    first_pause_ms: int = _FIRST_PAUSE_MS
    recovered_ms: int = _NEVER_MS
    unanswered_since_ms: int | None = None  # the first attempt since its last answer


class AdaptiveHealth(Health):
    """Probes brokers that failed, don't answer, or are slower than their peers.

    - After a failure the broker is avoided by all sends. Results of earlier attempts don't count,
      so that a hundred failures at once count as one.
    - An error about the request says nothing about the broker.
    - A broker that does not answer is noticed long before the first timeout.
    - Slow is relative to the peers in good standing: they are never all slow.

    >>> health = AdaptiveHealth()
    >>> health.learn("broker-a", AttemptOutcome.NO_ANSWER, took_ms=3, now_ms=1_000)
    >>> health.standing("broker-a", 1_001)
    <Standing.BAD: 3>
    """

    active = True

    def __init__(self) -> None:
        self._known: dict[str, _BrokerRecord] = {}
        self._sends = 0

    def sent(self, broker: str, now_ms: int) -> bool:
        """Record an attempt that leaves now; return whether it is a probe."""
        self._sends += 1
        item = self._known.get(broker)
        if item is None:
            item = keep(self._known, broker, _BrokerRecord())
        silent = self._is_silent(item, now_ms)
        if item.unanswered_since_ms is None:
            item.unanswered_since_ms = now_ms
        if not (item.pause_ms or silent):
            return False
        item.probe_at_ms = now_ms + (item.pause_ms or _FIRST_PAUSE_MS)
        item.probe_after = self._sends + _SENDS_PER_PROBE
        return True

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Record the outcome of an attempt."""
        item = self._known.get(broker)
        if item is None:
            item = keep(self._known, broker, _BrokerRecord())
        if outcome is AttemptOutcome.STORED:
            item.unanswered_since_ms = None
            item.has_stored = True
            item.usual_ms += (took_ms - item.usual_ms) / _SMOOTHING
            if took_ms > _SLOW_MS and self._is_slow(item, took_ms):
                self._worse(item, took_ms, now_ms)
            elif item.pause_ms:
                self._better(item, took_ms, now_ms)
        elif outcome is AttemptOutcome.NO_ANSWER:
            self._worse(item, took_ms, now_ms)
        elif outcome is not AttemptOutcome.UNKNOWN:
            item.unanswered_since_ms = None
            if outcome is AttemptOutcome.UNHEALTHY:
                self._worse(item, took_ms, now_ms)

    def standing(self, broker: str, now_ms: int) -> Standing:
        """Return the standing of a broker."""
        item = self._known.get(broker)
        if item is None or not (item.pause_ms or self._is_silent(item, now_ms)):
            return Standing.GOOD
        due = now_ms >= item.probe_at_ms and self._sends >= item.probe_after
        return Standing.PROBE if due else Standing.BAD

    def forget(self, broker: str) -> None:
        """Forget a broker."""
        self._known.pop(broker, None)

    def _is_slow(self, item: _BrokerRecord, took_ms: int) -> bool:
        peers = [
            peer.usual_ms
            for peer in self._known.values()
            if peer is not item and not peer.pause_ms and peer.has_stored
        ]
        limit_ms = max(_SLOW_MS, _SLOW_TIMES * min(peers)) if peers else took_ms
        return took_ms > limit_ms and item.usual_ms > limit_ms

    def _is_silent(self, item: _BrokerRecord, now_ms: int) -> bool:
        if item.unanswered_since_ms is None:
            return False
        unanswered_ms = now_ms - item.unanswered_since_ms
        return unanswered_ms > _SILENT_MS and unanswered_ms > _SILENT_TIMES * item.usual_ms

    def _worse(self, item: _BrokerRecord, took_ms: int, now_ms: int) -> None:
        if now_ms - took_ms <= item.changed_ms:
            return
        if item.pause_ms:
            item.pause_ms = min(2 * item.pause_ms, _PAUSE_MAX_MS)
        else:
            relapsed = now_ms - item.recovered_ms < _RELAPSE_MS
            twice_ms = min(2 * item.first_pause_ms, _PAUSE_MAX_MS)
            item.first_pause_ms = item.pause_ms = twice_ms if relapsed else _FIRST_PAUSE_MS
        item.changed_ms = now_ms
        item.probe_at_ms = now_ms + item.pause_ms
        item.probe_after = self._sends + _SENDS_PER_PROBE

    def _better(self, item: _BrokerRecord, took_ms: int, now_ms: int) -> None:
        if now_ms - took_ms <= item.changed_ms:
            return
        item.pause_ms //= 4
        item.changed_ms = now_ms
        item.probe_at_ms = now_ms + item.pause_ms
        item.probe_after = 0
        if item.pause_ms < _PAUSE_MIN_MS:
            item.pause_ms = 0
            item.recovered_ms = now_ms
