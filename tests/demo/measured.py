"""A made-up run of the demo, for tests of its output."""

from orbitmq.demo.figures import Batch, Comparison, Measured, Sample, Total

BUCKETS = 13


def buckets(**counts: int) -> tuple[int, ...]:
    """Return counts by bucket; ``b1`` is the second of them."""
    return tuple(counts.get(f"b{number}", 0) for number in range(BUCKETS))


def comparison(*, missing: int = 0, extra: int = 0, out_of_order: int = 0) -> Comparison:
    return Comparison(
        totals=(Total("placed", 20, 98_00, 20 - missing, 98_00), Total("paid", 5, 7_50, 5, 7_50)),
        missing=missing,
        extra=extra,
        out_of_order=out_of_order,
        topic_ms=1_840,
        files_ms=420,
        arrived_ms=(1_430, 3_800),
    )


def measured(
    samples: tuple[Sample, ...] = (
        Sample(0, 0, buckets()),
        Sample(900, 15, buckets(b0=5, b1=10)),
        Sample(2_500, 25, buckets(b0=5, b1=17, b2=3)),
    ),
    batches: tuple[Batch, ...] = (Batch(1_900, 15), Batch(3_100, 10)),
    compared: Comparison | None = None,
) -> Measured:
    return Measured(
        spark="Spark 4.3.0, Java 17.0.15",
        broker_ready_ms=85,
        spark_ready_ms=6_240,
        delayed=2,
        samples=samples,
        batches=batches,
        comparison=compared or comparison(),
    )
