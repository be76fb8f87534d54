import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.sending.plain import meanings
from orbitmq.broker.sending.plain.meanings import Meanings
from orbitmq.message import properties
from orbitmq.message.tags import tags_code

KEY = "UNIQ_KEY\x01U1\x02"
NAMES = st.sampled_from(
    [
        *(
            "UNIQ_KEY",
            "DELAY",
            "TAGS",
            "KEYS",
            "WAIT",
            "TRACE_ON",
            "TRAN_MSG",
            "TIMER_DELAY_MS",
            "POP_CK",
        ),
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
    plain = Meanings().read(text.encode()) if text else None
    if plain is not None:
        raw, key, keys, meaning = plain
        found = properties.decode(text.encode())
        assert found["UNIQ_KEY"] == key.decode()
        assert found.get("KEYS", "") == keys.decode()
        assert (found.get("TAGS") or "").encode() == (meaning.tags or b"")
        assert meaning.tags_code == tags_code(found.get("TAGS"))
        assert found.get("WAIT") != "false"
        assert not TELLING & found.keys()
        assert properties.decode(raw + b"CLUSTER\x01c\x02") == {**found, "CLUSTER": "c"}


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"TAGS\x01paid\x02{KEY}WAIT\x01true\x02",
        f"MSG_REGION\x01elsewhere\x02{KEY}",
        KEY[:-1],  # as clients before 5.0 write it
        f"KEYS\x01DELAY\x02{KEY}",  # keys may be any words
    ],
)
def test_most_texts_are_plain(text: str) -> None:
    plain = Meanings().read(text.encode())
    assert plain is not None
    assert plain[1] == b"U1"


@pytest.mark.parametrize(
    "text",
    [
        "TAGS\x01paid\x02",  # no key
        "UNIQ_KEY\x01\x02",  # an empty one
        'UNIQ_KEY\x01q"\x02',  # its answer would need an escape
        f"{KEY}{KEY}",  # the second one counts
        f"{KEY}KEYS\x01a\x02KEYS\x01b\x02",
        f"{KEY}KEYS\x01a\x01b\x02",
        f"{KEY}_SYS_MSG_PRIORITY_\x012\x02",
        f"{KEY}WAIT\x01false\x02",
        f"{KEY}POP_CK\x010 1 2\x02",
    ],
)
def test_others_have_to_be_read(text: str) -> None:
    assert Meanings().read(text.encode()) is None


def test_few_texts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanings, "_REMEMBERED", 3)
    many = Meanings()
    for number in range(10):
        assert many.read(f"{KEY}mine\x01{number}\x02".encode()) is not None
    assert repr(many) == "<Meanings of 1 texts>"
    assert many.read(f"{KEY}mine\x01{'x' * 2000}\x02".encode()) is not None
    assert repr(many) == "<Meanings of 1 texts>"
