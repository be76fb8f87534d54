import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.sending import stored_properties
from orbitmq.message import properties
from orbitmq.net.refusal import Refusal

KEY = "UNIQ_KEY\x01U1\x02"
NAMES = st.sampled_from(
    [
        *("UNIQ_KEY", "DELAY", "TAGS", "WAIT", "TRACE_ON", "TRAN_MSG", "TIMER_DELAY_MS", "POP_CK"),
        *("TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM"),
        *("__CRC32#", "colour", "XUNIQ_KEY", "", "\x01"),
    ]
)
VALUES = st.sampled_from(["", "U1", "true", "false", "1", "DELAY\x01", "\x02", "UNIQ_KEY\x01U2"])
# What a broker has to read: were one of these in a plain text, it would be overlooked.
TELLING = {
    *("DELAY", "TRAN_MSG", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"),
    *("POP_CK", "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM", "__CRC32#"),
}


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), st.booleans())
def test_a_plain_text_hides_nothing(pairs: list[tuple[str, str]], ended: bool) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + "\x02" * ended
    key = stored_properties.plain_key(text) if text else None
    if key is not None:
        found = properties.decode(text.encode())
        assert found["UNIQ_KEY"] == key
        assert found.get("WAIT") != "false"
        assert not TELLING & found.keys()
        assert properties.decode(f"{text}CLUSTER\x01c\x02".encode()) == {**found, "CLUSTER": "c"}


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"TAGS\x01paid\x02{KEY}WAIT\x01true\x02",
        f"MSG_REGION\x01elsewhere\x02{KEY}",
        f"{KEY}note\x01XUNIQ_KEY\x01U2\x02",  # part of a value
    ],
)
def test_most_texts_are_plain(text: str) -> None:
    assert stored_properties.plain_key(text) == "U1"


@pytest.mark.parametrize(
    "text",
    [
        "TAGS\x01paid\x02",  # no key
        "UNIQ_KEY\x01\x02",  # an empty one
        KEY[:-1],  # nothing could be put behind it
        f"{KEY}WAIT\x01false\x02",
        f"{KEY}POP_CK\x010 1 2\x02",
    ],
)
def test_others_have_to_be_read(text: str) -> None:
    assert stored_properties.plain_key(text) is None


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
