"""Replication, as operators see it on a master without replicas.

GET_BROKER_HA_STATUS, RESET_MASTER_FLUSH_OFFSET, GET_BROKER_EPOCH_CACHE.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["ReplicaHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ReplicaHandlers:
    """Serves requests about replicas, of which there are none."""

    store: MessageStore

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self._reset_flushed,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
        }

    def _status(self, _connection: Connection, _request: Frame) -> Response:
        body = HARuntimeInfo(master=True, master_commit_log_max_offset=self.store.log.end)
        return Response(body=body.to_json())

    def _reset_flushed(self, _connection: Connection, _request: Frame) -> Response:
        return Response()  # only a replica has such an offset; a master succeeds in Java too

    def _epochs(self, _connection: Connection, _request: Frame) -> Response:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "this request only for controllerMode ; a controller is not supported yet",
        )
