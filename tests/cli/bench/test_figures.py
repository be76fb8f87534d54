import io
from random import Random

import pytest

from orbitmq.cli.bench.figures import Figures, Latencies, LiveLine, figure_lines
from orbitmq.errors import SendUnreachable
from tests.cli.terminal import Terminal


class Now:
    """A clock that moves when it is told."""

    at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_at_most_a_64th_too_high(seed: int) -> None:
    chance = Random(seed)
    durations = sorted(chance.lognormvariate(-6, 2) for _ in range(2_000))
    latencies = Latencies()
    for one in durations:
        latencies.add(one)
    found = latencies.as_ms()
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        exact_ms = durations[round(share * len(durations)) - 1] * 1_000
        assert exact_ms - 0.06 <= found[name] <= exact_ms * (1 + 1 / 64) + 0.06
    assert found["max"] == round(int(durations[-1] * 1_000_000) / 1_000, 1)


def test_memory_does_not_grow_with_the_number_of_durations() -> None:
    latencies = Latencies()
    for us in range(0, 10_000_000, 37):
        latencies.add(us / 1_000_000)
    assert len(latencies._counts) < 1_500


def test_clocks_that_differ_make_no_negative_latency() -> None:
    latencies = Latencies()
    latencies.add(-3.0)
    assert set(latencies.as_ms().values()) == {0.0}
    assert Latencies().as_ms() == {}


def test_rates_are_those_up_to_the_last_message() -> None:
    now = Now()
    figures = Figures("sent", now)
    now.at += 2
    figures.add(1_000, 1_024_000)
    figures.latencies.add(0.004)
    reason = "no broker " + "of several " * 10
    figures.fail(SendUnreachable(reason, topic="t", send_id="i"))
    now.at += 60  # of waiting for something else
    assert figures.as_json() == {
        "messages": 1_000,
        "bytes": 1_024_000,
        "failed": 1,
        "errors": {"SendUnreachable": 1},
        "first_error": reason,
        "seconds": 2.0,
        "per_second": 500.0,
        "bytes_per_second": 512_000.0,
        "latency_ms": {"p50": 4.0, "p90": 4.0, "p99": 4.0, "p999": 4.0, "max": 4.0},
    }
    lines = list(figure_lines(figures))
    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "Sent       1,000 messages in 2.0 s",
        "Rate       500 per second, 500.0 KiB/s",
        "Latency    p50 4.0 ms, p90 4.0 ms, p99 4.0 ms, p99.9 4.0 ms, max 4.0 ms",
        "Failed     1: 1 SendUnreachable",
        "First      no broker of several of several of several of several of several of",
    ]


def test_a_terminal_shows_the_figures_so_far() -> None:
    now, terminal = Now(), Terminal()
    sent, received = Figures("sent", now), Figures("received", now)
    line = LiveLine(terminal, now)
    sent.add(500, 0)
    line.draw(sent, received)  # too early
    now.at += 0.5
    sent.latencies.add(0.002)
    line.draw(sent, received)
    line.clear()
    assert terminal.getvalue() == ("\r500 sent, 1,000/s, p99 2.0 ms; 0 received, 0/s\x1b[K\r\x1b[K")


def test_nothing_is_drawn_into_a_file() -> None:
    now, file = Now(), io.StringIO()
    line = LiveLine(file, now)
    now.at += 1
    line.draw(Figures("sent", now))
    line.clear()
    assert file.getvalue() == ""
