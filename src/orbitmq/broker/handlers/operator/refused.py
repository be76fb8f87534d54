"""Requests about parts that this broker does not have: refused with the reason.

Other codes that are not served get Java's answer for an unknown one, without a reason.
"""

from collections.abc import Mapping
from typing import Final

from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal, not_supported
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["REASONS", "table"]

_STATIC: Final = "static topics are not supported; create a topic with updateTopic"
_COLD: Final = "reads of old messages are not throttled here, so there is nothing to set"
_ROCKSDB: Final = "RocksDB is not used here; tables and queues are files, in Java's form"
_CONTROLLER: Final = (
    "a broker of Java asks that of its controller; brokers here elect their master in etcd, see "
    "enableControllerMode"
)
_ONE_BROKER: Final = "a process runs one broker; orbitmq up --brokers starts several"

REASONS: Final[Mapping[int, str]] = {
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: _STATIC,
    RequestCode.ADD_BROKER: _ONE_BROKER,
    RequestCode.REMOVE_BROKER: _ONE_BROKER,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: _CONTROLLER,
    RequestCode.CONTROLLER_REGISTER_BROKER: _CONTROLLER,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: _CONTROLLER,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: _CONTROLLER,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: _CONTROLLER,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: _COLD,
}


def table() -> Mapping[int, Handler]:
    """Return the handlers by request code."""
    return dict.fromkeys(REASONS, _refuse)


def _refuse(_connection: Connection, request: Frame) -> Response:
    unknown = not_supported(request)
    raise Refusal(unknown.code, f"{unknown.remark}; {REASONS[request.code]}")
