"""The adaptive way: a bad broker's share shrinks to probes, and grows back within seconds.

What is known of one broker::

    good ──▶ failed, or slower than its peers ──▶ resting ◀── bad ──┐
     ▲                                              │ rest over     │
     └── rest below 8 ms ◀── good: rest ÷ 4 ◀── one probe ── × 2 ───┘

A broker that is silent is treated as if it rested, until it is heard.
"""

from typing import Final

import msgspec

from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing, keep

__all__ = ["AdaptiveHealth"]

_FIRST_REST_MS: Final = 250
_REST_MAX_MS: Final = 2_000
_REST_OVER_MS: Final = 8
"""A broker with so short a rest is good again: at such a pace the rest hardly shows."""
_RELAPSE_MS: Final = 10_000
"""Who falls ill again within this time begins with twice the rest of the last time."""
_SENDS_PER_PROBE: Final = 16
"""So many sends go elsewhere between two probes that fail: else most of few would be probes."""
_SLOW_MS: Final = 100
_SLOW_TIMES: Final = 5
"""Slow is: over 100 ms, and over five times the usual of the best peer."""
_SILENT_MS: Final = 500
_SILENT_TIMES: Final = 8
"""Silent is: nothing heard for half a second after a send, and for eight times the usual."""
_SMOOTHING: Final = 8
"""The last eight answers, roughly, are what is usual."""
_NEVER_MS: Final = -(2**62)


class _BrokerRecord(msgspec.Struct):
    """What ``adaptive`` knows of one broker."""

    usual_ms: float = 0.0  # smoothed time of what it stored, from 0 up: the first may be slow
    has_stored: bool = False
    rest_ms: int = 0  # between two probes; 0: it is good
    probe_at_ms: int = 0
    probe_after: int = 0  # the number of sends, of all brokers, that has to be reached too
    changed_ms: int = _NEVER_MS  # when its standing changed; tries that left before are old news
    first_rest_ms: int = _FIRST_REST_MS
    cured_ms: int = _NEVER_MS
    unheard_since_ms: int | None = None  # the first try that left after the last sign of life


class AdaptiveHealth(Health):
    """Probes those who failed, are silent, or are slower than their peers.

    - A failure rests its broker at once, for all sends. Answers to tries that left before are old
      news, so that a hundred failures at one moment count as one.
    - An error about the request itself says nothing of the broker.
    - A broker that swallows requests is noticed by its silence, long before the first timeout.
    - Slow is judged against the peers in good standing: never are all of them slow.

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
        """Take note of a try that leaves now; return whether it is a probe."""
        self._sends += 1
        item = self._known.get(broker)
        if item is None:
            item = keep(self._known, broker, _BrokerRecord())
        silent = self._is_silent(item, now_ms)
        if item.unheard_since_ms is None:
            item.unheard_since_ms = now_ms
        if not (item.rest_ms or silent):
            return False
        item.probe_at_ms = now_ms + (item.rest_ms or _FIRST_REST_MS)
        item.probe_after = self._sends + _SENDS_PER_PROBE
        return True

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Take note of how a try ended."""
        item = self._known.get(broker)
        if item is None:
            item = keep(self._known, broker, _BrokerRecord())
        if outcome is AttemptOutcome.STORED:
            item.unheard_since_ms = None
            item.has_stored = True
            item.usual_ms += (took_ms - item.usual_ms) / _SMOOTHING
            if took_ms > _SLOW_MS and self._is_slow(item, took_ms):
                self._worse(item, took_ms, now_ms)
            elif item.rest_ms:
                self._better(item, took_ms, now_ms)
        elif outcome is AttemptOutcome.NO_ANSWER:
            self._worse(item, took_ms, now_ms)
        elif outcome is not AttemptOutcome.UNKNOWN:
            item.unheard_since_ms = None
            if outcome is AttemptOutcome.UNHEALTHY:
                self._worse(item, took_ms, now_ms)

    def standing(self, broker: str, now_ms: int) -> Standing:
        """Return how much the broker deserves the next send."""
        item = self._known.get(broker)
        if item is None or not (item.rest_ms or self._is_silent(item, now_ms)):
            return Standing.GOOD
        due = now_ms >= item.probe_at_ms and self._sends >= item.probe_after
        return Standing.PROBE if due else Standing.BAD

    def forget(self, broker: str) -> None:
        """Drop what is known of a broker."""
        self._known.pop(broker, None)

    def _is_slow(self, item: _BrokerRecord, took_ms: int) -> bool:
        peers = [
            peer.usual_ms
            for peer in self._known.values()
            if peer is not item and not peer.rest_ms and peer.has_stored
        ]
        limit_ms = max(_SLOW_MS, _SLOW_TIMES * min(peers)) if peers else took_ms
        return took_ms > limit_ms and item.usual_ms > limit_ms

    def _is_silent(self, item: _BrokerRecord, now_ms: int) -> bool:
        if item.unheard_since_ms is None:
            return False
        unheard_ms = now_ms - item.unheard_since_ms
        return unheard_ms > _SILENT_MS and unheard_ms > _SILENT_TIMES * item.usual_ms

    def _worse(self, item: _BrokerRecord, took_ms: int, now_ms: int) -> None:
        if now_ms - took_ms <= item.changed_ms:
            return
        if item.rest_ms:
            item.rest_ms = min(2 * item.rest_ms, _REST_MAX_MS)
        else:
            relapsed = now_ms - item.cured_ms < _RELAPSE_MS
            twice_ms = min(2 * item.first_rest_ms, _REST_MAX_MS)
            item.first_rest_ms = item.rest_ms = twice_ms if relapsed else _FIRST_REST_MS
        item.changed_ms = now_ms
        item.probe_at_ms = now_ms + item.rest_ms
        item.probe_after = self._sends + _SENDS_PER_PROBE

    def _better(self, item: _BrokerRecord, took_ms: int, now_ms: int) -> None:
        if now_ms - took_ms <= item.changed_ms:
            return
        item.rest_ms //= 4
        item.changed_ms = now_ms
        item.probe_at_ms = now_ms + item.rest_ms
        item.probe_after = 0
        if item.rest_ms < _REST_OVER_MS:
            item.rest_ms = 0
            item.cured_ms = now_ms
