"""Requests of clients and admin tools: routes of topics, lists of brokers and topics.

Serves GET_ROUTEINFO_BY_TOPIC (``ClientRequestProcessor`` in Java), GET_BROKER_CLUSTER_INFO, the
lists of topics, REGISTER_ and DELETE_TOPIC_IN_NAMESRV, and the write permission of brokers
(``DefaultRequestProcessor``). Not supported: ``clusterTest``, which asks another cluster for topics
that are missing here.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from orbitmq.clock import Clock
from orbitmq.errors import InvalidHeader
from orbitmq.nameserver.kv_config import ORDER_TOPICS, KVConfig
from orbitmq.nameserver.route_table import RouteTable
from orbitmq.nameserver.settings import LiveSettings
from orbitmq.nameserver.topic_table import UNIT, UNIT_SUBSCRIBED
from orbitmq.nameserver.zones import within_zone
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerAnswer,
    DeleteTopicFromNamesrv,
    GetRouteInfo,
    GetTopicsByCluster,
    RegisterTopic,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerAnswer,
)
from orbitmq.wire.session import Response

__all__ = ["RouteHandlers"]

log = logging.getLogger("orbitmq.nameserver")

_STANDARD_JSON_SINCE: Final = 401
"""Clients from 4.9.4 on; Java's nameserver quotes keys for them."""


@dataclass(kw_only=True, eq=False)
class RouteHandlers:
    """Serves requests of clients and admin tools."""

    routes: RouteTable
    config: KVConfig
    settings: LiveSettings
    clock: Clock

    def __post_init__(self) -> None:
        self._started_ms = self.clock.monotonic_ms()

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        topics = self.routes.topics
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_permission,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_permission,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_UNIT_TOPIC_LIST: self._listing(lambda: topics.with_flags(UNIT)),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._listing(
                lambda: topics.with_flags(UNIT_SUBSCRIBED)
            ),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._listing(
                lambda: topics.with_flags(UNIT_SUBSCRIBED, without=UNIT)
            ),
        }

    def route(self, _connection: Connection, request: Frame) -> Response:
        """Return the route of a topic."""
        try:
            asked = request.read(GetRouteInfo)
        except InvalidHeader as error:
            if error.field != "topic":
                raise
            raise _no_route("null") from error  # Java treats a missing topic as an unknown one
        self._check_ready()
        settings = self.settings.now
        route = self.routes.route(asked.topic, acting_master=settings.support_acting_master)
        if route is None:
            raise _no_route(asked.topic)
        if settings.order_message_enable:
            order = self.config.get(ORDER_TOPICS, asked.topic)
            route = msgspec.structs.replace(route, order_topic_conf=order)
        if asked.zone_mode and asked.zone and not asked.zone.isspace():
            # Java always writes a filtered route in its older form.
            route = within_zone(route, asked.zone)
        if asked.accept_standard_json_only or request.version >= _STANDARD_JSON_SINCE:
            return Response(body=route.to_standard_json())
        return Response(body=route.to_json(java_keys=True))

    def cluster_info(self, _connection: Connection, _request: Frame) -> Response:
        """Return all clusters and their brokers."""
        return Response(body=self.routes.cluster_info().to_json(java_keys=True))

    def wipe_write_permission(self, connection: Connection, request: Frame) -> Response:
        """Remove the write permission of a broker from all routes."""
        name = request.read(WipeWritePermOfBroker).broker_name
        count = self.routes.topics.set_writable(name, writable=False)
        log.info("%s stopped writes to %s: %d topics", connection.peer, name, count)
        return Response(header=WipeWritePermOfBrokerAnswer(wipe_topic_count=count))

    def add_write_permission(self, connection: Connection, request: Frame) -> Response:
        """Restore the write permission of a broker."""
        name = request.read(AddWritePermOfBroker).broker_name
        count = self.routes.topics.set_writable(name, writable=True)
        log.info("%s allowed writes to %s: %d topics", connection.peer, name, count)
        return Response(header=AddWritePermOfBrokerAnswer(add_topic_count=count))

    def register_topic(self, connection: Connection, request: Frame) -> Response:
        """Set the queues of a topic; unknown brokers are only logged, as in Java."""
        topic = request.read(RegisterTopic).topic
        route = TopicRouteData.from_json(request.body) if request.body else TopicRouteData()
        if route.queue_datas and not self.routes.register_topic(topic, route.queue_datas):
            log.warning("%s: topic %.200s has unknown brokers; ignored", connection.peer, topic)
        return Response()

    def delete_topic(self, connection: Connection, request: Frame) -> Response:
        """Delete the route of a topic."""
        asked = request.read(DeleteTopicFromNamesrv)
        self.routes.delete_topic(asked.topic, asked.cluster_name or "")
        log.info("%s deleted the route of %.200s", connection.peer, asked.topic)
        return Response()

    def all_topics(self, _connection: Connection, _request: Frame) -> Response:
        """Return the names of all topics."""
        if not self.settings.now.enable_all_topic_list:
            raise _disabled("enableAllTopicList")
        return Response(body=self.routes.topics.names().to_json())

    def system_topics(self, _connection: Connection, _request: Frame) -> Response:
        """Return the topics that are named after clusters and brokers."""
        return Response(body=self.routes.system_topics().to_json())

    def topics_of_cluster(self, _connection: Connection, request: Frame) -> Response:
        """Return the topics of a cluster."""
        self._check_listing()
        cluster = request.read(GetTopicsByCluster).cluster
        return Response(body=self.routes.topics_of(cluster).to_json())

    def _listing(self, topics: Callable[[], TopicList]) -> Handler:
        def answer(_connection: Connection, _request: Frame) -> Response:
            self._check_listing()
            return Response(body=topics().to_json())

        return answer

    def _check_listing(self) -> None:
        if not self.settings.now.enable_topic_list:
            raise _disabled("enableTopicList")

    def _check_ready(self) -> None:
        settings = self.settings.now
        if settings.need_wait_for_service:
            waited_ms = self.clock.monotonic_ms() - self._started_ms
            if waited_ms < settings.wait_seconds_for_service * 1000:
                raise Refusal(
                    ResponseCode.SYSTEM_ERROR,
                    "name server not ready: it waits for brokers to register "
                    f"(waitSecondsForService={settings.wait_seconds_for_service})",
                )


def _no_route(topic: str) -> Refusal:
    return Refusal(
        ResponseCode.TOPIC_NOT_EXIST,
        f"No topic route info in name server for the topic: {topic}\n"
        "Create it, or let a broker create it at the first send (autoCreateTopicEnable).",
    )


def _disabled(setting: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"disable: {setting} is false")
