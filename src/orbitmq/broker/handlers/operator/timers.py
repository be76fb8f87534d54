"""Timers: GET_TIMER_CHECK_POINT and GET_TIMER_METRICS, for replicas and tools."""

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.broker.sending.timers import Timers
from orbitmq.broker.settings import LiveSettings
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["TimerHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class TimerHandlers:
    """Serves the progress of timers."""

    timers: Timers
    settings: LiveSettings

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self.checkpoint,
            RequestCode.GET_TIMER_METRICS: self.metrics,
        }

    def checkpoint(self, _connection: Connection, _request: Frame) -> Response:
        """Return the timer checkpoint, in the layout of its file."""
        self._check("The checkpoint is null")
        return Response(body=self.timers.checkpoint())

    def metrics(self, _connection: Connection, _request: Frame) -> Response:
        """Return how many messages wait, by topic."""
        self._check("The timer message store is null")
        return Response(body=self.timers.counts.metrics().to_json())

    def _check(self, remark: str) -> None:
        if not self.settings.store.timer_wheel_enabled:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{remark}: timerWheelEnable is false")
