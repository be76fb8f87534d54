import pytest

from orbitmq.broker.sending import stored_properties
from orbitmq.net.refusal import Refusal


def test_reading_drops_what_a_producer_can_t_give() -> None:
    text = (
        "POP_CK\x011 2\x02__CRC32#\x010123456789\x02INNER_MULTI_QUEUE_OFFSET\x013\x02TAGS\x01a\x02"
    )
    assert stored_properties.read(text) == {"TAGS": "a"}


@pytest.mark.parametrize("text", ["", "x", "1.5", "٣", "12345678901"])
def test_a_delay_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="DELAY"):
        stored_properties.delay_level({"DELAY": text}, 18)


def test_a_negative_delay_is_none() -> None:
    assert stored_properties.delay_level({"DELAY": "-1"}, 18) == 0


def test_a_timer_that_the_broker_set_itself_asks_for_nothing() -> None:
    assert stored_properties.asks_for_timer({"TIMER_DELAY_MS": "5"})
    assert not stored_properties.asks_for_timer({"TIMER_DELAY_MS": "5", "TIMER_OUT_MS": "9"})
    assert not stored_properties.asks_for_timer({})
