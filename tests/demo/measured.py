"""A made-up run of the demo, for tests of its output."""

import msgspec

from orbitmq.demo.figures import (
    Batch,
    Billed,
    Comparison,
    Jobs,
    Later,
    Measured,
    Sample,
    Streamed,
    Total,
)
from orbitmq.demo.latency import Spread

SENDS = (0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 11, 12, 14, 31, 47, 120)


def comparison(*, missing: int = 0, extra: int = 0, out_of_order: int = 0) -> Comparison:
    return Comparison(
        totals=(Total("placed", 20, 98_00, 20 - missing, 98_00), Total("paid", 5, 7_50, 5, 7_50)),
        missing=missing,
        extra=extra,
        out_of_order=out_of_order,
        topic_ms=1_840,
        files_ms=420,
        arrived=Spread(23, 1_430, 2_900, 3_800, 3_800, 3_900),
    )


def billed(*, missing: int = 0) -> Billed:
    return Billed(
        shares=(14, 11 - missing),
        missing=missing,
        took=Spread(25, 2, 5, 31, 31, 33),
        refused="o-00000",
        deliveries=9,
        dead=3,
    )


def jobs(*, lost: int = 0) -> Jobs:
    return Jobs(
        receipts=25,
        found=25 - lost,
        lost=lost,
        duplicated=0,
        out_of_order=0,
        reconcile_ms=2_310,
        traced=75,
        judgement=("Listeners of shop-billing failed on 9 of 31.",),
        trace_ms=4_020,
        rows=25,
        archive_ms=640,
    )


def streamed(compared: Comparison | None = None, found: Jobs | None = None) -> Streamed:
    return Streamed(
        versions="Spark 4.3.0, Java 17.0.15",
        ready_ms=6_240,
        batches=(Batch(1_900, 15), Batch(3_100, 10)),
        comparison=compared or comparison(),
        jobs=found or jobs(),
    )


def measured(**changes: object) -> Measured:
    run = Measured(
        facts=(
            ("version", "orbitmq 0.1.0"),
            ("Python", "Python 3.11.7"),
            ("machine", "Linux x86_64, 2 cores, 8 GiB"),
            ("date", "2026-01-01 12:00 UTC"),
        ),
        broker_ready_ms=85,
        delayed=2,
        samples=(Sample(0, 0), Sample(900, 15), Sample(2_500, 25)),
        send_ms=SENDS,
        billed=billed(),
        later=Later(sent=50, declined=10, committed=40, delay_s=1.5, late_ms=238, reminders=1),
        streamed=streamed(),
    )
    return msgspec.structs.replace(run, **changes)
