"""From samples to figures: by second, in words."""

from orbitmq.demo.figures import Batch, Rate, Sample
from tests.demo.measured import billed, comparison, jobs, measured, streamed


def test_sends_and_rows_are_counted_by_second() -> None:
    assert measured().rates == [Rate(15, 0), Rate(0, 15), Rate(10, 0), Rate(0, 10)]


def test_a_second_ends_with_its_last_millisecond() -> None:
    late = streamed()._replace(batches=(Batch(1_001, 5),))
    run = measured(samples=(Sample(0, 0), Sample(1_000, 5)), streamed=late)
    assert run.rates == [Rate(5, 0), Rate(0, 5)]


def test_the_summary_has_all_figures() -> None:
    assert dict(measured().summary) == {
        "broker ready": "85 ms",
        "messages sent": "25 in 2.5 s, 2 of them delayed",
        "from send to receipt": "p50 4 ms, p99 120 ms, longest 120 ms",
        "consumed": "25 by 2 members, 0 missing",
        "from stored to handler": "p50 2 ms, p99 31 ms, longest 33 ms",
        "order o-00000": "failed 9 times, left 3 dead letters",
        "transactions": "50: 40 committed, 10 rolled back",
        "timers": "1 recalled, 1 delivered, 238 ms after it was due",
        "Spark ready": "6.2 s (Spark 4.3.0, Java 17.0.15)",
        "written to Parquet": "25 rows in 2 batches",
        "from send to Parquet": "p50 1.4 s, p99 3.8 s, longest 3.9 s",
        "files against topic": "0 missing, 0 extra, 0 out of order",
        "the same query": "1.8 s on the topic, 420 ms on files",
        "trace": "75 records in 4.0 s",
        "reconcile": "25 receipts, 0 lost, 0 duplicated, in 2.3 s",
        "archive": "25 rows in 640 ms",
    }


def test_without_spark_its_figures_are_left_out() -> None:
    run = measured(streamed=None)
    assert [name for name, _ in run.summary][-1] == "timers"
    assert [name for name, _ in run.spreads] == ["from send to receipt", "from stored to handler"]
    assert sum(rate.written for rate in run.rates) == 0
    assert run.is_right


def test_a_run_is_right_only_if_nothing_is_lost_or_doubled() -> None:
    assert measured().is_right
    assert not measured(billed=billed(missing=1)).is_right
    assert not measured(billed=billed(missing=1), streamed=None).is_right
    assert not measured(streamed=streamed(comparison(extra=1))).is_right
    assert not measured(streamed=streamed(found=jobs(lost=1))).is_right


def test_topic_and_files_are_equal_only_if_nothing_is_wrong() -> None:
    assert comparison().is_equal
    assert not comparison(missing=1).is_equal
    assert not comparison(extra=1).is_equal
    assert not comparison(out_of_order=1).is_equal
