"""The page of dead letters has their figures, escaped, and no external resources."""

import re

from orbitmq.spark.jobs.redriving.figures import (
    Cause,
    DeadLetterFigures,
    Group,
    Letter,
    Slot,
)
from orbitmq.spark.jobs.redriving.page import dead_letters_page

AT_MS = 1_794_735_000_000
LETTER = Letter(
    id="7F00000100002A9F00000000000022B8",
    message_id="7F00000104D218B4AAC21F8B8F9A0002",
    key="o-42",
    died_ms=AT_MS,
    deliveries=17,
    reason="timeout after 30 ms",
    body="<tea>",
)
FOUND = DeadLetterFigures(
    letters=1_234,
    now_ms=AT_MS + 50 * 3_600_000,
    bytes=5,
    groups=(Group(group="billing", letters=1_234, died_again=3, oldest_ms=AT_MS, newest_ms=AT_MS),),
    causes=(
        Cause(
            group="billing",
            topic="orders",
            cause="timeout after N ms",
            letters=1_234,
            oldest_ms=AT_MS,
            newest_ms=AT_MS,
            samples=(LETTER,),
        ),
    ),
    ages={"1 to 7 days": 1_234},
    slot_ms=1_000,
    slots=(Slot(AT_MS, 1_234),),
)


def test_it_has_the_figures() -> None:
    page = dead_letters_page(FOUND, "billing")
    for shown in (
        "1,234",
        "timeout after N ms",
        "timeout after 30 ms",
        "o-42",
        "2.1 days",
        "17",
        "09:30:00",
    ):
        assert shown in page, shown
    assert "&lt;tea&gt;" in page
    assert "<tea>" not in page


def test_no_letters_have_a_page_too() -> None:
    page = dead_letters_page(DeadLetterFigures(letters=0, now_ms=AT_MS), "billing")
    assert "Dead letters of billing" in page
    assert "Causes" not in page


def test_it_has_no_external_resources() -> None:
    page = dead_letters_page(FOUND, "billing")
    assert re.findall(r"(?:src|href|url|@import|<script|<link|//\w)", page) == []
