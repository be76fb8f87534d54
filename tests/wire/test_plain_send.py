from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidHeader, RemoteProtocolError
from orbitmq.wire.codes import Language
from orbitmq.wire.frame import FrameReader, pack_lead
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.plain_send import PlainSend, SendAnswerForm, read_plain_send
from orbitmq.wire.session import Identity, Response, Session
from tests import kernels

pytestmark = pytest.mark.usefixtures("implementation")

INT32 = st.integers(-(2**31), 2**31 - 1)
FIELDS: dict[str, Any] = {
    "producer_group": "producers",
    "topic": "orders",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 3,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "flag": 7,
    "properties": "UNIQ_KEY\x01U1\x02",
    "reconsume_times": 2,
    "batch": False,
}


class Stored(NamedTuple):
    commit_log_offset: int
    queue_id: int
    queue_offset: int
    unique_key: bytes


def head(fields: bytes) -> bytes:
    return b'{"code":310,"opaque":5,"flag":0,"version":493,"extFields":%b}' % fields


def test_a_send_is_read_as_its_full_type_reads_it() -> None:
    header = SendMessageV2(**FIELDS)
    send = read_plain_send(head(header.to_json()))
    assert isinstance(send, PlainSend)
    assert (send.code, send.opaque, send.flag) == (310, 5, 0)
    for name, value in FIELDS.items():
        assert getattr(send.fields, name) == value


@pytest.mark.parametrize(
    "fields",
    [
        b"{}",
        b'{"b":"orders"}',
        SendMessageV2(**FIELDS).to_json().replace(b'"4"', b'"four"'),
        SendMessageV2(**FIELDS).to_json().replace(b'"h":"7"', b'"h":"3000000000"'),
        SendMessageV2(**FIELDS).to_json().replace(b'"m":"false"', b'"m":"perhaps"'),
        SendMessageV2(**FIELDS).to_json().replace(b'"m":"false"', b'"k":"perhaps"'),
        SendMessageV2(**FIELDS).to_json().replace(b'"m":"false"', b'"lo":"perhaps"'),
        SendMessageV2(**FIELDS).to_json().replace(b'"m":"false"', b'"ns":{}'),
    ],
)
def test_what_the_full_type_refuses_is_refused(fields: bytes) -> None:
    with pytest.raises(InvalidHeader):
        SendMessageV2.from_json(fields)
    with pytest.raises(ValueError, match="Object|Expected|\\$"):
        read_plain_send(head(fields))


@pytest.mark.parametrize(
    ("field", "is_read"),
    [
        (b'"language":"JAVA"', True),
        (b'"language":12', True),
        (b'"language":{}', False),
        (b'"language":"\xff"', False),
        (b'"remark":[]', False),
        (b'"opaque":"5"', True),
        (b'"opaque":5.5', False),
        (b'"version":true', False),
    ],
)
def test_a_head_is_read_if_a_frame_with_it_is(field: bytes, is_read: bool) -> None:
    made = head(SendMessageV2(**FIELDS).to_json())[:-1] + b",%b}" % field
    lead = pack_lead(4 + len(made), len(made))
    if is_read:
        (frame,) = FrameReader().feed(lead + made)
        assert read_plain_send(made).opaque == frame.opaque == 5
        return
    with pytest.raises(RemoteProtocolError):
        list(FrameReader().feed(lead + made))
    with pytest.raises(ValueError, match="Expected|decode"):
        read_plain_send(made)


@given(
    opaque=INT32,
    offset=st.integers(0, 2**62),
    queue=st.integers(0, 9999),
    region=st.sampled_from(["DefaultRegion", "50 % off", '"', "ü"]),
    language=st.sampled_from([Language.PYTHON, Language.JAVA]),
    key=st.sampled_from([b"7F00", b"k" * 800, b"k" * 5_000]),
)
def test_a_form_writes_what_the_encoder_writes(
    opaque: int, offset: int, queue: int, region: str, language: Language, key: bytes
) -> None:
    identity = Identity(language=language, version=467)
    fields = {"MSG_REGION": region, "TRACE_ON": "true"}
    form = SendAnswerForm(identity, "7F00000100002A9F", fields)
    (made,) = form.frames([opaque], [Stored(offset, queue, offset // 2, key)])
    texts = {
        "msgId": f"7F00000100002A9F{offset:016X}",
        "queueId": str(queue),
        "queueOffset": str(offset // 2),
        **fields,
        "transactionId": key.decode(),
    }
    reader = FrameReader()
    (request,) = reader.feed(bytes(made))
    request.flag = 0
    assert (made,) == Session[None](identity).answer(request, Response(0, fields=texts))


@kernels.needs_kernel
@given(
    st.lists(
        st.tuples(
            INT32,
            st.builds(
                Stored,
                st.integers(-(2**63), 2**63 - 1),
                INT32,
                st.integers(-(2**63), 2**63 - 1),
                st.binary(max_size=40),
            ),
        )
    ),
    st.sampled_from(["DefaultRegion", "50 % off", "%d%b", ""]),
)
def test_both_implementations_write_the_same_answers(
    sends: list[tuple[int, Stored]], region: str
) -> None:
    form = SendAnswerForm(Identity(), "7F00000100002A9F", {"MSG_REGION": region})._form
    opaques, stored = [opaque for opaque, _ in sends], [one for _, one in sends]
    python, kernel = kernels.in_python()["answer_frames"], kernels.in_kernel()["answer_frames"]
    assert kernel(form, opaques, stored) == python(form, opaques, stored)
    assert kernel(form, [*opaques, 7], iter(stored)) == python(form, opaques, stored)


def test_a_form_without_room_for_the_values_is_refused(implementation: kernels.Functions) -> None:
    for form in (b"%d", b"%d%016X%d%d%s%b", b"%d%016X%d%d%b%"):
        with pytest.raises((ValueError, TypeError)):
            implementation["answer_frames"](form, [7], [Stored(0, 0, 0, b"U")][:1])
    with pytest.raises(TypeError):
        implementation["answer_frames"](b"%d%016X%d%d%b", [7], [Stored(0, 0, 0, None)])  # type: ignore[arg-type]
