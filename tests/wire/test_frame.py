import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidHeader, LocalProtocolError, RemoteProtocolError
from orbitmq.wire.codes import Language, RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    FRAME_BYTES_MAX,
    ONEWAY_FLAG,
    Frame,
    FrameReader,
    HeaderEncoding,
    Outgoing,
    RequestForm,
    encode_head,
    without_requests,
)
from orbitmq.wire.headers import request_type
from orbitmq.wire.headers.route import GetRouteInfo
from tests.golden_files import golden

CASES = golden("frames")["cases"]
OLDER_JSON = golden("frames_fastjson1")["cases"]
BOTH = pytest.mark.parametrize("encoding", HeaderEncoding)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def java_bytes(case: dict[str, str], encoding: HeaderEncoding) -> bytes:
    return bytes.fromhex(case[f"frame_{encoding.name.lower()}_hex"])


def as_java_tells(frame: Frame) -> dict[str, object]:
    return {
        "code": frame.code,
        "language": frame.language.name if frame.language is not None else None,
        "version": frame.version,
        "opaque": frame.opaque,
        "flag": frame.flag,
        "remark": frame.remark,
        # Java makes no difference between no fields and none set; a null value is as good as none.
        "ext_fields": {name: text for name, text in frame.texts().items() if text is not None},
        "body_hex": bytes(frame.body).hex(),
    }


def java_told(case: dict[str, dict[str, object]], encoding: HeaderEncoding) -> dict[str, object]:
    decoded = case[f"decoded_{encoding.name.lower()}"]
    fields = decoded.get("ext_fields") or {}
    assert isinstance(fields, dict)
    return {
        "code": decoded["code"],
        "language": decoded["language"],
        "version": decoded["version"],
        "opaque": decoded["opaque"],
        "flag": decoded["flag"],
        "remark": decoded["remark"],
        "ext_fields": {name: text for name, text in fields.items() if text is not None},
        "body_hex": decoded.get("body_hex") or "",
    }


def feed(data: bytes, size: int | None = None) -> list[Frame]:
    reader = FrameReader()
    pieces = [data] if size is None else [data[i : i + size] for i in range(0, len(data), size)]
    return [frame for piece in pieces for frame in reader.feed(piece)]


def outgoing(code: int = 105, **changes: object) -> Outgoing:
    frame = Outgoing(code=code, opaque=7, flag=0, version=493, language="PYTHON")
    return msgspec.structs.replace(frame, **changes)


@BOTH
@each_case
@pytest.mark.parametrize("size", [None, 1, 7])
def test_frames_of_java_are_read_whole_and_in_pieces(
    case: dict[str, dict[str, object]], encoding: HeaderEncoding, size: int | None
) -> None:
    (frame,) = feed(java_bytes(case, encoding), size)  # type: ignore[arg-type]
    assert as_java_tells(frame) == java_told(case, encoding)
    assert frame.encoding is encoding


@pytest.mark.parametrize("size", [None, 1, 1000])
def test_frames_glued_together_come_apart_in_both_encodings(size: int | None) -> None:
    order = [(case, encoding) for case in CASES for encoding in HeaderEncoding]
    stream = b"".join(java_bytes(case, encoding) for case, encoding in order)
    frames = feed(stream, size)
    assert [as_java_tells(frame) for frame in frames] == [java_told(*one) for one in order]


@each_case
def test_our_json_frame_says_the_same_as_that_of_java(case: dict[str, object]) -> None:
    (frame,) = feed(java_bytes(case, HeaderEncoding.JSON))  # type: ignore[arg-type]
    (again,) = feed(rewritten(frame, HeaderEncoding.JSON))
    assert as_java_tells(again) == as_java_tells(frame)


@each_case
def test_our_binary_header_begins_with_the_bytes_of_java(case: dict[str, object]) -> None:
    theirs = java_bytes(case, HeaderEncoding.ROCKETMQ)  # type: ignore[arg-type]
    (frame,) = feed(theirs)
    ours = rewritten(frame, HeaderEncoding.ROCKETMQ)
    # The order of extension fields is Java's hash order; all before them is fixed.
    fixed = 8 + 17 + len((frame.remark or "").encode())
    assert ours[:fixed] == theirs[:fixed]
    assert as_java_tells(feed(ours)[0]) == as_java_tells(frame)
    assert len(ours) == len(theirs) or None in frame.texts().values()


