"""What came of a run, by fault: for the terminal, the JSON file and the docs."""

from statistics import median

import msgspec

from bench.chaos.history import Judged
from bench.chaos.plan import CONFIGURATIONS, LOSING, Configuration
from bench.measure import Cell, table

__all__ = ["FaultSummary", "Summary", "broken_promises", "summary_of", "summary_table"]


class FaultSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of one fault."""

    fault: str
    rounds: int
    acknowledged: int
    """With SEND_OK."""
    lost: int
    weaker: int
    """With another status: the master has the message, and more is not said."""
    weaker_lost: int
    failed: int
    stored_twice: int
    delivered_twice: int
    skipped: int
    outage_s_p50: float
    outage_s_max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The run of one configuration."""

    name: str
    flush: str
    role: str
    seconds: float
    faults: tuple[FaultSummary, ...]
    broken: tuple[str, ...]
    """Broken laws."""
    skipped: str = ""
    """Why it did not run."""
    date: str = ""
    commit: str = ""
    seed: int = 0


def summary_of(
    configuration: Configuration, found: Judged, seconds: float, *, skipped: str = ""
) -> Summary:
    """Return the summary of a run.

    >>> summary_of(CONFIGURATIONS["both"], Judged([], []), 0.0, skipped="no disk").skipped
    'no disk'
    """
    faults = []
    for fault in configuration.faults:
        rounds = [one for one in found.rounds if one.fault == fault]
        if not rounds:
            continue
        outages = [one.outage_s for one in rounds]
        faults.append(
            FaultSummary(
                fault=str(fault),
                rounds=len(rounds),
                acknowledged=sum(one.acknowledged for one in rounds),
                lost=sum(len(one.lost) for one in rounds),
                weaker=sum(one.weaker for one in rounds),
                weaker_lost=sum(one.weaker_lost for one in rounds),
                failed=sum(one.failed for one in rounds),
                stored_twice=sum(one.stored_twice for one in rounds),
                delivered_twice=sum(one.delivered_twice for one in rounds),
                skipped=sum(one.skipped for one in rounds),
                outage_s_p50=round(median(outages), 3),
                outage_s_max=round(max(outages), 3),
            )
        )
    return Summary(
        name=configuration.name,
        flush=configuration.flush,
        role=configuration.role,
        seconds=round(seconds, 1),
        faults=tuple(faults),
        broken=tuple(found.broken),
        skipped=skipped,
    )


def broken_promises(one: Summary) -> list[str]:
    """Return a line for each broken law, and for each fault that lost what must not be lost.

    When a master is lost with messages that consumers have had, their offsets are given out again,
    and a consumer that is further skips what gets them: here as in Java.
    """
    may_lose = CONFIGURATIONS[one.name].may_lose
    lost = [
        f"{one.name}: {count} messages {what}: {each.fault}"
        for each in one.faults
        for what, count, is_allowed in (
            ("lost", each.lost, may_lose(each.fault)),
            ("skipped", each.skipped, each.fault in LOSING),
        )
        if count and not is_allowed
    ]
    return lost + [f"{one.name}: {line}" for line in one.broken]


def summary_table(one: Summary) -> str:
    """Return a summary as a table for a terminal."""
    title = f"\n{one.name}: {one.flush}, {one.role}, {one.seconds:.0f} s"
    if one.skipped:
        return f"{title}: not run, {one.skipped}"
    head = ["fault", "rounds", "acked", "lost", "twice", "out s", "max s"]
    rows: list[list[Cell]] = [
        [
            each.fault[:34],
            each.rounds,
            each.acknowledged,
            each.lost,
            each.stored_twice,
            each.outage_s_p50,
            each.outage_s_max,
        ]
        for each in one.faults
    ]
    return "\n".join([title, table(head, rows), *one.broken])
