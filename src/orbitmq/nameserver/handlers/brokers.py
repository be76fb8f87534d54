"""Requests of brokers: registration with topics, heartbeats, unregistration.

Serves REGISTER_BROKER, UNREGISTER_BROKER, BROKER_HEARTBEAT, QUERY_DATA_VERSION and
GET_BROKER_MEMBER_GROUP (``DefaultRequestProcessor`` in Java). Not supported: bodies of brokers
before 3.0.11, which contain only topics.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orbitmq.clock import Clock
from orbitmq.nameserver.kv_config import ORDER_TOPICS, KVConfig
from orbitmq.nameserver.route_table import MinBrokerIdChange, RouteTable
from orbitmq.nameserver.settings import LiveSettings
from orbitmq.net.bodies import read_body
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.threads import Workers
from orbitmq.wire.bodies.cluster import BrokerMembers, KVTable
from orbitmq.wire.bodies.registration import BrokerRegistration, body_crc32
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    UnregisterBroker,
)
from orbitmq.wire.session import Response

__all__ = ["BrokerHandlers"]

log = logging.getLogger("orbitmq.nameserver")

_ZLIB_MARK: Final = b"x"


@dataclass(kw_only=True, eq=False)
class BrokerHandlers:
    """Serves requests of brokers.

    ``workers`` decode registrations that are compressed, or large and not standard JSON. ``notify``
    is called when the lowest broker id of a name changes, if the settings ask for it.
    """

    routes: RouteTable
    config: KVConfig
    settings: LiveSettings
    clock: Clock
    workers: Workers
    notify: Callable[[MinBrokerIdChange], None]
    _watched: set[Connection] = field(default_factory=set, init=False)

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.member_group,
        }

    def expire(self) -> None:
        """Remove brokers whose heartbeats timed out; to be called periodically."""
        for broker in self.routes.expire(self.clock.monotonic_ms()):
            log.warning(
                "broker %s sent no heartbeat and is removed from all routes", broker.address
            )
            self._notify(broker.change)
            if isinstance(broker.channel, Connection):
                broker.channel.abort("the broker sent no heartbeat")

    async def register(self, connection: Connection, request: Frame) -> Response | None:
        """Register a broker and its topics."""
        who = request.read(RegisterBroker)
        if who.body_crc32 and who.body_crc32 != body_crc32(request.body):
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"crc32 not match: the body of {len(request.body)} bytes was changed in transit",
            )
        # Brokers of 5.x that compress don't set the field (BrokerOuterAPI in Java), so the body
        # decides: no JSON begins with the zlib mark.
        compressed = who.compressed or request.body[:1] == _ZLIB_MARK
        body = await self._read(request, compressed=compressed)
        if not connection.is_open:
            return None  # else it would be removed only by its timeout
        if connection not in self._watched:
            self._watched.add(connection)
            connection.when_closed(self._lost)
        is_new = self.routes.version_of(who.cluster_name, who.broker_addr) is None
        settings = self.settings.now
        registered = self.routes.register(
            who,
            body,
            channel=connection,
            now_ms=self.clock.monotonic_ms(),
            delete_missing=settings.delete_topic_with_broker_registration,
        )
        if is_new:
            log.info("broker %s (%s) registered", who.broker_name, who.broker_addr)
        if registered.rival is not None:
            log.warning(
                "broker %s with id %d is %s now; %s had this id, and has not left: if both run, "
                "stop one, since clients send now to one, now to the other",
                *(who.broker_name, who.broker_id, who.broker_addr, registered.rival),
            )
        self._notify(registered.change)
        orders = None
        if settings.return_order_topic_config_to_broker:
            orders = self.config.namespace(ORDER_TOPICS)
        return Response(
            header=RegisterBrokerAnswer(
                ha_server_addr=registered.ha_server_addr, master_addr=registered.master_addr
            ),
            body=b"" if orders is None else KVTable(table=orders).to_json(),
        )

    def unregister(self, _connection: Connection, request: Frame) -> Response:
        """Remove a broker."""
        who = request.read(UnregisterBroker)
        change = self.routes.unregister(who)
        log.info("broker %s (%s) unregistered", who.broker_name, who.broker_addr)
        self._notify(change)
        return Response()

    def heartbeat(self, _connection: Connection, request: Frame) -> Response:
        """Record the heartbeat of a broker."""
        who = request.read(BrokerHeartbeat)
        self.routes.heard(who.cluster_name, who.broker_addr, self.clock.monotonic_ms())
        return Response()

    def query_data_version(self, _connection: Connection, request: Frame) -> Response:
        """Return whether a broker's topics changed since it registered; counts as a heartbeat."""
        who = request.read(QueryDataVersion)
        now = DataVersion.from_json(request.body) if request.body else DataVersion()
        known = self.routes.version_of(who.cluster_name, who.broker_addr)
        self.routes.heard(who.cluster_name, who.broker_addr, self.clock.monotonic_ms())
        return Response(
            header=QueryDataVersionAnswer(changed=known != now),
            body=b"" if known is None else known.to_json(),
        )

    def member_group(self, _connection: Connection, request: Frame) -> Response:
        """Return the addresses of all brokers of one name."""
        asked = request.read(GetBrokerMemberGroup)
        members = self.routes.members(asked.cluster_name, asked.broker_name)
        return Response(body=BrokerMembers(broker_member_group=members).to_json(java_keys=True))

    async def _read(self, request: Frame, *, compressed: bool) -> BrokerRegistration:
        if not request.body:
            return BrokerRegistration()
        if not compressed:
            return await read_body(BrokerRegistration, request.body, self.workers)
        # On a worker however small it is: it may contain thousands of topics.
        opened = self.workers.submit(BrokerRegistration.from_compressed, request.body)
        return await asyncio.wrap_future(opened)

    def _lost(self, connection: Connection) -> None:
        self._watched.discard(connection)
        for change in self.routes.drop(connection):
            self._notify(change)

    def _notify(self, change: MinBrokerIdChange | None) -> None:
        if change is not None and self.settings.now.notify_min_broker_id_changed:
            self.notify(change)
