import re
from collections.abc import Iterator

from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.observe.prometheus import FAMILIES, Sample, page
from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.clock import SystemClock
from orbitmq.errors import SendUnreachable
from orbitmq.message.model import SendStatus

TYPES = {"counter", "histogram", "summary"}


def producer(group: str) -> SendStatistics:
    statistics = SendStatistics(group, now_ms=0)
    statistics.stored(SendStatus.SEND_OK, 3, now_ms=10)
    statistics.failed_with(SendUnreachable("x", topic="t", send_id="i"))
    return statistics


def consumer(group: str) -> ConsumeStatistics:
    statistics = ConsumeStatistics(group, SystemClock())
    for topic in ("orders", "payments"):
        statistics.pulled(topic, 32, took_ms=20)
        statistics.consumed(topic, 30, took_ms=250)
        statistics.failed(topic, 2)
    return statistics


def families(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, the type and the samples of each family, as a scrape reads a page."""
    parts = re.split(r"(?m)^# HELP ", text)
    assert parts[0] == ""
    for part in parts[1:]:
        described, typed, *samples = part.splitlines()
        name, _, means = described.partition(" ")
        assert means.endswith(".")
        head, of, kind = typed.rpartition(f" {name} ")
        assert (head, of) == ("# TYPE", f" {name} ")
        yield name, kind, samples


def test_a_page_describes_each_family_once_whatever_clients_are_on_it() -> None:
    text = producer("shop").prometheus(producer("billing"), consumer("audit"))
    found = list(families(text))
    names = [name for name, _, _ in found]
    assert names == list(FAMILIES)
    assert {kind for _, kind, _ in found} == TYPES
    for name, _, samples in found:
        assert samples
        assert all(line.startswith(name) for line in samples)
    assert text.count('orbitmq_producer_retries_total{group="shop"}') == 1
    assert text.count('orbitmq_producer_retries_total{group="billing"}') == 1


def test_a_family_without_samples_is_left_out() -> None:
    assert page([]) == ""


def test_large_counts_keep_their_digits() -> None:
    assert str(Sample("x", (), 12_345_678_901)) == "x{} 12345678901"


def test_labels_are_escaped() -> None:
    sample = Sample("x", (("group", 'a"b\\c\nd'),), 1)
    assert str(sample) == 'x{group="a\\"b\\\\c\\nd"} 1'