@each_case
def test_typed_fields_hold_what_java_sent(case: dict[str, object]) -> None:
    for encoding in HeaderEncoding:
        (frame,) = feed(java_bytes(case, encoding))  # type: ignore[arg-type]
        header = request_type(frame.code)
        if header is None or frame.is_answer:
            continue
        sent = {name: text for name, text in frame.texts().items() if text is not None}
        known = {name: sent[name] for name in sent if name in header.__struct_encode_fields__}
        assert known.items() <= frame.read(header).to_texts().items()


@pytest.mark.parametrize("case", OLDER_JSON, ids=lambda case: case["name"])
def test_frames_of_the_older_json_library_are_read(case: dict[str, str]) -> None:
    (frame,) = feed(bytes.fromhex(case["frame_json_hex"]))
    newer = next(one for one in CASES if one["name"] == case["name"])
    expected = {**java_told(newer, HeaderEncoding.JSON), "version": frame.version}
    assert as_java_tells(frame) == expected


def rewritten(frame: Frame, encoding: HeaderEncoding) -> bytes:
    assert frame.language is not None
    fields = {name: text for name, text in frame.texts().items() if text is not None}
    head = encode_head(
        Outgoing(
            code=frame.code, opaque=frame.opaque, flag=frame.flag, version=frame.version,
            language=frame.language.name, remark=frame.remark, ext_fields=fields or None,
        ),
        body_size=len(frame.body), encoding=encoding,
    )  # fmt: skip
    return head + bytes(frame.body)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
SOME_FRAME = st.builds(
    Outgoing, code=INT16, opaque=INT32, flag=INT32, version=INT16,
    language=st.sampled_from([language.name for language in Language]),
    remark=TEXT.filter(bool) | st.none(),
    ext_fields=st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), min_size=1) | st.none(),
)  # fmt: skip


@given(
    SOME_FRAME,
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), TEXT),
    st.integers(0, 99),
)
def test_a_form_is_filled_in_as_the_whole_is_written(
    frame: Outgoing, fields: dict[str, str], body_size: int
) -> None:
    frame = msgspec.structs.replace(frame, remark=None, ext_fields=fields)
    form = RequestForm(frame.version, frame.language)
    written = msgspec.json.encode(fields)
    head = form.head(frame.code, frame.opaque, frame.flag, written, body_size)
    assert head == encode_head(frame, body_size)


def test_a_form_holds_frames_to_their_limit() -> None:
    with pytest.raises(LocalProtocolError, match="over the limit"):
        RequestForm(493, "PYTHON").head(310, 7, 0, b"{}", FRAME_BYTES_MAX)


@BOTH
@given(
    frames=st.lists(st.tuples(SOME_FRAME, st.binary(max_size=50)), max_size=5),
    size=st.integers(1, 99),
)
def test_what_is_written_is_read(
    encoding: HeaderEncoding, frames: list[tuple[Outgoing, bytes]], size: int
) -> None:
    stream = b"".join(
        encode_head(frame, body_size=len(body), encoding=encoding) + body for frame, body in frames
    )
    for read, (frame, body) in zip(feed(stream, size), frames, strict=True):
        assert as_java_tells(read) == {
            "code": frame.code, "language": frame.language, "version": frame.version,
            "opaque": frame.opaque, "flag": frame.flag, "remark": frame.remark,
            "ext_fields": frame.ext_fields or {}, "body_hex": body.hex(),
        }  # fmt: skip


def frames_or_fault(data: bytes, size: int) -> object:
    """Read all frames; touch everything of them that is read late."""
    try:
        frames = feed(data, size)
    except RemoteProtocolError as error:
        return (str(error), error.position)
    decoded = []
    for frame in frames:
        try:
            frame.read(GetRouteInfo)
            decoded.append(frame.texts())
        except InvalidHeader:
            decoded.append({})
        assert repr(frame)
    return decoded


