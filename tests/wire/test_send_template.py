import pytest
from msgspec import json

from orbitmq.wire.headers.send import SendMessage, SendMessageV2
from orbitmq.wire.send_template import SendTemplate, inside_json, plain_form

SHARED: dict[str, object] = {
    "producer_group": "billing",
    "topic": "orders",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 3,
    "reconsume_times": 0,
    "unit_mode": False,
}


@pytest.mark.parametrize("kind", [SendMessage, SendMessageV2])
@pytest.mark.parametrize(("sys_flag", "flag"), [(0, 0), (769, -7)])
def test_a_template_writes_what_the_header_would(
    kind: type[SendMessage] | type[SendMessageV2], sys_flag: int, flag: int
) -> None:
    blank = kind(**SHARED, sys_flag=0, born_timestamp=0, flag=0)  # type: ignore[arg-type]
    whole = kind(
        **SHARED,  # type: ignore[arg-type]
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=flag,
        properties="TAGS\x01paid\x02",
    )
    template = SendTemplate(blank)
    for _ in range(2):  # what is filled in once does not stay
        filled = template.fill(1_700_000_000_000, "TAGS\x01paid\x02", sys_flag=sys_flag, flag=flag)
        assert filled.to_texts() == whole.to_texts()
        assert json.decode(filled.to_json()) == whole.to_texts()
    assert template.fill(1, "").to_texts() != whole.to_texts()


def test_any_name_and_any_properties_travel() -> None:
    odd = {**SHARED, "topic": "%RETRY%d|%b%%", "producer_group": '"quoted"'}
    blank = SendMessageV2(**odd, sys_flag=0, born_timestamp=0, flag=0)  # type: ignore[arg-type]
    texts = SendTemplate(blank).fill(1, 'a\x01"\\%dé😀\x02').to_texts()
    assert texts["b"] == "%RETRY%d|%b%%"
    assert texts["a"] == '"quoted"'
    assert texts["i"] == 'a\x01"\\%dé😀\x02'


def test_a_form_of_plain_messages_writes_what_a_template_would() -> None:
    odd = {**SHARED, "topic": "%RETRY%d|%b%%", "producer_group": '"quoted"'}
    blank = SendMessageV2(**odd, sys_flag=0, born_timestamp=0, flag=0)  # type: ignore[arg-type]
    form = plain_form(blank, "UNIQ_KEY\x01ID\x02TAGS\x01ID%dé\x02")
    further = "KEYS\x01k%s \\\x02"
    text = f'UNIQ_KEY\x01"7F"\x02TAGS\x01ID%dé\x02{further}'
    filled = form % (1_700_000_000_000, -7, inside_json('"7F"'), inside_json(further))
    assert filled == SendTemplate(blank).fill(1_700_000_000_000, text, flag=-7).to_json()
