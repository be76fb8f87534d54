"""Where queues begin and end, and offsets by time.

GET_MIN_OFFSET, GET_MAX_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME. A queue
without messages begins and ends at 0, as in Java, whether its topic exists or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orbitmq.net.connection import Connection, Handler
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)
from orbitmq.wire.session import Response

__all__ = ["PositionHandlers"]

_NO_TIME: Final = -1


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class PositionHandlers:
    """Serves requests about the offsets of queues."""

    store: MessageStore

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_MIN_OFFSET: self._min,
            RequestCode.GET_MAX_OFFSET: self._max,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest,
        }

    def _min(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetMinOffset)
        offset = self.store.lookup.min_offset(asked.topic, asked.queue_id)
        return Response(header=GetMinOffsetAnswer(offset=offset))

    def _max(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetMaxOffset)
        offset = self.store.lookup.max_offset(asked.topic, asked.queue_id)
        return Response(header=GetMaxOffsetAnswer(offset=offset))

    def _search(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(SearchOffset)
        is_upper = (asked.boundary_type or "").upper() == "UPPER"
        offset = self.store.lookup.offset_by_time(
            asked.topic,
            asked.queue_id,
            asked.timestamp,
            Boundary.UPPER if is_upper else Boundary.LOWER,
        )
        return Response(header=SearchOffsetAnswer(offset=offset))

    def _earliest(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetEarliestMsgStoretime)
        stored_ms = self.store.lookup.earliest_store_time_ms(asked.topic, asked.queue_id)
        earliest_ms = _NO_TIME if stored_ms is None else stored_ms
        return Response(header=GetEarliestMsgStoretimeAnswer(timestamp=earliest_ms))
