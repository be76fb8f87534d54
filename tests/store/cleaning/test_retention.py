import pytest

from orbitmq.store.cleaning.retention import FILES_PER_ROUND, AgedFile, Retention
from orbitmq.store.settings import StoreSettings

HOUR = 3_600_000
NOW = 1_000 * HOUR


def expired(
    ages_h: list[int], *, hour: str = "04", used: float = 0.5, asked: bool = False,
    settings: StoreSettings | None = None,
) -> int:  # fmt: skip
    files = [AgedFile(i, NOW - age * HOUR) for i, age in enumerate(ages_h)]
    retention = Retention(settings or StoreSettings())
    return retention.expired(files, now_ms=NOW, hour=hour, used=used, asked=asked)


def test_files_go_after_three_days_at_four_in_the_morning() -> None:
    assert expired([100, 73, 72, 71, 1]) == 3
    assert expired([100, 73, 72, 71, 1], hour="05") == 0


def test_the_first_file_that_is_kept_ends_the_round() -> None:
    assert expired([100, 10, 100, 1]) == 1


def test_the_last_file_never_goes() -> None:
    assert expired([100, 100]) == 1
    assert expired([100]) == 0
    assert expired([]) == 0
    assert expired([100], used=0.99) == 0


def test_a_filling_disk_makes_it_any_hour() -> None:
    assert expired([100, 71, 1], hour="12", used=0.76) == 1
    assert expired([100, 71, 1], hour="12", used=0.75) == 0


def test_a_nearly_full_disk_makes_it_any_age() -> None:
    assert expired([3, 2, 1], hour="12", used=0.86) == 2
    assert expired([3, 2, 1], hour="12", used=0.85) == 0


def test_an_operator_makes_it_any_hour() -> None:
    assert expired([100, 1], hour="12", asked=True) == 1


def test_a_round_has_a_limit() -> None:
    assert expired([100] * 50) == FILES_PER_ROUND


@pytest.mark.parametrize("hours", ["4", "04", "16;04", " 4 ; 16"])
def test_hours_are_a_list(hours: str) -> None:
    assert expired([100, 1], settings=StoreSettings(delete_when=hours)) == 1


def test_hour_twenty_four_never_comes() -> None:
    never = StoreSettings(delete_when="24")
    assert not any(expired([100, 1], hour=f"{hour:02}", settings=never) for hour in range(24))


def test_ratios_beyond_reason_count_as_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    least = StoreSettings(
        disk_used_max_percent=1, disk_clean_forcibly_percent=1, disk_full_percent=1
    )
    assert expired([3, 2, 1], hour="12", used=0.3, settings=least) == 0
    assert expired([3, 2, 1], hour="12", used=0.31, settings=least) == 2
    assert not Retention(least).is_full(0.35)
    most = StoreSettings(disk_full_percent=100)
    assert Retention(most).is_full(0.91)
    assert caplog.messages[-1] == (
        "disk_full_percent is 100; 90 is used, since it must be from 35 to 90"
    )


def test_over_ninety_percent_nothing_is_written() -> None:
    retention = Retention(StoreSettings())
    assert [retention.is_full(used) for used in (0.89, 0.9, 0.91)] == [False, False, True]
