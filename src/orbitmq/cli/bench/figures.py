"""What a load measured: counts, rates and latencies, for a terminal and as JSON."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from orbitmq.cli.render import WIDTH, human_size
from orbitmq.errors import OrbitError

__all__ = ["Figures", "Latencies", "LiveLine", "figure_lines"]

_FINE: Final = 64
"""Steps between a duration and its double: percentiles are at most 1.6 % too high."""
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_DRAW_S: Final = 0.2


class Latencies:
    """Durations, kept as counts of steps that grow with them, so that memory is bounded.

    >>> latencies = Latencies()
    >>> for ms in range(1, 101):
    ...     latencies.add(ms / 1000)
    >>> latencies.as_ms()
    {'p50': 50.2, 'p90': 90.1, 'p99': 99.3, 'p999': 100.0, 'max': 100.0}
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._most_us = 0

    def add(self, seconds: float) -> None:
        """Count a duration; one below zero, of clocks that differ, counts as zero."""
        us = max(int(seconds * 1_000_000), 0)
        self._counts[_step(us)] += 1
        self._most_us = max(self._most_us, us)

    def as_ms(self) -> dict[str, float]:
        """Return percentiles and the longest, in milliseconds; empty without any."""
        if not self._counts:
            return {}
        total, upto = self._counts.total(), 0
        wanted = dict(_SHARES)
        found: dict[str, float] = {}
        for step, count in sorted(self._counts.items()):
            upto += count
            while wanted and upto >= next(iter(wanted.values())) * total:
                name = next(iter(wanted))
                del wanted[name]
                found[name] = round(min(_end_us(step), self._most_us) / 1000, 1)
        return {**found, "max": round(self._most_us / 1000, 1)}


def _step(us: int) -> int:
    """Return the number of the step that a duration is in: exact up to 64 µs."""
    shift = max(us.bit_length() - _FINE.bit_length(), 0)
    return shift * _FINE + (us >> shift)


def _end_us(step: int) -> int:
    """Return the last duration in a step."""
    shift = max(step // _FINE - 1, 0)
    return ((step - shift * _FINE + 1) << shift) - 1


class Figures:
    """The figures of one direction: messages sent, or messages received."""

    def __init__(self, what: str, now: Callable[[], float]) -> None:
        self.what = what
        self.messages = 0
        self.bytes = 0
        self.failed = 0
        self.errors: Counter[str] = Counter()
        self.first_error: OrbitError | None = None
        self.latencies = Latencies()
        self._now = now
        self._began = self._last = now()

    def add(self, messages: int, size: int) -> None:
        """Count messages that were sent or received by now."""
        self.messages += messages
        self.bytes += size
        self._last = self._now()

    def fail(self, error: OrbitError) -> None:
        """Count a message that could not be sent."""
        self.failed += 1
        self.first_error = self.first_error or error
        self.errors[type(error).__name__] += 1

    @property
    def seconds(self) -> float:
        """How long it took, to the last message."""
        return self._last - self._began

    def per_second(self, amount: int) -> float:
        """Return an amount of the whole time as one per second."""
        return amount / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, object]:
        """Return what ``--json`` prints."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "failed": self.failed,
            "errors": dict(self.errors),
            "first_error": None if self.first_error is None else str(self.first_error),
            "seconds": round(self.seconds, 3),
            "per_second": round(self.per_second(self.messages), 1),
            "bytes_per_second": round(self.per_second(self.bytes), 1),
            "latency_ms": self.latencies.as_ms(),
        }


def figure_lines(figures: Figures) -> Iterator[str]:
    """Yield what is printed at the end."""
    size = human_size(int(figures.per_second(figures.bytes)))
    yield f"{figures.what.capitalize():<11}{figures.messages:,} messages in {figures.seconds:.1f} s"
    yield f"Rate       {figures.per_second(figures.messages):,.0f} per second, {size}/s"
    if found := figures.latencies.as_ms():
        shown = ", ".join(f"{name} {value:,} ms" for name, value in found.items())
        yield f"Latency    {shown.replace('p999', 'p99.9')}"
    if figures.failed:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in figures.errors.most_common())
        yield f"Failed     {figures.failed:,}: {kinds}"
        yield from textwrap.wrap(
            f"First      {figures.first_error}", WIDTH, subsequent_indent=" " * 11
        )


class LiveLine:
    """A line on a terminal with the figures so far, redrawn five times a second; else nothing."""

    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._now = now
        self._drawn = now()
        self._before: dict[str, int] = {}
        self._is_drawn = False

    def draw(self, *all_figures: Figures) -> None:
        """Draw the counts, and the rates since the line before."""
        since = self._now() - self._drawn
        if not self._shown or since < _DRAW_S:
            return
        parts = []
        for one in all_figures:
            rate = (one.messages - self._before.get(one.what, 0)) / since
            self._before[one.what] = one.messages
            p99 = one.latencies.as_ms().get("p99")
            late = "" if p99 is None else f", p99 {p99:,} ms"
            parts.append(f"{one.messages:,} {one.what}, {rate:,.0f}/s{late}")
        self._stream.write(f"\r{'; '.join(parts)[:79]}\x1b[K")
        self._stream.flush()
        self._drawn, self._is_drawn = self._now(), True

    def clear(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
