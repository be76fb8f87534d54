"""``orbitmq store``: inspect and verify a store directory, without a broker.

Both commands only read, and may run while a broker uses the store.
"""

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from orbitmq.cli.asking import described
from orbitmq.cli.cluster import add_json_option, print_found
from orbitmq.cli.render import ProgressBar, elided, human_size, local_time, table
from orbitmq.store.reader.inspect import QueueTotals, Summary, inspect
from orbitmq.store.reader.reader import Damage, StoreReader
from orbitmq.store.reader.verify import Verdict, verify

__all__ = ["add_arguments"]

_WIDTH: Final = 80
_DAMAGED: Final = 1
_LEAST_TOPIC: Final = 8
_DAMAGES_SHOWN: Final = 20


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq store``."""
    commands = command.add_subparsers(metavar="COMMAND")
    for name, run, purpose in (
        ("inspect", _inspect, "show the contents of a store: topics, queues, times, disk use"),
        ("verify", _verify, "read all of a store and report damage"),
    ):
        one = commands.add_parser(name, help=purpose)
        described(
            one,
            f"{purpose.capitalize()}. Only reads; a broker may be running.",
            examples=[f"store {name} orbitmq-data"],
            status="0 sound, 1 damaged, 2 not a store or not readable",
        )
        one.add_argument("directory", metavar="DIR", help="the store's root directory")
        one.add_argument(
            "--commit-log",
            metavar="DIR",
            help="the directory of the commit log, if storePathCommitLog sets one",
        )
        add_json_option(one)
        one.set_defaults(run=run)


def _inspect(arguments: argparse.Namespace) -> int:
    reader = StoreReader(arguments.directory, commit_log=arguments.commit_log)
    with ProgressBar("reading") as bar:
        summary = inspect(reader, bar)
    print_found(summary, summary_lines(summary), as_json=arguments.json)
    return _DAMAGED if summary.is_damaged else 0


def _verify(arguments: argparse.Namespace) -> int:
    reader = StoreReader(arguments.directory, commit_log=arguments.commit_log)
    with ProgressBar("checking") as bar:
        verdict = verify(reader, bar)
    print_found(verdict, verdict_lines(verdict), as_json=arguments.json)
    return _DAMAGED if verdict.is_damaged else 0


def summary_lines(summary: Summary) -> Iterator[str]:
    """Yield what ``inspect`` prints, at most 80 columns wide except for names."""
    topics = {queue.topic for queue in summary.queues}
    log = summary.disk["commitlog"]
    yield f"Store      {summary.directory}"
    yield f"State      {_STATES[summary.stopped_cleanly]}"
    yield (
        f"Messages   {summary.messages:,} in {_counted(len(topics), 'topic')}, "
        f"{_counted(len(summary.queues), 'queue')}, {human_size(summary.bytes)}"
    )
    first, last = summary.first_stored_ms, summary.last_stored_ms
    if first is not None:
        yield f"Stored     {local_time(first)} to {local_time(last)}"
    yield (
        f"Log        {summary.log_start:,} to {summary.log_end:,} in {_counted(log.files, 'file')}"
    )
    parts = (f"{human_size(use.bytes)} {_PARTS[name]}" for name, use in summary.disk.items())
    yield f"Files      {', '.join(parts)}"
    if summary.queues:
        yield ""
        yield from _queue_table(summary.queues)
    yield ""
    yield from _damage_lines(summary.damages, summary.damage_count, clean=_NOTHING_SEEN)


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what ``verify`` prints, at most 80 columns wide except for names."""
    yield f"Store      {verdict.directory}"
    yield f"Log        {_counted(verdict.messages, 'message')} read, checksums compared"
    yield (
        f"Queues     {_counted(verdict.queue_entries, 'entry', 'entries')} of "
        f"{_counted(verdict.queues, 'queue')} compared with the log"
    )
    yield (
        f"Index      {_counted(verdict.index_files, 'file')} of "
        f"{_counted(verdict.index_entries, 'entry', 'entries')} compared with the log"
    )
    if verdict.not_checked:
        yield f"Skipped    {', '.join(verdict.not_checked)}"
    yield ""
    yield from _damage_lines(verdict.damages, verdict.damage_count, clean="The store is sound.")


_NOTHING_SEEN: Final = (
    "No damage seen. orbitmq store verify also checks checksums, queues and index."
)
_STATES: Final = {
    True: "stopped cleanly",
    False: "in use, or not stopped cleanly",
}


_PARTS: Final = {"commitlog": "log", "consumequeue": "queues", "index": "index", "other": "other"}
_HEADS: Final = ("TOPIC", "QUEUE", "MESSAGES", "SIZE", "OFFSETS", "LAST STORED")


def _queue_table(queues: Sequence[QueueTotals]) -> list[str]:
    """Return a table of queues; topics are shortened to fit 80 columns."""
    cells = [
        (
            str(queue.queue_id),
            f"{queue.messages:,}",
            human_size(queue.bytes),
            f"{queue.min_offset}..{queue.max_offset}",
            local_time(queue.last_stored_ms)[: len("2026-01-01 00:00")],
        )
        for queue in queues
    ]
    room = _WIDTH - len(table(_HEADS, [("", *row) for row in cells])[0]) + len(_HEADS[0])
    rows = []
    topic = None
    for queue, row in zip(queues, cells, strict=True):
        shown = "" if queue.topic == topic else elided(queue.topic, max(room, _LEAST_TOPIC))
        rows.append((shown, *row))
        topic = queue.topic
    return table(_HEADS, rows)


def _damage_lines(damages: Sequence[Damage], count: int, *, clean: str) -> Iterator[str]:
    yield f"DAMAGED    {_counted(count, 'place')}" if count else clean
    for damage in damages[:_DAMAGES_SHOWN]:
        yield from _damage_paragraph(damage)
    if len(damages) > _DAMAGES_SHOWN:
        yield f"  … and more; --json shows the first {len(damages):,}"


def _damage_paragraph(damage: Damage) -> list[str]:
    mark = "note:" if damage.harmless else "×"
    skipped = f" ({human_size(damage.skipped_bytes)} skipped)" if damage.skipped_bytes else ""
    text = f"{mark} {damage.where} at byte {damage.position:,}: {damage.reason}{skipped}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False
    )


def _counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with a noun in singular or plural.

    >>> _counted(1, "queue"), _counted(2500, "entry", "entries")
    ('1 queue', '2,500 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
