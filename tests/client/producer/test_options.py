import pytest

from orbitmq.client.options import ClientOptions
from orbitmq.client.producer.options import ProducerOptions, build_settings
from orbitmq.client.settings import ClientSettings, FaultTolerance, ProducerSettings
from orbitmq.errors import InvalidGroup, InvalidInput


def test_every_field_of_the_settings_is_an_option() -> None:
    of_client = set(ClientSettings.__struct_fields__)
    of_producer = set(ProducerSettings.__struct_fields__)
    assert set(ClientOptions.__annotations__) == of_client - of_producer
    own = set(ProducerOptions.__annotations__) - set(ClientOptions.__annotations__)
    assert own == of_producer - {"group"}


def test_options_go_to_the_settings_that_have_them_and_are_checked() -> None:
    producer, client = build_settings(
        "billing", {"fault_tolerance": "java5", "topics": ["orders"], "tls": True, "linger_ms": 5}
    )
    assert producer.fault_tolerance is FaultTolerance.JAVA5
    assert (producer.topics, producer.linger_ms, client.tls) == (("orders",), 5, True)
    with pytest.raises(InvalidInput, match="retries is -1"):
        build_settings("billing", {"retries": -1})
    with pytest.raises(InvalidGroup):
        build_settings("bad group", {})


def test_an_unknown_option_is_refused_with_the_most_similar_name() -> None:
    with pytest.raises(InvalidInput, match="no option retrys; did you mean retries?"):
        build_settings("billing", {"retrys": 1})


def test_settings_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="settings is of type dict") as caught:
        build_settings("billing", {}, {"retries": 1})  # type: ignore[arg-type]
    assert caught.value.field == "settings"
    with pytest.raises(InvalidInput, match="client is 'ns-1:9876'; it must be ClientSettings"):
        build_settings("billing", {}, None, "ns-1:9876")  # type: ignore[arg-type]


def test_nothing_said_leaves_the_settings_as_they_are() -> None:
    producer, client = ProducerSettings("billing"), ClientSettings()
    assert build_settings(None, {}, producer, client) == (producer, client)
