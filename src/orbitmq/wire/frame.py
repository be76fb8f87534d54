"""Frames: what travels on a connection, in both directions.

::

    0        4        5             8               8+n                4+total
    +--------+--------+-------------+---------------+------------------+
    | total  | header | header size | header        | body             |
    | u32    | type   | u24  (= n)  | JSON or       | total - 4 - n    |
    |        | u8     |             | binary, n     | bytes, may be 0  |
    +--------+--------+-------------+---------------+------------------+

``total`` is the number of bytes after it. There are two encodings of the header, and the type byte
of each frame says which: a server answers in its own encoding, not in that of the request.

The JSON header is decoded and encoded here, the binary one by ``binary_header``.

Invariants:

- For any input the reader returns frames, waits for more, or raises ``RemoteProtocolError``.
- It buffers at most one incomplete frame, so at most 16 MiB.
- A body is a view of the received bytes. Only one that arrived in pieces is copied, once.
"""

import struct
from collections.abc import Callable, Container, Iterable, Iterator
from enum import IntEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

from orbitmq.errors import InvalidHeader, LocalProtocolError, RemoteProtocolError
from orbitmq.message.buffer import Buffer
from orbitmq.wire import binary_header
from orbitmq.wire.codes import Language, name_of_request, name_of_response, version_name
from orbitmq.wire.fields import Header, Int32

__all__ = [
    "FRAME_BYTES_MAX",
    "LEAD_SIZE",
    "AnswerForm",
    "Buffer",
    "Frame",
    "FrameReader",
    "HeaderEncoding",
    "Outgoing",
    "RequestForm",
    "TakeLeading",
    "encode_head",
    "pack_lead",
    "unpack_lead",
    "without_requests",
]

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Java's limit (NettyDecoder); it counts the four bytes of the length too."""

HEADER_BYTES_MAX: Final = 1024 * 1024
"""Far more than RocketMQ needs; decoding a larger one would block the loop for a second."""

ANSWER_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

_LEAD = struct.Struct(
    ">I"  # total: bytes after this field
    "I"  # header type in the high byte, header size in the other three
)
_LEAD_SIZE: Final = 8
_SIZE_BITS = 0xFF_FFFF
_BINARY_TYPE = 1 << 24
assert _LEAD.size == _LEAD_SIZE
LEAD_SIZE: Final = _LEAD_SIZE
pack_lead: Final = _LEAD.pack
unpack_lead: Final = _LEAD.unpack_from
_TOTAL_MAX: Final = FRAME_BYTES_MAX - 4


class HeaderEncoding(IntEnum):
    """The encoding of a frame's header; the value is the type byte."""

    JSON = 0
    ROCKETMQ = 1


# Looking up an enum member is slow.
_JSON: Final = HeaderEncoding.JSON
_BINARY: Final = HeaderEncoding.ROCKETMQ


class _JsonHeader(msgspec.Struct, gc=False, rename="camel"):
    """A decoded JSON header. The extension fields stay raw until their type is known."""

    code: Int32
    language: str | int | None = "JAVA"
    version: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    remark: str | None = None
    ext_fields: msgspec.Raw = msgspec.Raw()


# A number may be in quotes: Java's servers read it, too.
_read_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode
_read_any_fields = msgspec.json.Decoder(dict[str, str | int | float | bool | None]).decode
_write_json = msgspec.json.Encoder().encode
_LANGUAGE_OF: Final[dict[str | int | None, Language]] = {
    **{language.name: language for language in Language},
    **{int(language): language for language in Language},
}
_H = TypeVar("_H", bound=Header)


