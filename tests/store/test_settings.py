import pytest

from orbitmq.errors import InvalidInput
from orbitmq.store.settings import FlushMode, StoreSettings, delay_levels


def test_defaults_are_those_of_java() -> None:
    settings = StoreSettings()
    assert settings.segment_bytes == 1073741824
    assert settings.queue_file_entries * 20 == 6_000_000
    assert 40 + 4 * settings.index_slots + 20 * settings.index_entries == 420_000_040
    assert settings.flush_mode is FlushMode.ASYNC
    assert len(delay_levels(settings.message_delay_level)) == 18
    assert delay_levels(settings.message_delay_level)[17] == 7_200_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 100),
        ("segment_bytes", 2**31),
        ("queue_file_entries", 0),
        ("disk_full_percent", 101),
        ("delete_when", "rubbish"),
        ("delete_when", ""),
        ("delete_when", "04;25"),
        ("commit_log_path", "/fast/a,/fast/b"),
        ("lmq_enabled", True),
        ("message_delay_level", "1s 5x"),
        ("message_delay_level", "1s " + "9" * 5000 + "s"),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        StoreSettings(**{name: value})  # type: ignore[arg-type]
    assert caught.value.field == name
