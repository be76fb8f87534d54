"""Ages, and a re-drive in words."""

import pytest

from orbitmq.spark.jobs.redriving.figures import Redriven, Refused, age_of, summary

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("age_ms", "span"),
    [
        (HOUR_MS - 1, "under an hour"),
        (HOUR_MS, "1 to 24 hours"),
        (24 * HOUR_MS, "1 to 7 days"),
        (7 * 24 * HOUR_MS, "older"),
        (2**62, "older"),
    ],
)
def test_spans_of_age(age_ms: int, span: str) -> None:
    assert age_of(age_ms) == span


def test_a_re_drive_in_words() -> None:
    refused = tuple(Refused(f"id-{number}", "gone") for number in range(12))
    done = Redriven(
        chosen=2_000,
        sent=1_500,
        repeated=100,
        topics={"b": 500, "a": 1_000},
        refused=refused,
        stopped="id-9: the cable is cut",
    )
    text = "\n".join(summary(done))
    assert "Chosen     2,000 dead letters" in text
    assert "1,500 sent (a 1,000, b 500)" in text
    assert "100 had been re-driven already" in text
    assert text.count("gone") == 10
    assert "2 more" in text
    assert "with 388 left" in text
    assert done.left == 388


def test_a_dry_run_in_words() -> None:
    done = Redriven(chosen=1, sent=1, repeated=0, topics={"a": 1}, is_dry_run=True)
    assert "1 would be sent (a 1)" in "\n".join(summary(done))
