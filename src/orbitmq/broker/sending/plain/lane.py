"""Plain sends: the leading ones of a read become records together.

::

    bytes of a read ──▶ frame ──▶ code, topic, queue, properties: all plain? ──▶ record ─┐
          ▲                                      │ no                                    │
          └──────────────── next ◀───────────────┼───────────────────────────────────────┤
                                                 ▼                                       ▼
               the careful way (handlers/client/send.py), in its place          batches ──▶ inbox

A plain send is one whose message is stored as it came, with the broker's properties behind its own:
a known topic that sends may use, an existing queue, no delay, no batch. The half messages of
transactions are plain if they would be without being halves (``halves.py``). Whatever is not plain,
and whatever is wrong, takes the careful way, which has all the rules and all the errors.
The messages of a batch are stored and answered together by the inbox.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from orbitmq.broker.sending.inbox import Inbox
from orbitmq.broker.sending.plain.batch import OnFailure, PlainBatch
from orbitmq.broker.sending.plain.cutting import (
    PLAIN_FLAGS,
    SEND_CODE,
    Cut,
    PlainTopic,
    cut_leading,
    cut_sends,
)
from orbitmq.broker.sending.plain.half_texts import DESTINATION_MAX, HalfTexts
from orbitmq.broker.sending.plain.halves import HALF_FLAGS, HalfBatch
from orbitmq.broker.sending.plain.meanings import Meanings
from orbitmq.broker.sending.send_checks import SendChecks
from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.net.connection import Connection
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.bodies.topic import TopicFilterType
from orbitmq.wire.frame import TakeLeading
from orbitmq.wire.plain_send import SendAnswerForm

__all__ = ["PlainSends", "PlainTerms"]

_MULTI_TAG: Final = TopicFilterType.MULTI_TAG
_CODE_TEXT: Final = b":%d," % SEND_CODE
_CODE_FROM: Final = 8
_CODE_WITHIN: Final = 72
"""All clients write the code near the beginning of the header."""
_LEAD_SIZE: Final = 8
_HEADER_SIZE_AT: Final = 5  # behind the type of the header
# How JSON has the names of properties with which a send is delayed, timed or half.
_DELAY: Final = properties.DELAY.encode() + rb"\u0001"
_TIMER: Final = b"TIMER_DEL"
_HALF: Final = properties.TRANSACTION_PREPARED.encode() + rb"\u0001"
_RECORD_MORE: Final = 512
"""A record has fewer bytes than this besides its body and properties."""
_BATCH_LEAST: Final = 32
_BATCHES_OF_A_READ: Final = 4
"""A read is stored and answered in four parts, if they are not too small: the client prepares its
next sends while the broker stores the rest. In one part each would wait for the other."""


class PlainTerms:
    """What all plain sends share while the settings stay the same."""

    __slots__ = ("form", "store_host", "suffix", "takes_halves")

    def __init__(
        self, form: SendAnswerForm, suffix: bytes, store_host: Host, *, takes_halves: bool
    ) -> None:
        self.form = form
        self.suffix = suffix
        """The properties that the broker adds to those of the producer."""
        self.store_host = store_host
        self.takes_halves = takes_halves


class PlainSends:
    """Takes plain sends from the reads of connections and puts them into the inbox.

    ``terms`` returns what they share, None if no send is plain under the present settings.
    ``born_host`` returns the host of a connection's peer.
    """

    def __init__(
        self,
        *,
        inbox: Inbox,
        checks: SendChecks,
        meanings: Meanings,
        store: MessageStore,
        terms: Callable[[Connection], PlainTerms | None],
        born_host: Callable[[str], Host],
        on_failure: OnFailure,
        halves_began: Callable[[str, int], None],
    ) -> None:
        self._inbox = inbox
        self._checks = checks
        self._log = store.log
        self._terms = terms
        self._born_host = born_host
        self._on_failure = on_failure
        self._meanings = meanings
        self._half_texts = HalfTexts(meanings)
        self._halves_began = halves_began

    def __repr__(self) -> str:
        return f"<PlainSends {self._meanings!r}>"

    def of(self, connection: Connection) -> TakeLeading:
        """Return what serves the leading frames of a connection's reads."""

        def take(data: bytes | bytearray, at: int) -> int:
            if data.find(_CODE_TEXT, at + _CODE_FROM, at + _CODE_WITHIN) < 0:
                return at
            terms = self._terms(connection)
            if terms is None or not self._log.takes_records:
                return at
            header_end = (
                at + _LEAD_SIZE + int.from_bytes(data[at + _HEADER_SIZE_AT : at + _LEAD_SIZE])
            )
            if data.find(_DELAY, at, header_end) >= 0 or data.find(_TIMER, at, header_end) >= 0:
                return at
            if data.find(_HALF, at, header_end) >= 0:
                return self._take_halves(connection, terms, data, at) if terms.takes_halves else at
            cut = self._new_cut(connection, terms)
            end = cut_leading(data, at, cut, self._topic, self._meanings)
            if cut_leading is not cut_sends:  # some that only Python understands may follow
                end = cut_sends(data, end, cut, self._topic, self._meanings)
            make = partial(PlainBatch, form=terms.form, on_failure=self._on_failure)
            self._put(connection, cut, make)
            return end

        return take

    def _take_halves(
        self, connection: Connection, terms: PlainTerms, data: bytes | bytearray, at: int
    ) -> int:
        cut = self._new_cut(connection, terms, more=DESTINATION_MAX, plain_flags=HALF_FLAGS)
        end = cut_sends(data, at, cut, self._topic, self._half_texts)
        make = partial(
            HalfBatch, form=terms.form, on_failure=self._on_failure, began=self._halves_began
        )
        self._put(connection, cut, make)
        return end

    def _new_cut(
        self,
        connection: Connection,
        terms: PlainTerms,
        *,
        more: int = 0,
        plain_flags: int = PLAIN_FLAGS,
    ) -> Cut:
        return Cut(
            suffix=terms.suffix,
            born_host=self._born_host(connection.peer),
            store_host=terms.store_host,
            # What is cut and can't be served would be cut again for each of its frames.
            most=min(self._inbox.room, connection.serving_room),
            bytes_max=self._log.checked_bytes - _RECORD_MORE - more,
            plain_flags=plain_flags,
        )

    def _topic(self, name: str) -> PlainTopic | None:
        """Return a topic whose sends may be plain."""
        topic = self._checks.passed(name)
        if topic is None or name[0] == "%" or self._inbox.is_held(name):
            return None
        more_flags = flags.MULTI_TAGS if topic.topic_filter_type is _MULTI_TAG else 0
        return PlainTopic(topic.topic_name, topic.write_queue_nums, more_flags)

    def _put(self, connection: Connection, cut: Cut, make: Callable[..., PlainBatch]) -> None:
        if not cut.records:
            return
        connection.serve_together(len(cut.records))
        step = max(_BATCH_LEAST, -(-len(cut.records) // _BATCHES_OF_A_READ))
        for begin in range(0, len(cut.records), step):
            part = slice(begin, begin + step)
            self._inbox.put_together(make(connection, cut.opaques[part], cut.records[part]))