class Frame(msgspec.Struct, gc=False, eq=False):
    """A received request or answer.

    ``body`` is a view that keeps all received bytes of its chunk alive.
    """

    code: int
    opaque: int
    flag: int
    version: int
    spoken: str | int | None
    """The sender's language, by name or number."""
    remark: str | None
    raw_fields: msgspec.Raw | dict[str, str | None]
    body: memoryview | bytes
    encoding: HeaderEncoding

    @property
    def language(self) -> Language | None:
        """The sender's language; None if unknown."""
        return _LANGUAGE_OF.get(self.spoken)

    @property
    def is_answer(self) -> bool:
        """Whether this is an answer; otherwise it is a request."""
        return bool(self.flag & ANSWER_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether this is a request without an answer."""
        return bool(self.flag & ONEWAY_FLAG)

    def read(self, header: type[_H]) -> _H:
        """Decode the extension fields as a header type; raise InvalidHeader if they don't fit."""
        raw = self.raw_fields
        if raw.__class__ is dict:
            return header.from_texts(raw)
        return header.from_json(raw or b"{}")  # type: ignore[arg-type]

    def texts(self) -> dict[str, str | None]:
        """Return all extension fields as texts, for hooks, signatures and logs.

        Raise InvalidHeader if they are not a JSON object of plain values.
        """
        raw = self.raw_fields
        if isinstance(raw, dict):
            return raw
        if not raw:
            return {}
        try:
            return _texts_of_json(raw)
        except (ValueError, RecursionError) as error:
            raise InvalidHeader(f"the extension fields can't be read: {error}") from error

    def __repr__(self) -> str:
        kind = "answer" if self.is_answer else "one-way" if self.is_oneway else "request"
        name = _name(self.code, self.flag)
        language = "unknown" if self.language is None else self.language.name
        remark = f" remark={_shortened(self.remark)!r}" if self.remark else ""
        return (
            f"<Frame {kind} {name} opaque={self.opaque} {language} {version_name(self.version)}"
            f"{remark} body={len(self.body)}B>"
        )


def _texts_of_json(raw: msgspec.Raw) -> dict[str, str | None]:
    if bytes(raw) == b"null":
        return {}
    values = _read_any_fields(raw)
    return {
        name: value
        if value is None or isinstance(value, str)
        else str(value).lower()  # numbers and booleans as in Java
        for name, value in values.items()
    }


def _name(code: int, flag: int) -> str:
    return name_of_response(code) if flag & ANSWER_FLAG else name_of_request(code)


def _shortened(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 :]}"


TakeLeading: TypeAlias = Callable[[bytes | bytearray, int], int]
"""Serves the frames that begin at a position of received bytes, as many as it can serve together.

It returns where the first frame begins that it did not serve. It must check all it reads, and only
take whole frames of at most 64 KiB: the others are read by ``FrameReader``, with its errors. It
keeps views of the bytes, never the bytes to change them."""
_TAKEN_BYTES_MAX: Final = 64 * 1024


