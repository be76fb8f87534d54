import msgspec
import pytest

from orbitmq.errors import InvalidInput
from orbitmq.net.settings import NetSettings


def test_defaults_are_those_of_java_where_java_has_them() -> None:
    settings = NetSettings()
    assert (settings.connect_timeout_ms, settings.request_timeout_ms) == (3000, 3000)
    assert settings.idle_close_ms == 120_000
    assert settings.in_flight_max == 65535
    assert settings.frame_bytes_max == 16_777_216


@pytest.mark.parametrize("name", NetSettings.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, 2**31])
def test_a_number_out_of_its_range_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=name) as caught:
        NetSettings(**{name: value})
    assert caught.value.field == name


def test_a_frame_limit_over_that_of_the_protocol_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no peer sends over 16777216"):
        NetSettings(frame_bytes_max=16_777_217)


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        NetSettings().idle_close_ms = 1  # type: ignore[misc]
    assert msgspec.structs.replace(NetSettings(), idle_close_ms=1).idle_close_ms == 1
