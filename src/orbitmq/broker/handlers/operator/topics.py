"""Topics for operators: create, change, delete, list.

UPDATE_AND_CREATE_TOPIC and its list, DELETE_TOPIC_IN_BROKER, GET_TOPIC_CONFIG,
GET_ALL_TOPIC_CONFIG, GET_SYSTEM_TOPIC_LIST_FROM_BROKER. Static topics are not
supported. After a success the table is on disk and registered with all nameservers that could be
reached.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from orbitmq.broker import remarks
from orbitmq.broker.persistence import Persistence
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.attributes import change_of
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.broker.tables.topics import TOPICS_FILE, Topics
from orbitmq.errors import InvalidInput
from orbitmq.message.names import pop_retry_topic
from orbitmq.net.bodies import read_body
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.threads import Workers
from orbitmq.wire.bodies.registration import TopicConfigAndMappingTable
from orbitmq.wire.bodies.topic import TopicConfig, TopicConfigList, TopicFilterType, TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import INT32_MAX
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import (
    CreateTopic,
    DeleteTopic,
    GetAllTopicConfig,
    GetAllTopicConfigAnswer,
    GetTopicConfig,
)
from orbitmq.wire.session import Response

__all__ = ["TopicHandlers"]

log = logging.getLogger("orbitmq.broker")


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class TopicHandlers:
    """Serves requests about topics.

    ``announce`` registers the table with the nameservers; ``on_delete`` is called with each deleted
    topic.
    """

    topics: Topics
    offsets: ConsumerOffsets
    settings: LiveSettings
    persistence: Persistence
    workers: Workers
    announce: Callable[[], Awaitable[object]]
    on_delete: Callable[[str], None]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._create_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.GET_TOPIC_CONFIG: self._get,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._get_all,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system_topics,
        }

    # Changes

    async def _create(self, connection: Connection, request: Frame) -> Response:
        asked = request.read(CreateTopic)
        self._check_name(asked.topic)
        try:
            topic = TopicConfig(
                topic_name=asked.topic,
                read_queue_nums=asked.read_queue_nums,
                write_queue_nums=asked.write_queue_nums,
                perm=asked.perm,
                topic_filter_type=TopicFilterType(asked.topic_filter_type),
                topic_sys_flag=asked.topic_sys_flag or 0,
                order=asked.order,
                attributes=change_of(asked.attributes),
            )
        except ValueError as error:  # a filter type or an attribute
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return await self._update([topic], connection)

    async def _create_list(self, connection: Connection, request: Frame) -> Response:
        asked = await read_body(TopicConfigList, request.body, self.workers)
        for topic in asked.topic_config_list:
            self._check_name(topic.topic_name)
        return await self._update(asked.topic_config_list, connection)

    async def _update(self, topics: Sequence[TopicConfig], connection: Connection) -> Response:
        for topic in topics:
            self._check_kind(topic)
        try:
            different = self.topics.update(topics)
        except InvalidInput as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        log.info(
            "%s created or changed %d topics, %d of them are different now",
            connection.peer,
            len(topics),
            len(different),
        )
        await self.persistence.save(TOPICS_FILE)
        if different:
            await self.announce()
        return Response()

    async def _delete(self, connection: Connection, request: Frame) -> Response:
        name = request.read(DeleteTopic).topic
        if not name.strip():
            raise Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._check_not_system(name)
        log.info("%s deleted topic %s", connection.peer, name)
        for topic in (name, *self._pop_retry_topics(name)):
            self.topics.delete(topic)
            self.offsets.remove_topic(topic)
            self.on_delete(topic)
        await self.persistence.save(TOPICS_FILE)
        return Response()

    def _pop_retry_topics(self, topic: str) -> list[str]:
        if not self.settings.broker.clear_retry_topic_when_delete_topic:
            return []
        names = (
            pop_retry_topic(group, topic, version=version)
            for group in sorted(self.offsets.groups_of(topic))
            for version in (2, 1)
        )
        return [name for name in names if self.topics.get(name) is not None]

    # Checks, in Java's order

    def _check_name(self, topic: str) -> None:
        remarks.check_topic_name(topic)
        self._check_not_system(topic)

    def _check_not_system(self, topic: str) -> None:
        settings = self.settings.broker
        if settings.validate_system_topic_when_update_topic and self.topics.is_system(topic):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic."
            )

    def _check_kind(self, topic: TopicConfig) -> None:
        mixed = topic.attributes.get("+message.type") == "MIXED"
        if mixed and not self.settings.broker.enable_mixed_message_type:
            raise Refusal(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")

    # Queries

    def _get(self, _connection: Connection, request: Frame) -> Response:
        name = request.read(GetTopicConfig).topic
        topic = self.topics.get(name)
        if topic is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name[:256]}"
            )
        return Response(body=topic.to_json())

    def _get_all(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetAllTopicConfig)
        settings = self.settings.broker
        wants_page = (asked.topic_seq, asked.data_version, asked.max_topic_num) != (None,) * 3
        if wants_page and settings.enable_split_metadata:
            count = INT32_MAX if asked.max_topic_num is None else asked.max_topic_num
            topics = self.topics.page(
                asked.topic_seq or 0, min(count, settings.split_metadata_size), asked.data_version
            )
        else:
            topics = dict(self.topics.table)
        body = TopicConfigAndMappingTable(
            data_version=self.topics.data_version, topic_config_table=topics
        )
        answer = GetAllTopicConfigAnswer(total_topic_num=len(self.topics.table))
        return Response(header=answer, body=body.to_json())

    def _system_topics(self, _connection: Connection, _request: Frame) -> Response:
        names = tuple(sorted(self.topics.system_topics))
        return Response(body=TopicList(topic_list=names).to_json())
