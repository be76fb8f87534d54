"""The profile as a page."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from orbitmq.reports.charts import Series, columns, ranking
from orbitmq.reports.page import Page, Tile, note, paragraph, table
from orbitmq.spark.jobs.profiling.figures import Growth, HotKey, Profile, TopicProfile

__all__ = ["profile_page"]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_DAY_MS: Final = 86_400_000
_TOPICS: Final = ("topic", "messages", "MiB", "median", "p99", "largest", "with key", "keys")
_DISKS: Final = ("broker", "GiB a day", "retention, h", "then GiB", "disk, GiB", "used", "full in")
_TOPICS_SHOWN: Final = 10


def profile_page(found: Profile, of: str) -> str:
    """Return the page; ``of`` says what was profiled."""
    page = Page(f"Profile of {of}", _introduction(found), title=f"orbitmq profile: {of}")
    page.tiles(_tiles(found))
    said = [paragraph(text) for text in found.advice] or [paragraph("Nothing stands out.")]
    page.section("Advice", *said)
    if found.slots:
        labels = [_label(slot.start_ms, found.slot_ms) for slot in found.slots]
        each = found.slot_ms / 1000
        page.section(
            "Rates",
            columns(
                "messages per second",
                labels,
                [Series("messages", [slot.messages / each for slot in found.slots])],
            ),
            _bytes_per_second(found, labels, each),
            note(f"A bar is {each:g} s. Times are UTC; sizes are those of bodies."),
        )
    page.section("Topics", table(_TOPICS, map(_topic_row, found.topics)))
    for topic in found.topics[:_TOPICS_SHOWN]:
        page.section(f"Topic {topic.topic}", *_topic_parts(topic))
    if found.growth:
        about = (
            "The growth is that of the profiled messages at the rate of the profiled time; other "
            "topics on the disk come on top. A broker deletes files before their time once its "
            "disk is 75 % full."
        )
        page.section("Growth", table(_DISKS, map(_disk_row, found.growth)), note(about))
    return page.html()


def _introduction(found: Profile) -> str:
    if found.first_ms is None or found.last_ms is None:
        return "No message was found."
    begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (found.first_ms, found.last_ms))
    return f"Messages stored from {begin:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC."


def _bytes_per_second(found: Profile, labels: Sequence[str], each: float) -> str:
    rates = [slot.bytes / each for slot in found.slots]
    unit, size = ("MiB", _MIB) if max(rates) >= _MIB else ("KiB", _KIB)
    return columns(f"{unit} per second", labels, [Series(unit, [rate / size for rate in rates])])


def _tiles(found: Profile) -> Iterator[Tile]:
    yield Tile(f"{found.messages:,}", "messages")
    yield Tile(f"{found.bytes / _MIB:,.1f} MiB", "of bodies")
    yield Tile(f"{found.messages / found.seconds:,.1f}/s", "on average")
    if found.slots:
        most = max(slot.messages for slot in found.slots) * 1000 / found.slot_ms
        yield Tile(f"{most:,.1f}/s", "in the busiest slot")
    days = [one.days_until_full for one in found.growth if one.days_until_full is not None]
    if days:
        yield Tile(f"{min(days):.1f} days", "until a disk is full", "bad")
    elif found.growth:
        yield Tile("fits", "retention on disk", "good")


def _label(at_ms: int, slot_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    if slot_ms >= _DAY_MS:
        return f"{at:%m-%d}"
    return f"{at:%H:%M:%S}" if slot_ms < 60_000 else f"{at:%m-%d %H:%M}"


def _topic_row(topic: TopicProfile) -> tuple[str, ...]:
    return (
        topic.topic,
        f"{topic.messages:,}",
        f"{topic.bytes / _MIB:,.1f}",
        f"{topic.size_p50:,}",
        f"{topic.size_p99:,}",
        f"{topic.size_max:,}",
        f"{topic.keyed / topic.messages:.0%}",
        f"{topic.keys:,}",
    )


def _topic_parts(topic: TopicProfile) -> Iterator[str]:
    queues = sorted(topic.queues, key=lambda queue: -queue.messages)
    yield ranking(
        f"messages by queue; the fullest has {topic.skew:.2f} times the mean",
        [
            (f"{queue.broker}:{queue.queue_id}", queue.messages, f"{queue.messages:,}")
            for queue in queues[:16]
        ],
    )
    for title, most in (("hottest keys", topic.hot_keys), ("tags", topic.tags)):
        if most:
            yield ranking(title, [(one.key, one.messages, _share(one, topic)) for one in most])


def _share(one: HotKey, topic: TopicProfile) -> str:
    return f"{one.messages:,} ({one.messages / topic.messages:.1%})"


def _disk_row(one: Growth) -> tuple[str, ...]:
    gib = 1 << 30
    full = "–" if one.days_until_full is None else f"{one.days_until_full:.1f} days"
    return (
        one.broker,
        f"{one.bytes_per_day / gib:,.2f}",
        f"{one.retention_ms / 3_600_000:,.0f}",
        f"{one.retained_bytes / gib:,.2f}",
        f"{one.disk_total / gib:,.0f}",
        f"{one.disk_used / one.disk_total:.0%}",
        full,
    )
