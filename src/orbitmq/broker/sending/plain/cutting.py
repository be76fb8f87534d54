"""The bytes of a read cut into the records of its plain sends."""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, Protocol

from orbitmq.broker.sending.plain.meanings import PlainText
from orbitmq.kernel import compiled
from orbitmq.message import flags
from orbitmq.message.host import Host
from orbitmq.store.log.append import NewRecord
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.plain_send import read_plain_send

__all__ = ["PLAIN_FLAGS", "SEND_CODE", "Cut", "PlainTopic", "TopicOf", "cut_leading", "cut_sends"]

PLAIN_FLAGS: Final = flags.COMPRESSED | flags.COMPRESSION_MASK | flags.MULTI_TAGS
"""What the sys flag of a plain send may say."""
SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)

_unpack_lead: Final = Struct(">II").unpack_from
_LEAD_SIZE: Final = 8
_HEADER_MAX: Final = 16 * 1024


class PlainTopic(NamedTuple):
    """A topic whose sends may be plain."""

    name: str
    queues: int
    more_flags: int
    """What its records have in their sys flag besides what the sender says."""


class Cut:
    """The plain sends of one read, and what they share."""

    __slots__ = (
        *("born_host", "bytes_max", "most", "opaques", "plain_flags", "records", "store_host"),
        "suffix",
    )

    def __init__(
        self,
        *,
        suffix: bytes,
        born_host: Host,
        store_host: Host,
        most: int,
        bytes_max: int,
        plain_flags: int = PLAIN_FLAGS,
    ) -> None:
        self.plain_flags = plain_flags
        """What the sys flag of a send may say."""
        self.suffix = suffix
        """The properties that the broker adds to those of the producer."""
        self.born_host = born_host
        self.store_host = store_host
        self.most = most
        """How many sends there may be."""
        self.bytes_max = bytes_max
        """How long body and properties of one may be together."""
        self.opaques: list[int] = []
        self.records: list[NewRecord] = []


class ReadsTexts(Protocol):
    """Says which property texts are plain, and what they mean."""

    def read(self, text: bytes) -> PlainText | None:
        """Return a text in its parts; None if it has to be read with care."""


TopicOf = Callable[[str], PlainTopic | None]


def cut_sends(
    data: bytes | bytearray, at: int, cut: Cut, topic_of: TopicOf, meanings: ReadsTexts
) -> int:
    """Add the records of leading plain sends; return where the first other frame begins."""
    suffix, store_host, born_host = cut.suffix, cut.store_host, cut.born_host
    read_text, bytes_max, not_plain = meanings.read, cut.bytes_max, ~cut.plain_flags
    view, end, most = memoryview(data), len(data), cut.most
    opaques, records = cut.opaques, cut.records
    name, queues, more_flags = "", 0, 0
    while at + _LEAD_SIZE <= end and len(records) < most:
        total, size = _unpack_lead(data, at)
        body_at = at + _LEAD_SIZE + size
        stop = at + 4 + total
        if stop > end or size > _HEADER_MAX or body_at > stop:
            break
        try:
            send = read_plain_send(data[at + _LEAD_SIZE : body_at])
        except (ValueError, RecursionError):
            break
        fields = send.fields
        text = fields.properties
        if send.code != SEND_CODE or send.flag or fields.batch or not text:
            break
        if fields.topic != name:
            topic = topic_of(fields.topic)
            if topic is None:
                break
            name, queues, more_flags = topic
        queue_id, sys_flag = fields.queue_id, fields.sys_flag
        if not 0 <= queue_id < queues or sys_flag & not_plain:
            break
        plain = read_text(text.encode())
        if plain is None:
            break
        raw, unique_key, keys, meaning = plain
        raw += suffix
        if stop - body_at + len(raw) > bytes_max:
            break
        opaques.append(send.opaque)
        # fmt: off
        records.append(
            NewRecord(
                name, queue_id, 0, 0, 0, 0,  # the log fills in the place
                sys_flag | more_flags, meaning[0], unique_key, keys, meaning[1], 1,
                view[body_at:stop], raw, fields.flag, fields.born_timestamp,
                born_host, store_host, fields.reconsume_times or 0,
            )
        )
        # fmt: on
        at = stop
    return at


cut_leading = compiled(cut_sends)
"""The same for the first of these sends, perhaps none."""