@given(data=st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_remote_protocol_error(data: bytes) -> None:
    assert frames_or_fault(data, 1) == frames_or_fault(data, len(data) or 1)


@given(
    header=st.binary(max_size=100),
    body=st.binary(max_size=20),
    kind=st.integers(0, 3),
    lie=st.integers(-3, 3),
)
def test_any_header_gives_a_frame_or_a_remote_protocol_error(
    header: bytes, body: bytes, kind: int, lie: int
) -> None:
    lead = (4 + len(header) + len(body)).to_bytes(4, "big")
    size = max(0, len(header) + lie).to_bytes(3, "big")
    data = lead + bytes([kind]) + size + header + body
    assert frames_or_fault(data, 1) == frames_or_fault(data, 99)


@given(
    case=st.sampled_from(CASES), at=st.integers(0, 10_000), bit=st.integers(0, 7), data=st.data()
)
def test_a_flipped_bit_gives_a_frame_or_a_remote_protocol_error(
    case: dict[str, str], at: int, bit: int, data: st.DataObject
) -> None:
    stream = bytearray(java_bytes(case, data.draw(st.sampled_from(HeaderEncoding))))
    stream[at % len(stream)] ^= 1 << bit
    frames_or_fault(bytes(stream), 13)


def json_frame(header: bytes) -> bytes:
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


@pytest.mark.parametrize(
    ("data", "words", "position"),
    [
        (b"\x01\x00\x00\x00" + bytes(4), "16777220 bytes is over the limit of 16777216", 0),
        (b"\xff\xff\xff\xff" + bytes(4), "over the limit", 0),
        (b"\x00\x00\x00\x03" + bytes(4), "no room for its header's size", 0),
        (b"\x00\x00\x00\x08\x00\x00\x00\x05", "header of 5 bytes in a frame with room for 4", 4),
        (b"\x00\x00\x00\x04\x02\x00\x00\x00", "header type 2 is unknown", 4),
        (b"\x00\x00\x00\x04\x00\x00\x00\x00", "JSON header can't be read", 8),
        (b"\x00\x00\x00\x04\x01\x00\x00\x00", "binary header of 0 bytes is too short", 8),
        (json_frame(b"[]"), "Expected `object`", 8),
        (json_frame(b"{}"), "missing required field `code`", 8),
        (json_frame(b'{"code":"x7"}'), "Expected `int`", 8),
        (json_frame(b'{"code":1.5}'), "Expected `int`", 8),
        (json_frame(b'{"code":2147483648}'), "2147483647", 8),
        (json_frame(b'{"code":' + b"9" * 5000 + b"}"), "can't be read", 8),
        (json_frame(b'{"code":1,"remark":"\xff"}'), "can't decode byte", 8),
        (json_frame(b'{"code":1,"x":' + b"[" * 100_000), "recursion", 8),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "looks like a TLS handshake", 0),
        (b"GET / HTTP/1.1\r\n", "looks like HTTP", 0),
    ],
)  # fmt: skip
def test_a_fault_says_what_and_at_which_byte(data: bytes, words: str, position: int) -> None:
    good = json_frame(b'{"code":105}')
    for stream, offset in ((data, 0), (good + data, len(good))):
        with pytest.raises(RemoteProtocolError, match=words) as caught:
            feed(stream)
        assert caught.value.position == offset + position
        assert f"byte {offset + position} of the stream" in str(caught.value)


def test_a_number_may_be_in_quotes() -> None:
    (frame,) = feed(json_frame(b'{"code":"105","opaque":"-7","flag":"2","version":"493"}'))
    assert (frame.code, frame.opaque, frame.flag, frame.version) == (105, -7, 2, 493)


def test_frames_before_a_fault_are_given_first() -> None:
    frames = FrameReader().feed(json_frame(b'{"code":105}') + b"\xff" * 8)
    assert next(frames).code == 105
    with pytest.raises(RemoteProtocolError):
        next(frames)


def test_no_more_is_held_than_was_received() -> None:
    reader = FrameReader()
    assert list(reader.feed((FRAME_BYTES_MAX - 4).to_bytes(4, "big") + bytes(4))) == []
    assert reader.held == 8
    list(reader.feed(bytes(1000)))
    assert reader.held == 1008


