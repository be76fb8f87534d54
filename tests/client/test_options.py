import pytest

from orbitmq.client.options import ClientOptions, build_both, build_client_settings
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.errors import InvalidInput


def test_every_field_of_a_client_is_an_option() -> None:
    assert set(ClientOptions.__annotations__) == set(ClientSettings.__struct_fields__)


def test_options_override_the_fields_of_given_settings() -> None:
    before = ProducerSettings("billing", retries=1, trace=True), ClientSettings(tls=True)
    producer, client = build_both(
        ProducerSettings, "a producer", None, {"retries": 0, "unit_name": "u"}, *before
    )
    assert producer == ProducerSettings("billing", retries=0, trace=True)
    assert client == ClientSettings(tls=True, unit_name="u")
    given = ClientSettings(nameserver="ns-1:9876", keep_open_ms=0)
    assert build_client_settings({}, given, "an admin") is given
    built = build_client_settings({"nameserver": "ns-2:9876"}, given, "an admin")
    assert (built.nameserver, built.keep_open_ms) == ("ns-2:9876", 0)


def test_an_error_names_what_has_no_such_option() -> None:
    with pytest.raises(InvalidInput, match="a shop has no option colour$"):
        build_both(ProducerSettings, "a shop", "billing", {"colour": 1})


def test_what_is_no_option_and_no_settings_is_refused() -> None:
    with pytest.raises(InvalidInput, match="an admin has no option nameservr; did you mean names"):
        build_client_settings({"nameservr": "ns-1:9876"}, None, "an admin")
    with pytest.raises(InvalidInput, match="client is 'ns-1:9876'; it must be ClientSettings"):
        build_client_settings({}, "ns-1:9876", "an admin")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="keep_open_ms is -1"):
        build_client_settings({"keep_open_ms": -1}, None, "an admin")
