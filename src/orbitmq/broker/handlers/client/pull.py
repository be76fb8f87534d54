"""PULL_MESSAGE and LITE_PULL_MESSAGE: messages of one queue from an offset, or a wait for them.

::

    pull ──▶ checked ──▶ selected ──┬── found, retry, moved ───────────────▶ answer
                                    └── nothing yet ──▶ held ──▶ selected ──▶ answer

A held pull is checked again when it is released: topic, group or subscription may have changed.
Pulls that one append releases are answered in one turn; groups that wait at the same offset of a
queue get what was read for the first of them. The answer's body is views of the commit log; no byte
is copied here. Static topics and the broadcasting offsets of proxies are not served.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.pulling import filters
from orbitmq.broker.pulling.held_pulls import HeldPull, HeldPulls
from orbitmq.broker.pulling.pull_checks import CheckedPull, PullChecks
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.clock import Clock
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal, failure
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.message_store import MessageStore
from orbitmq.store.serving.pull_reader import (
    GetMessageResult,
    GetMessageStatus,
    RecordFilter,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import COMMIT_OFFSET, SUSPEND, PullMessage
from orbitmq.wire.pull_template import FilledPullAnswer
from orbitmq.wire.session import Response

__all__ = ["PullHandlers"]

log = logging.getLogger("orbitmq.broker")

_MASTER: Final = 0
_UNLIMITED: Final = 2**31 - 1
_HOLD_MS_MAX: Final = 60_000
"""Java's clients ask to be held for 15 or 20 s, and time out after 30."""

_TURN_PULLS: Final = 256
"""Held pulls answered in one turn of the loop, so that thousands of them don't block it."""

_HELD_TERMS_MAX: Final = 200
"""Operands of a filter that is applied to each message while a pull is held."""

_CODES: Final[Mapping[GetMessageStatus, int]] = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_WITHOUT_MESSAGES: Final = (
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE,
)

_Alike: TypeAlias = dict[tuple[str, int, int, int, int], GetMessageResult]
"""What was read in one turn, by topic, queue, offset, and limits of messages and bytes."""