def test_the_largest_frame_is_read_and_its_body_is_not_copied_again() -> None:
    header = b'{"code":10}'
    body = bytes(FRAME_BYTES_MAX - 8 - len(header))
    stream = (
        (FRAME_BYTES_MAX - 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body
    )
    (frame,) = FrameReader().feed(stream)
    assert isinstance(frame.body, memoryview)
    assert frame.body.obj is stream
    (frame,) = feed(stream, 1_000_000)
    assert len(frame.body) == len(body)


def test_a_body_stays_what_it_was_when_more_is_read() -> None:
    reader = FrameReader()
    stream = b"".join(
        encode_head(outgoing(), body_size=3) + body for body in (b"abc", b"def", b"ghi")
    )
    frames = [frame for i in range(0, len(stream), 5) for frame in reader.feed(stream[i : i + 5])]
    assert [bytes(frame.body) for frame in frames] == [b"abc", b"def", b"ghi"]


def test_the_position_counts_the_bytes_of_frames_given() -> None:
    reader = FrameReader()
    stream = json_frame(b'{"code":105}') * 3
    list(reader.feed(stream + b"\x00\x00"))
    assert (reader.position, reader.held) == (len(stream), 2)


def test_values_that_are_not_texts_become_texts_as_in_java() -> None:
    (frame,) = feed(json_frame(b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":"x"}}'))
    assert frame.texts() == {"a": "1", "b": "true", "c": None, "d": "x"}


@pytest.mark.parametrize("fields", [b"null", b"{}"])
def test_no_fields_are_no_fields(fields: bytes) -> None:
    (frame,) = feed(json_frame(b'{"code":1,"extFields":%s}' % fields))
    assert frame.texts() == {}
    assert frame.read(NoFields) == NoFields()


@pytest.mark.parametrize("fields", [b"[]", b'{"a":{}}', b'"x"', b"7"])
def test_fields_that_are_no_fields_are_an_invalid_header(fields: bytes) -> None:
    (frame,) = feed(json_frame(b'{"code":1,"extFields":%s}' % fields))
    with pytest.raises(InvalidHeader):
        frame.texts()


LANGUAGES = (
    b',"language":"GO"', b',"language":9', b',"language":"COBOL"', b',"language":null', b"",
)  # fmt: skip


def test_languages_are_known_by_name_and_number() -> None:
    (named, numbered, unknown, null, missing) = feed(
        b"".join(
            json_frame(b'{"code":1%s}' % language)
            for language in LANGUAGES
        )
    )  # fmt: skip
    assert (named.language, numbered.language) == (Language.GO, Language.GO)
    assert (unknown.language, null.language, missing.language) == (None, None, Language.JAVA)


def test_a_frame_introduces_itself_without_its_body() -> None:
    (request,) = feed(encode_head(outgoing(310), body_size=4) + b"body")
    assert repr(request) == "<Frame request SEND_MESSAGE_V2 opaque=7 PYTHON 5.4.0 body=4B>"
    (answer,) = feed(encode_head(outgoing(17, flag=1, remark="x" * 99), body_size=0))
    assert "answer TOPIC_NOT_EXIST" in repr(answer)
    assert "…" in repr(answer)
    (oneway,) = feed(encode_head(outgoing(15, flag=2), body_size=0))
    assert "one-way UPDATE_CONSUMER_OFFSET" in repr(oneway)


@BOTH
def test_a_frame_over_the_limit_is_not_written(encoding: HeaderEncoding) -> None:
    with pytest.raises(LocalProtocolError, match="over the limit of 16777216; send less"):
        encode_head(outgoing(), body_size=FRAME_BYTES_MAX, encoding=encoding)


def test_a_code_that_does_not_fit_the_binary_form_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="POP_MESSAGE"):
        encode_head(
            outgoing(RequestCode.POP_MESSAGE), body_size=0, encoding=HeaderEncoding.ROCKETMQ
        )


@BOTH
def test_half_a_surrogate_pair_is_refused(encoding: HeaderEncoding) -> None:
    with pytest.raises(LocalProtocolError, match="surrogate"):
        encode_head(outgoing(ext_fields={"a": "\ud800"}), body_size=0, encoding=encoding)


@BOTH
def test_a_header_over_a_megabyte_is_refused(encoding: HeaderEncoding) -> None:
    size = 1024 * 1024 + 1
    lead = (4 + size).to_bytes(4, "big") + (encoding << 24 | size).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="over the limit of 1048576"):
        feed(lead + bytes(size))


@BOTH
def test_requests_are_taken_out_of_what_is_to_be_written(encoding: HeaderEncoding) -> None:
    def frame(opaque: int, flag: int, body: bytes) -> list[bytes]:
        head = Outgoing(code=105, opaque=opaque, flag=flag, version=493, language="PYTHON")
        return [encode_head(head, len(body), encoding), body]

    one, two, answer, oneway = (
        frame(1, 0, b"one"),
        frame(2, 0, b""),
        frame(1, ANSWER_FLAG, b"answer"),
        frame(1, ONEWAY_FLAG, b"oneway"),
    )
    kept, found = without_requests([*one, *two, *answer, *oneway], {1, 3})
    assert found == {1}
    assert b"".join(kept) == b"".join([*two, *answer, *oneway])
