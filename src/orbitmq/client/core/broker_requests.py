"""Requests that brokers send to a client, passed to the listener of their group.

Several listeners of one group are called round-robin: for a broker they are one member. Without a
listener, the answer is that of Java's client to an unknown group (``ClientRemotingProcessor``)::

    code                                   one-way   without a listener
    39  CHECK_TRANSACTION_STATE            yes       nothing; the broker asks again
    40  NOTIFY_CONSUMER_IDS_CHANGED        yes       nothing
    220 RESET_CONSUMER_CLIENT_OFFSET       yes       nothing
    221 GET_CONSUMER_STATUS_FROM_CLIENT    no        no offsets
    307 GET_CONSUMER_RUNNING_INFO          no        SYSTEM_ERROR: no such group
    309 CONSUME_MESSAGE_DIRECTLY           no        SYSTEM_ERROR: no such group
    326 PUSH_REPLY_MESSAGE_TO_CLIENT       no        SUCCESS; the reply is dropped
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from orbitmq.message import properties
from orbitmq.message.scan import Scan
from orbitmq.net.connection import Connection, Handler, Outcome
from orbitmq.net.refusal import not_supported
from orbitmq.wire.bodies.offsets import ConsumerStatus
from orbitmq.wire.codes import RequestCode, ResponseCode, name_of_request
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    NotifyConsumerIdsChanged,
)
from orbitmq.wire.headers.offset import GetConsumerStatus, ResetOffset
from orbitmq.wire.session import Response

__all__ = ["BrokerRequests"]

log = logging.getLogger("orbitmq.client")


class BrokerRequests:
    """The handler of requests from brokers.

    >>> requests = BrokerRequests()
    >>> requests.listen(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, lambda _, __: Response())
    >>> requests
    <BrokerRequests PUSH_REPLY_MESSAGE_TO_CLIENT>
    """

    def __init__(self) -> None:
        self._listeners: dict[tuple[int, str], deque[Handler]] = {}

    def __repr__(self) -> str:
        heard = sorted(f"{name_of_request(code)} {group}" for code, group in self._listeners)
        return f"<BrokerRequests {', '.join(one.strip() for one in heard) or 'without listeners'}>"

    def listen(self, code: RequestCode, listener: Handler, *, group: str = "") -> None:
        """Call ``listener`` for requests with a code and group; replies have no group.

        It runs on the loop and must not take long. ValueError if brokers don't send the code.
        """
        if code not in _GROUP_OF:
            raise ValueError(f"brokers don't send {name_of_request(code)} to clients")
        self._listeners.setdefault((code, group), deque()).append(listener)

    def unlisten(self, code: RequestCode, listener: Handler, *, group: str = "") -> None:
        """Remove a listener; ValueError if it was not added with the same arguments."""
        listeners = self._listeners.get((code, group), deque())
        if listener not in listeners:
            raise ValueError(f"{listener!r} does not listen to {name_of_request(code)} {group}")
        listeners.remove(listener)
        if not listeners:
            del self._listeners[code, group]

    def __call__(self, connection: Connection, request: Frame) -> Outcome:
        """Serve one request of a broker; an unknown code gets a "not supported" answer."""
        group_of = _GROUP_OF.get(request.code)
        if group_of is None:
            return not_supported(request)
        group = group_of(request)
        listeners = self._listeners.get((request.code, group))
        if not listeners:
            log.debug("%s: no listener for %r of group %r", connection.peer, request, group)
            return _without_listener(request.code, group)
        listeners.rotate(-1)
        return listeners[-1](connection, request)


def _producer_group(request: Frame) -> str:
    """Return the producer group of a half message; empty if it has none."""
    for view in Scan(request.body):
        return properties.decode(view.properties).get(properties.PRODUCER_GROUP, "")
    return ""


_GROUP_OF: Final[Mapping[int, Callable[[Frame], str]]] = {
    RequestCode.CHECK_TRANSACTION_STATE: _producer_group,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda request: (
        request.read(NotifyConsumerIdsChanged).consumer_group
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: lambda request: request.read(ResetOffset).group,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: lambda request: (
        request.read(GetConsumerStatus).group
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: lambda request: (
        request.read(GetConsumerRunningInfo).consumer_group
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda request: (
        request.read(ConsumeMessageDirectly).consumer_group
    ),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: lambda _request: "",
}


def _without_listener(code: int, group: str) -> Response:
    """Return the answer for an unknown group; for a one-way request it is not sent."""
    if code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
        return Response(body=ConsumerStatus().to_json())
    if code in (RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY):
        return Response(
            ResponseCode.SYSTEM_ERROR,
            remark=f"The Consumer Group <{group}> not exist in this consumer",
        )
    return Response()
