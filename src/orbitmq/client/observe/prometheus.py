"""The text format of Prometheus: samples with what they mean, one family after the other.

A scrape refuses a page that describes a family twice, so the samples of several clients are put
together first::

    # HELP orbitmq_producer_retries_total Retries of sends.
    # TYPE orbitmq_producer_retries_total counter
    orbitmq_producer_retries_total{group="billing"} 3
    orbitmq_producer_retries_total{group="shop"} 0
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

__all__ = ["FAMILIES", "Family", "Sample", "Sampled", "page"]


class Sample(NamedTuple):
    """One Prometheus sample.

    >>> print(Sample("orbitmq_producer_errors_total", (("error", "SendTimeout"),), 3))
    orbitmq_producer_errors_total{error="SendTimeout"} 3
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in self.labels)
        return f"{self.name}{{{labels}}} {self.value:.16g}"


class Sampled(Protocol):
    """The statistics of a client."""

    def samples(self) -> Iterator[Sample]:
        """Yield all counters since the start."""
        ...


class Family(NamedTuple):
    """What the samples of one name have in common."""

    kind: str
    means: str


FAMILIES: Final[Mapping[str, Family]] = {
    "orbitmq_producer_messages_total": Family("counter", "Messages that brokers stored."),
    "orbitmq_producer_errors_total": Family("counter", "Messages whose send failed."),
    "orbitmq_producer_oneway_messages_total": Family(
        "counter", "Messages that were sent without waiting for an answer."
    ),
    "orbitmq_producer_retries_total": Family("counter", "Retries of sends."),
    "orbitmq_producer_send_seconds": Family(
        "histogram", "How long sends took, until the answer of the broker."
    ),
    "orbitmq_consumer_pulled_messages_total": Family("counter", "Messages that pulls brought."),
    "orbitmq_consumer_pull_seconds": Family("summary", "How long pulls took."),
    "orbitmq_consumer_consumed_messages_total": Family(
        "counter", "Messages that the application consumed."
    ),
    "orbitmq_consumer_failed_messages_total": Family(
        "counter", "Messages that the application failed on, or that were given back."
    ),
    "orbitmq_consumer_consume_seconds": Family("summary", "How long the application took."),
}
"""Every family of the clients, in the order of the page."""

_PARTS: Final = ("_bucket", "_sum", "_count")


def page(samples: Iterable[Sample]) -> str:
    """Return samples as a page, each family once, with HELP and TYPE.

    >>> print(page([Sample("orbitmq_producer_retries_total", (("group", "shop"),), 3)]), end="")
    # HELP orbitmq_producer_retries_total Retries of sends.
    # TYPE orbitmq_producer_retries_total counter
    orbitmq_producer_retries_total{group="shop"} 3
    """
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(_family(sample.name), []).append(sample)
    lines = []
    for name, family in FAMILIES.items():
        if name in found:
            lines += [f"# HELP {name} {family.means}", f"# TYPE {name} {family.kind}"]
            lines += map(str, found[name])
    return "".join(f"{line}\n" for line in lines)


def _family(name: str) -> str:
    if name in FAMILIES:
        return name
    return next(name.removesuffix(part) for part in _PARTS if name.endswith(part))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
