"""The history of a message, from the traces that clients report, for operators.

Clients that trace send records to a trace topic, with the ids and keys of their messages as keys;
``observe/trace_timeline.py`` builds the history from them.
"""

from typing import Final

from orbitmq.client.admin.messages import MessageAdmin
from orbitmq.client.observe.trace_timeline import MessageTrace, Report, build_trace, published
from orbitmq.errors import NotFound, OrbitError
from orbitmq.message import trace
from orbitmq.message.model import StoredMessage
from orbitmq.message.names import TRACE_TOPIC
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT64_MAX

__all__ = ["TraceAdmin"]

_QUERY_MAX: Final = 64
"""Trace messages from each broker; as many as a query returns at most."""


class TraceAdmin(MessageAdmin):
    """What an `Admin` does with traces."""

    async def message_trace(
        self,
        message_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = INT64_MAX,
    ) -> MessageTrace:
        """Return the history of a message: sent, stored, delivered, consumed, with latencies.

        Clients report in batches, so the last events may be missing for some seconds.

        ::

            for event in (await admin.message_trace(receipt.message_id)).events:
                print(event.at_ms, event.step.value, event.group, event.latency_ms)

        Args:
            message_id: the unique id of the message.
            trace_topic: where its clients report to.
            begin_ms: the earliest time of a report, in milliseconds since 1970.
            end_ms: the latest time.

        Raises:
            NotFound: no client reported on it. Producers and consumers report if they trace, and
                brokers keep reports if ``traceTopicEnable`` is set.
            NoRoute: no nameserver knows the trace topic.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        found = await self._reports(message_id, trace_topic, begin_ms, end_ms)
        if message_id not in found:
            raise NotFound(
                ResponseCode.NO_MESSAGE,
                f"{trace_topic} has no trace of {message_id:.64}; check that its clients trace",
            )
        return await self._trace(message_id, found[message_id])

    async def traces_by_key(
        self,
        key: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = INT64_MAX,
    ) -> list[MessageTrace]:
        """Return the histories of all messages with a key; arguments as ``message_trace``.

        At most 64 reports from each broker are read, the newest; for a complete history ask by id.

        Raises:
            NoRoute: no nameserver knows the trace topic.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        found = await self._reports(key, trace_topic, begin_ms, end_ms)
        traces = [await self._trace(one, reports) for one, reports in found.items()]
        return [one for one in traces if key in one.keys]

    async def _reports(
        self, key: str, topic: str, begin_ms: int, end_ms: int
    ) -> dict[str, list[Report]]:
        """Return what was reported, by message id."""
        found: dict[str, list[Report]] = {}
        for message in await self.query_message(
            topic, key, max_count=_QUERY_MAX, begin_ms=begin_ms, end_ms=end_ms
        ):
            for record in trace.decode(message.body):
                report = Report(record, str(message.born_host), message.store_timestamp_ms)
                found.setdefault(record.message_id, []).append(report)
        return found

    async def _trace(self, message_id: str, reports: list[Report]) -> MessageTrace:
        return build_trace(message_id, reports, await self._message_of(message_id, reports))

    async def _message_of(self, message_id: str, reports: list[Report]) -> StoredMessage | None:
        """Return the message itself, for its store time; None if it can't be read any more."""
        send = published(reports)
        if send is None or not send.success or not send.offset_message_id:
            return None
        try:
            found = await self.view_message(send.topic, send.offset_message_id)
        except OrbitError:
            return None  # the time is estimated then, and the event says so
        return found if found.message_id == message_id else None
