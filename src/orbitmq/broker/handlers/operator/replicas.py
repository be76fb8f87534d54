"""Replication, as operators see it.

GET_BROKER_HA_STATUS, RESET_MASTER_FLUSH_OFFSET, GET_BROKER_EPOCH_CACHE.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.replication import EpochEntryCache, HARuntimeInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["ReplicaHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ReplicaHandlers:
    """Serves requests about replicas."""

    status: Callable[[], HARuntimeInfo]
    epochs: Callable[[], EpochEntryCache] | None = None
    """The epochs of the log; None without elections."""

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self._reset_flushed,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
        }

    def _status(self, _connection: Connection, _request: Frame) -> Response:
        return Response(body=self.status().to_json())

    def _reset_flushed(self, _connection: Connection, _request: Frame) -> Response:
        return Response()  # where nothing depends on that offset, Java succeeds too

    def _epochs(self, _connection: Connection, _request: Frame) -> Response:
        if self.epochs is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                "this request only for controllerMode ; this broker has no enableControllerMode",
            )
        return Response(body=self.epochs().to_json())
