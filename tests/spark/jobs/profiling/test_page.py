"""The page of a profile has its figures, and no external resources."""

import re

import msgspec

from orbitmq.spark.jobs.profiling.figures import DAY_MS, Profile, Slot, growth
from orbitmq.spark.jobs.profiling.page import profile_page
from tests.spark.jobs.profiling.test_figures import CALM

FOUND = Profile(
    messages=4_000,
    bytes=4_000_000,
    first_ms=1_794_735_000_000,
    last_ms=1_794_735_060_000,
    slot_ms=1_000,
    slots=(Slot(1_794_735_000_000, 4_000, 4_000_000),),
    topics=(CALM,),
    growth=(growth("broker-a", 1e9, disk=(10**12, 10**11), stored=0, retention_ms=DAY_MS),),
)


def test_it_has_the_figures() -> None:
    page = profile_page(FOUND, "orders")
    for shown in ("2026-11-15 09:30:00", "4,000", "Nothing stands out.", "broker-a:3", "o-1"):
        assert shown in page, shown


def test_advice_is_shown_and_escaped() -> None:
    page = profile_page(msgspec.structs.replace(FOUND, advice=("a < b",)), "orders")
    assert "<p>a &lt; b</p>" in page


def test_small_rates_are_in_kib() -> None:
    assert "MiB per second" in profile_page(FOUND, "orders")
    slow = msgspec.structs.replace(FOUND, slots=(Slot(1_794_735_000_000, 40, 40_960),))
    page = profile_page(slow, "orders")
    assert "KiB per second" in page
    assert ">40<" in page  # the top of its scale


def test_no_messages_have_a_page_too() -> None:
    nothing = Profile(
        messages=0, bytes=0, first_ms=None, last_ms=None, slot_ms=1_000, slots=(), topics=()
    )
    assert "No message was found." in profile_page(nothing, "orders")


def test_it_has_no_external_resources() -> None:
    page = profile_page(FOUND, "orders")
    assert re.findall(r"(?:src|href|url|@import|<script|<link|//\w)", page) == []
