"""Queues assigned by the broker: QUERY_ASSIGNMENT, SET_ and GET_ALL_MESSAGE_REQUEST_MODE.

A consumer with ``clientRebalance`` set to false asks each broker which queues it should read. All
brokers know the same queues and members, so they agree. Java: ``QueryAssignmentProcessor``.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from orbitmq.broker.clients.assignment import STRATEGIES
from orbitmq.broker.clients.members import Members
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.request_modes import REQUEST_MODES_FILE, RequestModes
from orbitmq.broker.tables.topics import Topics
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import RETRY_PREFIX
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.heartbeat import MessageModel
from orbitmq.wire.bodies.pop import (
    AssignmentQuery,
    Assignments,
    MessageQueueAssignment,
    MessageRequestMode,
    RequestModeSetting,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["AssignmentHandlers"]

log = logging.getLogger("orbitmq.broker")


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class AssignmentHandlers:
    """Serves queues to consumers; ``queues_of`` returns those of a topic, on all brokers."""

    modes: RequestModes
    topics: Topics
    groups: Groups
    members: Members
    settings: LiveSettings
    persistence: Persistence
    queues_of: Callable[[str], Awaitable[Sequence[MessageQueue] | None]]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self._assign,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
        }

    # Assignments

    async def _assign(self, _connection: Connection, request: Frame) -> Response:
        query = AssignmentQuery.from_json(request.body)
        queues = await self._queues_for(query)
        assigned = None if queues is None else tuple(map(_to_pull, queues))
        return Response(body=Assignments(message_queue_assignments=assigned).to_json())

    async def _queues_for(self, query: AssignmentQuery) -> Sequence[MessageQueue] | None:
        """Return the queues of a consumer; None means that it should keep those it has."""
        queues = await self.queues_of(query.topic)
        if queues is None or query.message_model is None:
            return None
        is_shared = query.message_model is MessageModel.CLUSTERING
        if not is_shared or not self.settings.broker.server_load_balancer_enable:
            return queues
        group = self.members.consumers(query.consumer_group)
        strategy = STRATEGIES.get(query.strategy_name)
        if group is None or strategy is None or not queues or not query.client_id:
            log.warning(
                "no queues of %s are assigned to %s of group %s, strategy %s",
                *(query.topic, query.client_id, query.consumer_group, query.strategy_name),
            )
            return None
        ids = sorted(group.client_ids())
        if query.client_id not in ids:  # its heartbeat has not come yet
            return ()
        return strategy(queues, ids.index(query.client_id), len(ids))

    # Modes

    async def _set_mode(self, connection: Connection, request: Frame) -> Response:
        asked = RequestModeSetting.from_json(request.body)
        self._check(asked)
        try:
            self.modes.set(asked)
        except InvalidInput as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        log.info(
            "%s set that group %s reads topic %s by %s",
            *(connection.peer, asked.consumer_group, asked.topic, asked.mode),
        )
        await self.persistence.save(REQUEST_MODES_FILE)
        return Response()

    def _check(self, asked: RequestModeSetting) -> None:
        if asked.topic.startswith(RETRY_PREFIX):
            raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self.topics.get(asked.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic[:256]}] not exist")
        if self.groups.get(asked.consumer_group) is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
            )
        if asked.mode is not MessageRequestMode.PULL:
            raise Refusal(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "pop consumption is not supported yet; the mode can only be PULL",
            )

    def _all_modes(self, _connection: Connection, _request: Frame) -> Response:
        return Response(body=self.modes.to_json().encode())


def _to_pull(queue: MessageQueue) -> MessageQueueAssignment:
    return MessageQueueAssignment(message_queue=queue, mode=MessageRequestMode.PULL)
