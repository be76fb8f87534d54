import pytest

from orbitmq.client.consumer.options import (
    ConsumerOptions,
    PullConsumerOptions,
    build_pull_settings,
    build_settings,
)
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import InvalidGroup, InvalidInput


@pytest.mark.parametrize(
    ("options", "settings"),
    [(ConsumerOptions, ConsumerSettings), (PullConsumerOptions, PullConsumerSettings)],
)
def test_every_field_of_the_settings_is_an_option(
    options: type, settings: type[ConsumerSettings] | type[PullConsumerSettings]
) -> None:
    fields = {*ClientSettings.__struct_fields__, *settings.__struct_fields__}
    assert set(options.__annotations__) == fields - {"group"}


def test_options_go_to_the_settings_that_have_them_and_are_checked() -> None:
    consumer, client = build_settings("billing", {"batch_max": 8, "tls": True, "keep_open_ms": 0})
    assert (consumer.group, consumer.batch_max) == ("billing", 8)
    assert (client.tls, client.keep_open_ms) == (True, 0)
    pull, _ = build_pull_settings("audit", {"auto_commit": False})
    assert pull == PullConsumerSettings("audit", auto_commit=False)
    with pytest.raises(InvalidInput, match="concurrency is 0"):
        build_settings("billing", {"concurrency": 0})


def test_a_group_must_be_given() -> None:
    with pytest.raises(InvalidGroup, match="group is empty"):
        build_settings(None, {})


def test_an_unknown_option_is_refused_with_the_most_similar_name() -> None:
    with pytest.raises(InvalidInput, match="a consumer has no option orderd; did you mean ordered"):
        build_settings("billing", {"orderd": True})
    with pytest.raises(InvalidInput, match="a pull consumer has no option ordered"):
        build_pull_settings("billing", {"ordered": True})
