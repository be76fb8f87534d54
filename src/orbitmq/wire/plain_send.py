"""A send decoded by one call, and its answer made from a form: for sends that come in hundreds.

A frame's header is decoded in two steps elsewhere: the fields wait until their type is known. What
is refused there is refused here, too.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from orbitmq.kernel import compiled
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Int32
from orbitmq.wire.frame import ANSWER_FLAG, Buffer, HeaderEncoding, Outgoing, encode_head, pack_lead
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Identity

__all__ = ["Placed", "PlainSend", "SendAnswerForm", "read_plain_send"]

_LEAD_SIZE: Final = 8
_LEADS_KEPT: Final = 1024


def _lead(header_size: int) -> bytes:
    """Return the lead of a frame without a body."""
    return pack_lead(4 + header_size, header_size)


_LEADS: Final = [_lead(size) for size in range(_LEADS_KEPT)]


class PlainSend(msgspec.Struct, gc=False):
    """The JSON header of a send."""

    code: Int32
    fields: SendMessageV2 = msgspec.field(name="extFields")
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | int | None = None
    remark: str | None = None


read_plain_send: Final = msgspec.json.Decoder(PlainSend, strict=False).decode
"""Decodes a header; raises ValueError or RecursionError if it is not that of a send."""


class Placed(Protocol):
    """What an answer says of a stored message."""

    @property
    def commit_log_offset(self) -> int:
        """Where it is in the log."""

    @property
    def queue_id(self) -> int:
        """The queue that the sender asked for."""

    @property
    def queue_offset(self) -> int:
        """Its number in the queue that it is in."""

    @property
    def unique_key(self) -> bytes | None:
        """The unique key of the sender."""


class SendAnswerForm:
    """The answers to stored messages, with the constant part encoded once.

    ``fields`` are those that all answers have, and ``id_prefix`` is what message ids begin with.

    >>> form = SendAnswerForm(Identity(), "7F00000100002A9F", {"TRACE_ON": "true"})
    >>> from types import SimpleNamespace
    >>> stored = SimpleNamespace(
    ...     commit_log_offset=640, queue_id=3, queue_offset=41, unique_key=b"7F0001")
    >>> form.frames([7], [stored])[0][-50:]
    b':"41","TRACE_ON":"true","transactionId":"7F0001"}}'
    """

    __slots__ = ("_form",)

    def __init__(self, identity: Identity, id_prefix: str, fields: Mapping[str, str]) -> None:
        texts = {
            "msgId": _literal(id_prefix) + "%016X",
            "queueId": "%d",
            "queueOffset": "%d",
            **{_literal(name): _literal(text) for name, text in fields.items()},
            "transactionId": "%b",
        }
        outgoing = Outgoing(
            int(ResponseCode.SUCCESS),
            0,
            ANSWER_FLAG,
            identity.version,
            identity.language.name,
            None,
            texts,
        )
        encoded = encode_head(outgoing, 0, HeaderEncoding.JSON)[_LEAD_SIZE:]
        # The encoder escapes no percent sign, and all of ours are in the texts above.
        self._form = encoded.replace(b'"opaque":0,', b'"opaque":%d,', 1)

    def frames(self, opaques: Iterable[int], stored: Iterable[Placed]) -> list[Buffer]:
        """Return the answers to sends; the unique keys must need no escape in JSON."""
        return answer_frames(self._form, opaques, stored)


@compiled
def answer_frames(form: bytes, opaques: Iterable[int], stored: Iterable[Placed]) -> list[Buffer]:
    """Return the answers to sends, with five values each put into a form."""
    frames: list[Buffer] = []
    for opaque, one in zip(opaques, stored, strict=False):
        place = (one.commit_log_offset, one.queue_id, one.queue_offset, one.unique_key)
        header = form % (opaque, *place)
        size = len(header)
        frames.append((_LEADS[size] if size < _LEADS_KEPT else _lead(size)) + header)
    return frames


def _literal(text: str) -> str:
    return text.replace("%", "%%")
