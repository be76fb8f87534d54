"""Clients: heartbeats, unregistration, group members, and locks for ordered consumption.

HEART_BEAT in both versions, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG, GET_CONSUMER_LIST_BY_GROUP,
GET_CONSUMER_CONNECTION_LIST, GET_PRODUCER_CONNECTION_LIST, GET_ALL_PRODUCER_INFO, LOCK_BATCH_MQ,
UNLOCK_BATCH_MQ. In version 2 of the heartbeat a client omits its subscriptions while the broker
knows their fingerprint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.clients.members import Member, Members
from orbitmq.broker.clients.queue_locks import QueueLocks
from orbitmq.broker.pulling import filters
from orbitmq.broker.pulling.consumer_filters import PARSED_MAX, ConsumerFilters
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.topics import Topics
from orbitmq.clock import Clock
from orbitmq.errors import InvalidExpression
from orbitmq.message.names import retry_topic
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies import members as bodies
from orbitmq.wire.bodies.group import ConsumerIdList, SubscriptionGroupConfig
from orbitmq.wire.bodies.heartbeat import HeartbeatData, SubscriptionCheck, SubscriptionData
from orbitmq.wire.bodies.locks import LockedQueues, LockRequest, UnlockRequest
from orbitmq.wire.codes import READ, WRITE, RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.heartbeat import (
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetProducerConnectionList,
    HeartbeatAnswer,
    UnregisterClient,
)
from orbitmq.wire.session import Response

__all__ = ["MemberHandlers"]

_UNIT_SUBSCRIPTION: Final = 2  # TopicSysFlag: consumers of another unit subscribe to it


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class MemberHandlers:
    """Serves heartbeats, queries about group members, and queue locks."""

    members: Members
    locks: QueueLocks
    topics: Topics
    groups: Groups
    calls: ClientCalls
    filters: ConsumerFilters
    settings: LiveSettings
    clock: Clock
    _watched: set[Connection] = field(default_factory=set, init=False)

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_client,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_ids,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def expire(self, silent_ms: int) -> None:
        """Close the connections of clients without a heartbeat for ``silent_ms``."""
        now_ms = self.clock.monotonic_ms()
        for connection in self.members.silent(now_ms - silent_ms):
            connection.abort(f"no heartbeat for {silent_ms} ms")
            self._gone(connection)
        self.locks.expire(now_ms)
        self.filters.clean()

    # Heartbeats

    def _heartbeat(self, connection: Connection, request: Frame) -> Response:
        data = HeartbeatData.from_json(request.body)
        language = request.language
        member = Member(
            connection,
            data.client_id,
            "OTHER" if language is None else language.name,
            request.version,
            self.clock.monotonic_ms(),
        )
        self._watch(connection)
        subscriptions_changed = not data.heartbeat_fingerprint
        with_them = not data.without_sub
        rebalance, left = [], PARSED_MAX
        for consumer in data.consumer_data_set:
            group = self.groups.get(consumer.group_name)
            if group is None:
                continue  # ignored, as in Java: its pulls are refused with the reason
            if data.heartbeat_fingerprint and self.members.fingerprint_changed(
                consumer.group_name, data.heartbeat_fingerprint, with_subscriptions=with_them
            ):
                subscriptions_changed = True
            self._need_retry_topic(group, is_unit=consumer.unit_mode)
            if self.members.join_consumers(consumer, member, with_subscriptions=with_them):
                rebalance.append(consumer.group_name)
            if with_them:
                left = self.filters.register(
                    consumer.group_name, consumer.subscription_data_set, left
                )
        for producer in data.producer_data_set:
            self.members.join_producers(producer.group_name, member)
        self._notify(rebalance)
        answer = HeartbeatAnswer(supports_v2=True, subscriptions_changed=subscriptions_changed)
        return Response(header=answer)

    def _need_retry_topic(self, group: SubscriptionGroupConfig, *, is_unit: bool) -> None:
        self.topics.for_send_back(
            retry_topic(group.group_name),
            group.retry_queue_nums,
            READ | WRITE,
            _UNIT_SUBSCRIPTION if is_unit else 0,
        )

    def _unregister(self, connection: Connection, request: Frame) -> Response:
        header = request.read(UnregisterClient)
        if header.producer_group is not None:
            self.members.leave_producers(header.producer_group, connection)
        group = header.consumer_group
        if group is not None and self.members.leave_consumers(group, connection):
            self._left([group])
        return Response()

    def _check_client(self, _connection: Connection, request: Frame) -> Response:
        check = SubscriptionCheck.from_json(request.body)
        if check.subscription_data is not None:
            self._check_filter(check.subscription_data)
        return Response()

    def _check_filter(self, subscription: SubscriptionData) -> None:
        kind = subscription.expression_type
        if filters.is_by_tags(kind):
            return
        filters.check_enabled(kind, is_enabled=self.settings.broker.enable_property_filter)
        try:
            filters.compiled(subscription.sub_string, kind)
        except InvalidExpression as error:
            # Java's remark is what its parser generator says.
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error

    def _watch(self, connection: Connection) -> None:
        if connection not in self._watched:
            self._watched.add(connection)
            connection.when_closed(self._gone)

    def _gone(self, connection: Connection) -> None:
        self._watched.discard(connection)
        self._left(self.members.drop(connection))

    def _left(self, groups: Iterable[str]) -> None:
        """Process that a consumer of these groups left."""
        for group in groups:
            if self.members.consumers(group) is None:
                self.filters.unregister(group)
        self._notify(groups)

    def _notify(self, groups: Iterable[str]) -> None:
        """Notify the members of groups to rebalance, unless broker or group settings forbid it."""
        if not self.settings.broker.notify_consumer_ids_changed_enable:
            return
        for name in groups:
            group = self.groups.get(name)
            if group is None or group.notify_consumer_ids_changed_enable:
                self.calls.notify_ids_changed([name])

    # Queries

    def _consumer_ids(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetConsumerListByGroup)
        group = self.members.consumers(header.consumer_group)
        if group is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}"
            )
        body = ConsumerIdList(consumer_id_list=tuple(dict.fromkeys(group.client_ids())))
        return Response(body=body.to_json())

    def _consumer_connections(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetConsumerConnectionList)
        group = self.members.consumers(header.consumer_group)
        if group is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{header.consumer_group}] not online",
            )
        body = bodies.ConsumerConnection(
            connection_set=tuple(map(_shown, group.members.values())),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )
        return Response(body=body.to_json())

    def _producer_connections(self, _connection: Connection, request: Frame) -> Response:
        header = request.read(GetProducerConnectionList)
        producers = self.members.producers(header.producer_group)
        if not producers:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"the producer group[{header.producer_group}] not exist",
            )
        body = bodies.ProducerConnection(connection_set=tuple(map(_shown, producers)))
        return Response(body=body.to_json())

    def _all_producers(self, _connection: Connection, _request: Frame) -> Response:
        table = {
            group: tuple(map(self._producer_info, self.members.producers(group)))
            for group in self.members.producer_groups()
        }
        return Response(body=bodies.ProducerTableInfo(data=table).to_json())

    def _producer_info(self, member: Member) -> bodies.ProducerInfo:
        silent_ms = self.clock.monotonic_ms() - member.seen_ms
        return bodies.ProducerInfo(
            client_id=member.client_id,
            language=member.language,
            last_update_timestamp=self.clock.now_ms() - silent_ms,
            remote_ip=f"/{member.connection.peer}",  # as Java prints a socket address
            version=member.version,
        )

    # Locks

    def _lock(self, _connection: Connection, request: Frame) -> Response:
        asked = LockRequest.from_json(request.body)
        locked = self.locks.lock(
            asked.consumer_group, asked.mq_set, asked.client_id, self.clock.monotonic_ms()
        )
        return Response(body=LockedQueues(locked=tuple(locked)).to_json())

    def _unlock(self, _connection: Connection, request: Frame) -> Response:
        asked = UnlockRequest.from_json(request.body)
        self.locks.unlock(asked.consumer_group, asked.mq_set, asked.client_id)
        return Response()


def _shown(member: Member) -> bodies.Connection:
    return bodies.Connection(
        client_addr=member.connection.peer,
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )
