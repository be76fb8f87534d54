"""Every figure of ``make bench``, described once: the work, what it is compared with, and the aim.

::

    ROWS ──▶ a program measures a row ──▶ Result ──▶ table, JSON, page, check, docs

A ratio is orbitmq's cost divided by that of the other side, or its throughput divided by theirs.
"""

from typing import Final

import msgspec

from bench.notes import NOTES

__all__ = ["BY_NAME", "GROUPS", "ROWS", "Row", "Sizes"]

GROUPS: Final = {
    "broker": "CPU of the broker per message of 1 KB, with key and tag",
    "commit": "Group commit: messages per second with SYNC_FLUSH",
    "client": "CPU of the client per message of 1 KB",
    "whole": "Client and broker together, messages per second",
    "latency": "Latency",
    "start": "Start and memory",
    "collector": "Latency with Python's garbage collector frozen or tuned",
    "growth": "CPU of the broker per message of 100 bytes, 64 in flight, as it grows",
}
"""What is measured together, and its heading."""


class Sizes(msgspec.Struct, frozen=True):
    """The size of a row that is smaller in a quick run, which therefore is not comparable."""

    full: str
    quick: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    work: str
    against: str
    unit: str
    aim: float | None = None
    """The ratio to reach; None if the figure is only reported."""
    more_is_better: bool = False
    sizes: Sizes | None = None
    headline: bool = False
    """Whether it is in the short table, whose first of a group is in the README."""

    @property
    def note(self) -> str:
        """If its aim is missed: the reason, and what it would take."""
        return NOTES.get(self.name, "")

    @property
    def group(self) -> str:
        """The group: the name up to its dot."""
        return self.name.partition(".")[0]

    @property
    def aim_text(self) -> str:
        """The aim as text, such as ``≤ 0.35``."""
        if self.aim is None:
            return "–"
        return f"{'≥' if self.more_is_better else '≤'} {self.aim:g}"

    def is_met(self, ratio: float) -> bool | None:
        """Return whether a ratio meets the aim; None without an aim."""
        return None if self.aim is None else not self.is_worse(ratio, self.aim)

    def is_worse(self, ratio: float, other: float) -> bool:
        """Return whether one ratio is worse than another."""
        return ratio < other if self.more_is_better else ratio > other


def _broker(name: str, work: str, aim: float, *, headline: bool = False) -> Row:
    return Row(
        name=f"broker.{name}",
        work=work,
        against="Java broker",
        unit="µs",
        aim=aim,
        headline=headline,
    )


def _client(name: str, work: str, aim: float, *, headline: bool = False) -> Row:
    return Row(
        name=f"client.{name}",
        work=work,
        against="Java client",
        unit="µs",
        aim=aim,
        headline=headline,
    )


def _commit(waiters: int) -> Row:
    return Row(
        name=f"commit.{waiters}",
        work=f"{waiters} waiting",
        against="Java broker",
        unit="/s",
        more_is_better=True,
    )


def _latency(
    name: str,
    work: str,
    against: str = "Java broker",
    aim: float | None = None,
    sizes: Sizes | None = None,
) -> Row:
    return Row(
        name=f"latency.{name}",
        work=work,
        against=against,
        unit="ms",
        aim=aim,
        sizes=sizes,
        headline=name in ("p99", "p99.9"),
    )


def _start(
    name: str, work: str, unit: str, aim: float | None = None, sizes: Sizes | None = None
) -> Row:
    return Row(
        name=f"start.{name}",
        work=work,
        against="Java broker",
        unit=unit,
        aim=aim,
        sizes=sizes,
        headline=aim is not None,
    )


def _collector(name: str, work: str) -> Row:
    return Row(
        name=f"collector.{name}",
        work=work,
        against="collector on",
        unit="ms",
        sizes=Sizes("3 min", "5 s"),
    )


def _growth(name: str, work: str, full: str, quick: str) -> Row:
    return Row(
        name=f"growth.{name}",
        work=work,
        against="smallest size",
        unit="µs",
        aim=1.3,
        sizes=Sizes(full, quick),
    )


