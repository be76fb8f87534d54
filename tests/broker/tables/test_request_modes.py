"""How groups read topics, as a table and as Java's file."""

import json

import pytest

from orbitmq.broker.tables import request_modes
from orbitmq.broker.tables.request_modes import RequestModes
from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.wire.bodies.pop import RequestModeSetting

BILLING = RequestModeSetting(topic="orders", consumer_group="billing")
# As Java 5.4.0 writes it.
JAVAS = (
    '{"messageRequestModeMap":{"orders":{"shipping":{"consumerGroup":"shipping","mode":"POP",'
    '"popShareQueueNum":4,"topic":"orders"}}}}'
)


def test_settings_are_kept_in_javas_form_with_those_of_java() -> None:
    modes = RequestModes()
    modes.load_json(JAVAS)
    before = modes.changes
    modes.set(BILLING)
    assert modes.changes > before
    kept = json.loads(modes.to_json())["messageRequestModeMap"]["orders"]
    assert kept["shipping"] == json.loads(JAVAS)["messageRequestModeMap"]["orders"]["shipping"]
    assert kept["billing"]["mode"] == "PULL"


def test_a_text_that_is_none_changes_nothing() -> None:
    modes = RequestModes()
    modes.set(BILLING)
    text = modes.to_json()
    with pytest.raises(InvalidBody):
        modes.load_json('{"messageRequestModeMap":7}')
    assert modes.to_json() == text


def test_there_are_not_endlessly_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_modes, "_SETTINGS_MAX", 1)
    modes = RequestModes()
    modes.set(BILLING)
    modes.set(BILLING)
    with pytest.raises(InvalidInput, match="which is the limit"):
        modes.set(RequestModeSetting(topic="bills", consumer_group="billing"))
