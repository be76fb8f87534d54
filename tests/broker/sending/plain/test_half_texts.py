import random

import pytest

from orbitmq.broker.sending.plain.half_texts import (
    DESTINATION_MAX,
    HalfTexts,
    destination,
    ended,
    without_mark,
)
from orbitmq.broker.sending.plain.meanings import Meanings
from orbitmq.message import properties

SENT = b"UNIQ_KEY\x017F00\x02TRAN_MSG\x01true\x02TAGS\x01paid\x02KEYS\x01o-1 o-2\x02PGROUP\x01g\x02"
WAITING = SENT + destination(b"7F00", "orders", 3)


def test_a_usual_half_is_read_like_the_message_without_its_mark() -> None:
    text, key, keys, meaning = HalfTexts(Meanings()).read(SENT) or pytest.fail("not usual")
    assert text == SENT
    assert (key, keys) == (b"7F00", b"o-1 o-2")
    plain = Meanings().read(SENT.replace(b"TRAN_MSG\x01true\x02", b""))
    assert plain is not None
    assert meaning == plain[3]


def test_a_text_gets_the_closing_separator_that_old_clients_leave_out() -> None:
    found = HalfTexts(Meanings()).read(SENT[:-1])
    assert found is not None
    assert found[0] == SENT


@pytest.mark.parametrize(
    "text",
    [
        b"UNIQ_KEY\x017F00\x02TAGS\x01paid\x02",
        b"UNIQ_KEY\x017F00\x02TRAN_MSG\x01false\x02",
        b"UNIQ_KEY\x017F00\x02TRAN_MSG\x01TRUE\x02",
        b"UNIQ_KEY\x017F00\x02MY_TRAN_MSG\x01true\x02",
        b"TRAN_MSG\x01true\x02",
        SENT + b"DELAY\x013\x02",
        SENT + b"TIMER_DELAY_SEC\x013\x02",
        SENT + b"REAL_TOPIC\x01bills\x02",
        SENT + b"REAL_QID\x011\x02",
        SENT + b"__transactionId__\x011\x02",
        SENT + b"TRANSACTION_CHECK_TIMES\x011\x02",
        SENT + b"TRAN_PREPARED_QUEUE_OFFSET\x011\x02",
        SENT + b"TRAN_MSG\x01true\x02",
        SENT.replace(b"7F00", b"7" * 129),
    ],
)
def test_other_texts_need_care(text: bytes) -> None:
    assert HalfTexts(Meanings()).read(text) is None


def test_what_is_added_has_its_room() -> None:
    assert len(destination(b"7" * 128, "é" * 127, 2**31 - 1)) < DESTINATION_MAX


def test_a_half_ends_as_if_its_properties_were_decoded() -> None:
    chance = random.Random(11)
    names = ("TAGS", "KEYS", "mine", "TRAN_MSG", "UNIQ_KEY", "MSG_REGION", "REAL", "QID")
    for _ in range(300):
        found = {name: chance.choice(("a", "é b", "1", "true")) for name in names}
        kept = dict(chance.sample(list(found.items()), chance.randrange(1, len(found))))
        text = properties.join(kept)
        waiting = text + destination(b"7F00", "órders", chance.randrange(1000))
        goes = ended(waiting)
        assert goes is not None
        decoded = properties.decode(waiting)
        assert goes.topic == decoded.pop(properties.REAL_TOPIC)
        assert goes.queue_id == int(decoded.pop(properties.REAL_QUEUE_ID))
        assert goes.text == properties.join(decoded)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        SENT,
        WAITING + b"TRANSACTION_CHECK_TIMES\x011\x02",
        WAITING + destination(b"7F00", "orders", 3),
        WAITING[:-1],
        WAITING.replace(b"REAL_QID\x013", b"REAL_QID\x01-3"),
        WAITING.replace(b"REAL_QID\x013", b"REAL_QID\x01" + b"3" * 10),
        WAITING.replace(b"REAL_TOPIC\x01orders", b"REAL_TOPIC\x01"),
        WAITING.replace(b"TAGS\x01paid", b"DELAY\x013"),
        WAITING.replace(b"TAGS\x01paid", b"TIMER_DELIVER_MS\x013"),
        WAITING.replace(b"TAGS\x01paid", b"__CRC32#\x013"),
    ],
)
def test_a_half_with_another_text_is_decoded(text: bytes) -> None:
    assert ended(text) is None


def test_only_the_mark_is_left_out() -> None:
    assert without_mark(b"TRAN_MSG\x01true\x02A\x01b\x02") == b"A\x01b\x02"
    assert without_mark(b"A\x01TRAN_MSG\x01true\x02") is None