_PACED: Final = Sizes("10 min", "20 s")
_HANDLED: Final = Sizes("12 s", "4 s")

ROWS: Final = (
    _broker("send", "send, 1 connection, 64 in flight", 0.35, headline=True),
    _broker("connections", "send, 64 connections", 0.4, headline=True),
    _broker("send-4.9", "send as by 4.9 clients, 64 in flight", 0.35),
    _broker("batch", "batches of 16", 0.5, headline=True),
    _broker("sync", "SYNC_FLUSH, 64 waiting", 0.5, headline=True),
    _broker("pull", "pull of stored messages", 0.5, headline=True),
    _broker("long-poll", "send and long-poll delivery", 0.5, headline=True),
    _broker("delay", "delay level, delivered, pulled", 0.5, headline=True),
    _broker("timer", "delivery time, delivered, pulled", 0.7),
    _broker("transaction", "transaction, committed, pulled", 0.7, headline=True),
    *map(_commit, (1, 16, 256)),
    _client("1", "1 in flight", 0.7),
    _client("64", "64 in flight", 0.4, headline=True),
    _client("1024", "1,024 in flight", 0.7, headline=True),
    _client("batches", "4 batches of 16 in flight", 1.0),
    _client("gathered", "1,024 in flight, batched by client", 1.0, headline=True),
    _client("threads", "blocking, 16 threads", 0.7, headline=True),
    _client("consumer", "push consumer, stored messages", 0.5, headline=True),
    Row(
        name="whole.64",
        work="client to broker, 64 in flight",
        against="Java to Java",
        unit="/s",
        aim=1.8,
        more_is_better=True,
        headline=True,
    ),
    _latency("p50", "p50 of a send, 2,000/s", aim=1.0, sizes=_PACED),
    _latency("p99", "p99 of a send, 2,000/s", aim=1.0, sizes=_PACED),
    _latency("p99.9", "p99.9 of a send, 2,000/s", aim=1.0, sizes=_PACED),
    _latency("delay", "p99 after due, delay level"),
    _latency("timer", "p99 after due, delivery time"),
    _latency("handler-p50", "p50, send to handler, 1,000/s", "Java client", 1.0, _HANDLED),
    _latency("handler-p99", "p99, send to handler, 1,000/s", "Java client", 1.0, _HANDLED),
    _start("ready", "start to ready", "ms", 0.2),
    Row(
        name="start.in-test",
        work="import and start in a test",
        against="Java broker",
        unit="ms",
        aim=0.1,
    ),
    Row(
        name="start.import",
        work="import orbitmq",
        against="100 ms",
        unit="ms",
        aim=1.0,
    ),
    Row(
        name="start.help",
        work="orbitmq --help, whole process",
        against="300 ms",
        unit="ms",
        aim=1.0,
    ),
    _start("memory", "idle memory", "MB", 0.2),
    _start("connection", "memory per connection", "KB", sizes=Sizes("of 1,000", "of 500")),
    _start("queue", "memory per queue", "KB", sizes=Sizes("of 10,000", "of 1,000")),
    _start("recovery", "restart after a kill", "ms", 1.0, Sizes("2 GiB", "128 MiB")),
    Row(
        name="start.producer",
        work="our producer's memory",
        against="its first tenth",
        unit="MB",
        aim=1.05,
        sizes=Sizes("10^7 sends", "10^5 sends"),
    ),
    _collector("frozen", "p99.9, start frozen"),
    _collector("tuned", "p99.9, threshold 50,000"),
    _growth("messages", "stored messages", "10^5 to 10^7", "10^4 to 10^5"),
    _growth("queues", "queues", "4 to 10,000", "4 to 1,000"),
    _growth("connections", "open connections", "1 to 2,000", "1 to 500"),
    _growth("topics", "topics", "1 to 5,000", "1 to 500"),
)
BY_NAME: Final = {row.name: row for row in ROWS}