class FrameReader:
    """Splits a stream of bytes into frames.

    >>> reader = FrameReader()
    >>> head = encode_head(
    ...     Outgoing(code=105, opaque=7, flag=0, version=493, language="PYTHON"), body_size=0
    ... )
    >>> list(reader.feed(head[:10])), list(reader.feed(head[10:]))
    ([], [<Frame request GET_ROUTEINFO_BY_TOPIC opaque=7 PYTHON 5.4.0 body=0B>])
    """

    __slots__ = ("_held", "_need", "_total_max", "position")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._total_max = limit - 4
        self._held = bytearray()
        self._need = _LEAD_SIZE  # bytes of the held frame needed to continue
        self.position = 0
        """The position in the stream after the last returned frame."""

    @property
    def held(self) -> int:
        """How many bytes of an incomplete frame are buffered."""
        return len(self._held)

    def feed(self, data: bytes, take: "TakeLeading | None" = None) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Exhaust the iterator before feeding again.

        ``take`` may serve frames itself, many at once; those are not yielded. Raise
        RemoteProtocolError if the bytes at ``position`` of the stream are not a frame. The reader
        can't continue: close the connection.
        """
        if self._total_max < _TAKEN_BYTES_MAX:
            take = None  # it does not know the limit
        at = 0
        if self._held:
            at = self._complete_held(data)
            if len(self._held) < self._need:
                return
            held, self._held, self._need = self._held, bytearray(), _LEAD_SIZE
            yield from self._frames(held, 0, take)
        yield from self._frames(data, at, take)

    def whole(self, data: memoryview) -> Iterator[Frame]:
        """Yield the frames that lie in ``data`` as a whole, as views of it; hold nothing.

        ``position`` grows by the size of each. This is for a caller that receives into memory of
        its own: ``data`` begins where ``position`` is, and what follows the frames is part of
        the next call. Raise as ``feed`` does.
        """
        at, end = 0, len(data)
        while at + _LEAD_SIZE <= end:
            total, typed_size = _LEAD.unpack_from(data, at)
            if total > self._total_max or typed_size & _SIZE_BITS > total - 4:
                raise self._bad_lead(bytes(data[at : at + _LEAD_SIZE]))
            if at + 4 + total > end:
                break
            body_at = at + _LEAD_SIZE + (typed_size & _SIZE_BITS)
            header = bytes(data[at + _LEAD_SIZE : body_at])  # outlives what lies in ``data``
            at += 4 + total
            yield self._frame(header, data[body_at:at], total, typed_size)

    def take_held(self) -> bytearray:
        """Return the beginning of an incomplete frame, and forget it: the caller has it now."""
        held, self._held, self._need = self._held, bytearray(), _LEAD_SIZE
        return held

    def _frames(
        self, data: bytes | bytearray, at: int, take: "TakeLeading | None"
    ) -> Iterator[Frame]:
        """Yield the frames from ``at`` on, and keep the beginning of an incomplete one."""
        view = memoryview(data)
        end = len(data)
        while at + _LEAD_SIZE <= end:
            if take is not None and (taken := take(data, at)) > at:
                self.position += taken - at
                at = taken
                continue
            total, typed_size = _LEAD.unpack_from(data, at)
            if total > self._total_max or typed_size & _SIZE_BITS > total - 4:
                raise self._bad_lead(bytes(data[at : at + _LEAD_SIZE]))
            if at + 4 + total > end:
                self._need = 4 + total
                break
            body_at = at + _LEAD_SIZE + (typed_size & _SIZE_BITS)
            header = data[at + _LEAD_SIZE : body_at]
            at += 4 + total
            yield self._frame(header, view[body_at:at], total, typed_size)
        if at < end:
            self._held += view[at:]

    def _complete_held(self, data: bytes) -> int:
        """Add the missing bytes to the held frame; return how many were used."""
        taken = 0
        while taken < len(data) and len(self._held) < self._need:
            part = data[taken : taken + self._need - len(self._held)]
            self._held += part
            taken += len(part)
            if len(self._held) == _LEAD_SIZE:
                total, typed_size = _LEAD.unpack_from(self._held)
                if total > self._total_max or typed_size & _SIZE_BITS > total - 4:
                    raise self._bad_lead(bytes(self._held))
                self._need = 4 + total
        return taken

    def _frame(
        self, header: bytes | bytearray, view: memoryview, total: int, typed_size: int
    ) -> Frame:
        """Decode a frame, given its lead; ``view`` is its body, which is not copied."""
        if typed_size & _SIZE_BITS > HEADER_BYTES_MAX:
            raise self._fault(
                f"a header of {typed_size & _SIZE_BITS} bytes is over the limit of "
                f"{HEADER_BYTES_MAX}",
                4,
            )
        body = view if len(view) else b""
        try:
            if typed_size < _BINARY_TYPE:
                read = _read_json(header)
                frame = Frame(
                    read.code,
                    read.opaque,
                    read.flag,
                    read.version,
                    read.language,
                    read.remark,
                    read.ext_fields,
                    body,
                    _JSON,
                )
            elif typed_size >> 24 == _BINARY:
                frame = _read_binary_frame(header, body)
            else:
                raise RemoteProtocolError(f"header type {typed_size >> 24} is unknown", position=-4)
        except RemoteProtocolError as error:
            raise self._fault(str(error), _LEAD_SIZE + error.position) from error
        except (ValueError, RecursionError) as error:
            # ValueError is the base of msgspec's errors, of bad UTF-8, and of too many digits.
            raise self._fault(f"the JSON header can't be read: {error}", _LEAD_SIZE) from error
        self.position += 4 + total
        return frame

    def _bad_lead(self, lead: bytes) -> RemoteProtocolError:
        """Return the error for the first eight bytes of a frame."""
        total, typed_size = _LEAD.unpack(lead)
        if total > self._total_max:
            return self._fault(
                f"a frame of {4 + total} bytes is over the limit of {4 + self._total_max}"
                f"{_what_it_looks_like(lead[:4])}",
                0,
            )
        if total < 4:
            return self._fault(f"a frame of {total} bytes has no room for its header's size", 0)
        return self._fault(
            f"a header of {typed_size & _SIZE_BITS} bytes in a frame with room for {total - 4}", 4
        )

    def _fault(self, message: str, offset: int) -> RemoteProtocolError:
        position = self.position + offset
        return RemoteProtocolError(f"{message} (byte {position} of the stream)", position=position)


def _what_it_looks_like(first: bytes) -> str:
    """Guess the protocol of a peer that does not speak RocketMQ, by its first four bytes."""
    if first[:2] == b"\x16\x03":
        return "; it looks like a TLS handshake, but this side expects plain text"
    if first in (b"GET ", b"POST", b"HEAD", b"PUT ", b"HTTP"):
        return "; it looks like HTTP"
    return ""


def _read_binary_frame(header: bytes | bytearray, body: memoryview | bytes) -> Frame:
    code, language, version, opaque, flag, remark, fields = binary_header.read(header)
    return Frame(
        code,
        opaque,
        flag,
        version,
        language,
        remark,
        fields,
        body,
        _BINARY,
    )


class Outgoing(
    msgspec.Struct,
    gc=False,
    rename="camel",
    omit_defaults=True,  # omits null
    tag_field="serializeTypeCurrentRPC",  # always the same, but Java always writes it
    tag="JSON",
):
    """A header to be encoded; its JSON form is this struct."""

    code: int
    opaque: int
    flag: int
    version: int
    language: str
    remark: str | None = None
    ext_fields: dict[str, str] | None = None


def encode_head(
    frame: Outgoing, body_size: int, encoding: HeaderEncoding = HeaderEncoding.JSON
) -> bytes:
    """Return the bytes of a frame before its body.

    Raise LocalProtocolError if the frame would be over 16 MiB, or a value doesn't fit the encoding.
    """
    try:
        header = _binary_header(frame) if encoding is _BINARY else _write_json(frame)
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalProtocolError(
            f"{_name(frame.code, frame.flag)} (code {frame.code}, version {frame.version}) can't "
            f"be encoded with a {encoding.name} header: {error}"
        ) from error
    size = len(header)
    total = 4 + size + body_size
    if total > _TOTAL_MAX:  # so the header's size fits into 24 bits
        raise _too_large(frame.code, frame.flag, size, body_size)
    return _LEAD.pack(total, encoding << 24 | size) + header


class RequestForm:
    """The JSON heads of one sender's requests, with the constant part encoded once.

    ``head`` returns the same bytes as encoding an ``Outgoing``, in half the time.

    >>> RequestForm(493, "PYTHON").head(105, 7, 0, b'{"topic":"orders"}', body_size=0)[8:55]
    b'{"serializeTypeCurrentRPC":"JSON","code":105,"o'
    """

    __slots__ = ("_form",)

    def __init__(self, version: int, language: str) -> None:
        self._form = (
            b'{"serializeTypeCurrentRPC":"JSON","code":%%d,"opaque":%%d,"flag":%%d,'
            b'"version":%d,"language":%b,"extFields":%%b}' % (version, _write_json(language))
        )

    def of(self, code: int, fields: bytes) -> bytes:
        """Return the form of headers of one code: with blanks for the number and in ``fields``.

        >>> form = RequestForm(493, "PYTHON").of(105, b'{"topic":%b}')
        >>> (form % (7, b'"orders"'))[-31:]
        b'"extFields":{"topic":"orders"}}'
        """
        blank = b"%d"
        form = self._form.replace(blank, b"%b")
        return form % (b"%d" % code, blank, b"0", fields)

    def head(self, code: int, opaque: int, flag: int, fields: bytes, body_size: int) -> bytes:
        """Return the bytes of a request before its body; ``fields`` are JSON."""
        header = self._form % (code, opaque, flag, fields)
        size = len(header)
        total = 4 + size + body_size
        if total > _TOTAL_MAX:
            raise _too_large(code, flag, size, body_size)
        return pack_lead(total, size) + header


class AnswerForm:
    """The JSON heads of one sender's answers with fields, as ``RequestForm`` for requests.

    >>> AnswerForm(493, "PYTHON").head(0, 7, b'{"offset":"3"}', 0, None)[8:60]
    b'{"serializeTypeCurrentRPC":"JSON","code":0,"opaque":'
    """

    __slots__ = ("_form",)

    def __init__(self, version: int, language: str) -> None:
        self._form = (
            b'{"serializeTypeCurrentRPC":"JSON","code":%%d,"opaque":%%d,"flag":%d,'
            b'"version":%d,"language":%b%%b,"extFields":%%b}'
            % (ANSWER_FLAG, version, _write_json(language))
        )

    def head(
        self, code: int, opaque: int, fields: bytes, body_size: int, remark: str | None
    ) -> bytes:
        """Return the bytes of an answer before its body; ``fields`` are JSON.

        Raise UnicodeEncodeError if the remark holds half of a surrogate pair.
        """
        remarked = b"" if remark is None else b',"remark":' + _write_json(remark)
        header = self._form % (code, opaque, remarked, fields)
        size = len(header)
        total = 4 + size + body_size
        if total > _TOTAL_MAX:
            raise _too_large(code, ANSWER_FLAG, size, body_size)
        return pack_lead(total, size) + header


def without_requests(
    buffers: Iterable[Buffer], withdrawn: Container[int]
) -> tuple[list[Buffer], set[int]]:
    """Remove requests from unsent frames; return the other frames, and the numbers removed.

    It decodes the frames again and copies bodies, so it is for rare use. ``buffers`` are whole
    frames, as heads and bodies; ``withdrawn`` has the numbers to remove.
    """
    data = b"".join(buffers)
    reader = FrameReader()
    kept: list[Buffer] = []
    found: set[int] = set()
    begin = 0
    for frame in reader.feed(data):
        if frame.flag & (ANSWER_FLAG | ONEWAY_FLAG) or frame.opaque not in withdrawn:
            kept.append(data[begin : reader.position])
        else:
            found.add(frame.opaque)
        begin = reader.position
    return kept, found


def _too_large(code: int, flag: int, size: int, body_size: int) -> LocalProtocolError:
    return LocalProtocolError(
        f"{_name(code, flag)}: a frame of {_LEAD_SIZE + size + body_size} bytes (header {size}, "
        f"body {body_size}) is over the limit of {FRAME_BYTES_MAX}; send less at a time"
    )


def _binary_header(frame: Outgoing) -> bytes:
    return binary_header.write(
        frame.code,
        Language[frame.language],
        frame.version,
        frame.opaque,
        frame.flag,
        frame.remark,
        frame.ext_fields,
    )
