"""Consumer groups for operators: create, change, delete, list.

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP and its list, DELETE_SUBSCRIPTIONGROUP,
GET_SUBSCRIPTIONGROUP_CONFIG, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, UPDATE_AND_GET_GROUP_FORBIDDEN.
After a success the table is on disk.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orbitmq.broker import remarks
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import GROUPS_FILE, Groups
from orbitmq.broker.tables.offsets import OFFSETS_FILE, ConsumerOffsets
from orbitmq.broker.tables.topics import Topics
from orbitmq.errors import InvalidInput
from orbitmq.net.bodies import read_body
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.threads import Workers
from orbitmq.wire.bodies.group import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import INT32_MAX
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroup,
    GetAllSubscriptionGroupAnswer,
    GetSubscriptionGroupConfig,
    UpdateGroupForbidden,
)
from orbitmq.wire.session import Response

__all__ = ["GroupHandlers"]

log = logging.getLogger("orbitmq.broker")


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class GroupHandlers:
    """Serves requests about consumer groups. ``on_delete`` is called with each deleted group."""

    groups: Groups
    topics: Topics
    offsets: ConsumerOffsets
    settings: LiveSettings
    persistence: Persistence
    workers: Workers
    on_delete: Callable[[str], None]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._create_list,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._get,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._get_all,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
        }

    # Changes

    async def _create(self, connection: Connection, request: Frame) -> Response:
        group = await read_body(SubscriptionGroupConfig, request.body, self.workers)
        return await self._update([group], connection)

    async def _create_list(self, connection: Connection, request: Frame) -> Response:
        asked = await read_body(SubscriptionGroupList, request.body, self.workers)
        return await self._update(asked.group_config_list, connection)

    async def _update(
        self, groups: Sequence[SubscriptionGroupConfig], connection: Connection
    ) -> Response:
        for group in groups:
            remarks.check_group_name(group.group_name)
        try:
            self.groups.update(groups)
        except InvalidInput as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        log.info("%s created or changed %d groups", connection.peer, len(groups))
        await self.persistence.save(GROUPS_FILE)
        return Response()

    async def _delete(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(DeleteSubscriptionGroup)
        log.info("%s deleted group %s", connection.peer, asked.group_name)
        self.groups.delete(asked.group_name)
        self.on_delete(asked.group_name)
        await self.persistence.save(GROUPS_FILE)
        if asked.clean_offset:
            self.offsets.remove_group(asked.group_name)
            await self.persistence.save(OFFSETS_FILE)
        return Response()

    async def _forbid(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(UpdateGroupForbidden)
        if asked.readable is not None:
            self._check_known(asked)
            log.info(
                "%s set readable=%s for group %s and topic %s",
                *(connection.peer, asked.readable, asked.group, asked.topic),
            )
            self.groups.forbid(asked.group, asked.topic, on=not asked.readable)
            await self.persistence.save(GROUPS_FILE)
        readable = not self.groups.is_forbidden(asked.group, asked.topic)
        body = GroupForbidden(group=asked.group, topic=asked.topic, readable=readable)
        return Response(body=body.to_json())

    def _check_known(self, asked: UpdateGroupForbidden) -> None:
        """Refuse unknown names; Java stores them, and its table can grow without limit."""
        if asked.group not in self.groups:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {asked.group[:256]} not exist!"
            )
        if self.topics.get(asked.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {asked.topic[:256]} not exist!")

    # Queries

    def _get(self, _connection: Connection, request: Frame) -> Response:
        group = self.groups.get(request.read(GetSubscriptionGroupConfig).group)
        if group is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Response(body=group.to_json())

    def _get_all(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetAllSubscriptionGroup)
        settings = self.settings.broker
        wants_page = (asked.group_seq, asked.data_version, asked.max_group_num) != (None,) * 3
        if wants_page and settings.enable_split_metadata:
            count = INT32_MAX if asked.max_group_num is None else asked.max_group_num
            groups = self.groups.page(
                asked.group_seq or 0, min(count, settings.split_metadata_size), asked.data_version
            )
        else:
            groups = dict(self.groups.table)
        body = SubscriptionGroupTable(
            data_version=self.groups.data_version,
            forbidden_table=self.groups.forbidden(groups),
            subscription_group_table=groups,
        )
        answer = GetAllSubscriptionGroupAnswer(total_group_num=len(self.groups.table))
        return Response(header=answer, body=body.to_json())