class PullHandlers:
    """Serves pulls, at once or after they were held.

    ``follows`` returns whether this is a slave whose master is there.
    """

    def __init__(
        self,
        *,
        settings: LiveSettings,
        checks: PullChecks,
        offsets: ConsumerOffsets,
        store: MessageStore,
        held: HeldPulls,
        stats: BrokerStats,
        clock: Clock,
        follows: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self._follows = follows
        self._checks = checks
        self._offsets = offsets
        self._store = store
        self._held = held
        self._stats = stats
        self._clock = clock
        self._released: deque[HeldPull] = deque()  # not held any more, and not answered yet

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.PULL_MESSAGE: self._pull, RequestCode.LITE_PULL_MESSAGE: self._pull}

    def arrived(self, arrivals: Iterable[Dispatched]) -> None:
        """Answer the held pulls that match one of these messages."""
        if self._held:
            self._serve_held(self._held.arrived(arrivals, self._properties_of))

    def _properties_of(self, arrival: Dispatched) -> str | None:
        """Return the text of the properties of a message that just arrived."""
        found = self._store.record(arrival.commit_log_offset)
        return None if found is None else str(found.properties, "utf-8", "replace")

    def moved(self, topic: str, queue_id: int) -> None:
        """Answer the held pulls of a queue after a reset of offsets in it.

        In Java they are answered when their timeout expires.
        """
        self._serve_held(self._held.of_queue(topic, queue_id))

    def tick(self) -> None:
        """Answer the held pulls whose timeout expired; call it a few times a second."""
        self._serve_held(self._held.due(self._clock.monotonic_ms()))

    def serve_passed_over(self) -> None:
        """Answer the held pulls in whose queues only other messages arrived; call it every 5 s."""
        self._serve_held(self._held.passed_over())

    def close(self) -> None:
        """Answer all held pulls, and hold no more, for a stop."""
        self._serve_held(self._held.close())
        while self._released:
            self._serve_released()

    # One pull

    def _pull(self, connection: Connection, request: Frame) -> Response | None:
        broker = self._settings.broker
        if broker.is_slave and not broker.slave_read_enable:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy, start flow control for a while. This broker is a "
                "slave; pull from its master, or set slaveReadEnable on both",
            )
        pull = request.read(PullMessage)
        checked = self._checks.check(pull, request.code, connection.peer)
        began_ms = self._clock.monotonic_ms()
        result = self._read(pull, checked)
        # Java's broker commits here even when it answers with a reset, and so undoes the reset.
        if pull.sys_flag & COMMIT_OFFSET and result.status is not GetMessageStatus.OFFSET_RESET:
            self._offsets.commit(
                pull.consumer_group,
                pull.topic,
                pull.queue_id,
                pull.commit_offset,
                client=connection.peer,
            )
        code = self._code_of(pull, checked, result)
        waits = code == ResponseCode.PULL_NOT_FOUND and pull.sys_flag & SUSPEND
        if waits:
            self._hold(connection, request, pull, checked)
            return None
        return self._answer(pull, checked, result, code, began_ms)

    def _read(
        self, pull: PullMessage, checked: CheckedPull, alike: _Alike | None = None
    ) -> GetMessageResult:
        """Select the messages for a pull, and record how far its group has pulled.

        ``alike`` has what was read in this turn for pulls without a filter.
        """
        topic, queue_id, lookup = pull.topic, pull.queue_id, self._store.lookup
        moved_to = self._offsets.query_then_erase_reset(pull.consumer_group, topic, queue_id)
        if moved_to is not None:
            result = GetMessageResult(
                status=GetMessageStatus.OFFSET_RESET,
                next_offset=moved_to,
                min_offset=lookup.min_offset(topic, queue_id),
                max_offset=lookup.max_offset(topic, queue_id),
            )
        else:
            result = self._select(pull, checked, alike)
            if self._settings.broker.is_slave:
                result = _uncorrected(result, pull.queue_offset)
        self._offsets.commit_pull(pull.consumer_group, topic, queue_id, result.next_offset)
        return result

    def _select(
        self, pull: PullMessage, checked: CheckedPull, alike: _Alike | None
    ) -> GetMessageResult:
        wants, record_filter = filters.wants(checked.subscription), checked.record_filter
        max_count, max_bytes = pull.max_msg_nums, pull.max_msg_bytes or _UNLIMITED
        key = (pull.topic, pull.queue_id, pull.queue_offset, max_count, max_bytes)
        shared = alike if wants is None and record_filter is None else None
        if shared is not None and key in shared:
            return shared[key]
        result = self._store.lookup.get_messages(
            pull.topic,
            pull.queue_id,
            pull.queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wants=wants,
            record_filter=record_filter,
        )
        if shared is not None:
            shared[key] = result
        return result

    def _hold(
        self, connection: Connection, request: Frame, pull: PullMessage, checked: CheckedPull
    ) -> None:
        """Hold a pull until a message arrives or its timeout expires.

        Raise Refusal if too many are held, or the broker is stopping: after PULL_NOT_FOUND clients
        would pull again at once.
        """
        settings = self._settings.broker
        hold_ms = pull.suspend_timeout_millis
        if not settings.long_polling_enable:
            hold_ms = settings.short_polling_time_mills
        held = HeldPull(
            connection,
            request,
            pull.topic,
            pull.queue_id,
            self._clock.monotonic_ms() + min(max(hold_ms, 0), _HOLD_MS_MAX),
            filters.wants(checked.subscription),
            _cheap(checked.record_filter),
        )
        if not self._held.hold(held):
            raise self._held.refusal()

    def _answer(
        self,
        pull: PullMessage,
        checked: CheckedPull,
        result: GetMessageResult,
        code: int,
        began_ms: int,
    ) -> Response:
        if code == ResponseCode.SUCCESS:
            self._stats.fetched(
                pull.consumer_group,
                pull.topic,
                pull.queue_id,
                result.count,
                result.size,
                self._clock.monotonic_ms() - began_ms,
            )
        else:
            self._stats.missed()
        answer = FilledPullAnswer(
            suggest_which_broker_id=self._suggested(checked, result),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=checked.topic.topic_sys_flag,
            group_sys_flag=checked.group.group_sys_flag,
        )
        status = result.status
        if status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
            # Java creates the queue at the first pull, and answers that it is empty.
            status = GetMessageStatus.NO_MESSAGE_IN_QUEUE
        views = tuple(result.views)
        return Response(code, answer, views, remark=status.value, body_size=result.size)

    def _code_of(self, pull: PullMessage, checked: CheckedPull, result: GetMessageResult) -> int:
        """Return the response code; a slave holds no pulls that belong to its master."""
        code = _code(result.status, pull.queue_offset)
        if code != ResponseCode.SUCCESS and self._redirects(checked, result):
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        return code

    def _redirects(self, checked: CheckedPull, result: GetMessageResult) -> bool:
        """Return whether the next pull is better served by the master of this slave.

        Java's slave sends all pulls of young messages to the master, even if it is gone.
        """
        is_own = self._suggested(checked, result) == self._settings.broker.broker_id
        return self._follows() and not is_own

    def _suggested(self, checked: CheckedPull, result: GetMessageResult) -> int:
        broker, group = self._settings.broker, checked.group
        if not broker.slave_read_enable:
            return _MASTER
        if result.from_disk:
            return group.which_broker_when_consume_slowly
        if broker.is_slave and not self._follows():
            return broker.broker_id
        return group.broker_id

    # Held pulls

    def _serve_held(self, pulls: Iterable[HeldPull]) -> None:
        """Answer released pulls: some now, the rest in the following turns of the loop."""
        is_scheduled = bool(self._released)
        self._released.extend(pulls)
        if self._released and not is_scheduled:
            self._serve_released()

    def _serve_released(self) -> None:
        alike: _Alike = {}
        for _ in range(min(len(self._released), _TURN_PULLS)):
            held = self._released.popleft()
            held.connection.respond(held.request, self._again(held, alike))
        if self._released:
            asyncio.get_running_loop().call_soon(self._serve_released)

    def _again(self, held: HeldPull, alike: _Alike) -> Response:
        """Return the answer to a released pull; it is not held a second time."""
        try:
            pull = held.request.read(PullMessage)
            checked = self._checks.check(pull, held.request.code, held.connection.peer)
            began_ms = self._clock.monotonic_ms()
            result = self._read(pull, checked, alike)
            code = self._code_of(pull, checked, result)
            return self._answer(pull, checked, result, code, began_ms)
        except Refusal as refusal:
            return refusal.response()
        except Exception as error:  # the other pulls are answered all the same
            log.exception("a held pull of %s failed: %r", held.connection.peer, held.request)
            return failure(error)


def _cheap(record_filter: RecordFilter | None) -> RecordFilter | None:
    """Return a filter that can be applied to every message while a pull is held.

    With None the pull is released by any message, and its filter applied once.
    """
    if record_filter is None or record_filter.terms > _HELD_TERMS_MAX:
        return None
    return record_filter


def _uncorrected(result: GetMessageResult, offset: int) -> GetMessageResult:
    """Return what a slave says of an offset that it lacks: no message yet, its master may have it.

    A slave that is behind, or has just begun, would set groups back, or forward over messages.
    Java's says to pull again at once (``offsetCheckInSlave``), and sets some back all the same.
    """
    if _code(result.status, offset) != ResponseCode.PULL_OFFSET_MOVED:
        return result
    return replace(result, status=GetMessageStatus.OFFSET_OVERFLOW_ONE, next_offset=offset)


def _code(status: GetMessageStatus, queue_offset: int) -> int:
    """Return the response code; in an empty queue any offset but 0 is wrong."""
    if status in _WITHOUT_MESSAGES and queue_offset:
        return ResponseCode.PULL_OFFSET_MOVED
    return _CODES[status]
