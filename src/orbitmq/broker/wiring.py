"""The request handlers of a broker, each with the parts of the state that it uses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.handlers.client.assignments import AssignmentHandlers
from orbitmq.broker.handlers.client.end_transaction import TransactionHandlers
from orbitmq.broker.handlers.client.members import MemberHandlers
from orbitmq.broker.handlers.client.offsets import OffsetHandlers
from orbitmq.broker.handlers.client.positions import PositionHandlers
from orbitmq.broker.handlers.client.pull import PullHandlers
from orbitmq.broker.handlers.client.queries import QueryHandlers
from orbitmq.broker.handlers.client.recall import RecallHandlers
from orbitmq.broker.handlers.client.reply import ReplyHandlers
from orbitmq.broker.handlers.client.send import SendHandlers
from orbitmq.broker.handlers.client.send_back import SendBackHandlers
from orbitmq.broker.handlers.operator import refused
from orbitmq.broker.handlers.operator.cleaning import CleaningHandlers
from orbitmq.broker.handlers.operator.config import ConfigHandlers
from orbitmq.broker.handlers.operator.controller import ControllerHandlers
from orbitmq.broker.handlers.operator.groups import GroupHandlers
from orbitmq.broker.handlers.operator.progress import ProgressHandlers
from orbitmq.broker.handlers.operator.relays import RelayHandlers
from orbitmq.broker.handlers.operator.replicas import ReplicaHandlers
from orbitmq.broker.handlers.operator.resets import ResetHandlers
from orbitmq.broker.handlers.operator.stats import StatsHandlers
from orbitmq.broker.handlers.operator.subscriptions import SubscriptionHandlers
from orbitmq.broker.handlers.operator.timers import TimerHandlers
from orbitmq.broker.handlers.operator.topics import TopicHandlers
from orbitmq.broker.leadership import GroupRole
from orbitmq.broker.pulling.pull_checks import PullChecks
from orbitmq.broker.reports.lag import Lag
from orbitmq.broker.reports.runtime_info import RuntimeInfo
from orbitmq.broker.sending.replies import Replies
from orbitmq.broker.sending.retries import Retries
from orbitmq.broker.sending.send_checks import SendChecks
from orbitmq.broker.state import State
from orbitmq.clock import local_month
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.connection import Handler
from orbitmq.net.handlers import Handlers
from orbitmq.net.settings_file import SettingsFile
from orbitmq.wire.bodies.replication import EpochEntryCache, HARuntimeInfo
from orbitmq.wire.codes import RequestCode

__all__ = ["Endpoint", "RequestHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Endpoint:
    """The addresses of a broker, as functions: ports are known only after the start."""

    advertised: Callable[[], Address]
    store_host: Callable[[], Host]
    announce: Callable[[], Awaitable[object]]
    replication: Callable[[], HARuntimeInfo]
    """The state of replication."""
    epochs: Callable[[], EpochEntryCache] = EpochEntryCache
    """The epochs of the log."""
    role: GroupRole | None = None
    """What the broker is in a group with elections."""
    queues_of: Callable[[str], Awaitable[Sequence[MessageQueue] | None]]
    """The queues of a topic on all brokers, as nameservers know them."""

    def host(self) -> str:
        """Return the host in routes, which Java's remarks name the broker by."""
        return self.advertised().host


class RequestHandlers:
    """All handlers of a broker, by request code.

    ``pulls`` and ``members`` have periodic jobs, ``config`` applies reloaded settings, and
    ``sends.plain`` serves many sends at once.
    """

    def __init__(self, state: State, endpoint: Endpoint) -> None:
        self._state = state
        calls = ClientCalls(state.members)
        self.pulls = _pull_handlers(state, endpoint)
        self.config = ConfigHandlers(
            settings=state.settings,
            topics=state.topics,
            store=state.store,
            clock=state.clock,
            file=SettingsFile(state.settings.file, state.workers),
        )
        self.members = MemberHandlers(
            members=state.members,
            locks=state.locks,
            topics=state.topics,
            groups=state.groups,
            calls=calls,
            filters=state.filters,
            settings=state.settings,
            clock=state.clock,
        )
        checks = _send_checks(state, endpoint)
        retries = _retries(state)
        self.sends = SendHandlers(
            deduplication=state.deduplication,
            checks=checks,
            retries=retries,
            halves=state.halves,
            settings=state.settings,
            unique_ids=_unique_ids(state, endpoint),
            store_host=endpoint.store_host,
            store=state.store,
        )
        self.handlers = Handlers(
            self.pulls.table(),
            self.members.table(),
            self.config.table(),
            self.sends.table(),
            *_send_handlers(state, endpoint, checks, retries),
            *_table_handlers(state, endpoint, calls, self.pulls),
            *_report_handlers(state, endpoint),
            ControllerHandlers(
                settings=state.settings,
                role=endpoint.role,
                address=endpoint.advertised,
                update_settings=self.config.table()[RequestCode.UPDATE_BROKER_CONFIG],
            ).table(),
            refused.table(),
        )

    def __repr__(self) -> str:
        return f"<RequestHandlers of {self._state!r}>"


def _pull_handlers(state: State, endpoint: Endpoint) -> PullHandlers:
    checks = PullChecks(
        settings=state.settings,
        topics=state.topics,
        groups=state.groups,
        members=state.members,
        filters=state.filters,
        own_host=endpoint.host,
        why_unreadable=state.why_unreadable,
    )
    return PullHandlers(
        settings=state.settings,
        checks=checks,
        offsets=state.offsets,
        store=state.store,
        held=state.held_pulls,
        stats=state.stats,
        clock=state.clock,
        follows=state.follows,
    )


def _retries(state: State) -> Retries:
    return Retries(
        topics=state.topics,
        groups=state.groups,
        holds_locks=state.is_consumed_in_order,
        randomness=state.machine.randomness,
    )


def _send_checks(state: State, endpoint: Endpoint) -> SendChecks:
    return SendChecks(
        settings=state.settings,
        topics=state.topics,
        clock=state.clock,
        randomness=state.machine.randomness,
        own_host=endpoint.host,
        timer_rules=state.timer_rules,
    )


def _send_handlers(
    state: State, endpoint: Endpoint, checks: SendChecks, retries: Retries
) -> Sequence[Mapping[int, Handler]]:
    settings = state.settings
    send_back = SendBackHandlers(
        store=state.store,
        inbox=state.inbox,
        retries=retries,
        stats=state.stats,
        settings=settings,
        store_host=endpoint.store_host,
        own_host=endpoint.host,
    )
    reply = ReplyHandlers(
        replies=Replies(
            members=state.members,
            settings=settings,
            clock=state.clock,
            store_host=endpoint.store_host,
        ),
        checks=checks,
        inbox=state.inbox,
        settings=settings,
        store_host=endpoint.store_host,
    )
    transactions = TransactionHandlers(
        store=state.store,
        inbox=state.inbox,
        halves=state.halves,
        checks=state.checks,
        settings=settings,
        clock=state.clock,
    )
    recall = RecallHandlers(
        inbox=state.inbox,
        topics=state.topics,
        timer_rules=state.timer_rules,
        settings=settings,
        clock=state.clock,
        store_host=endpoint.store_host,
    )
    tables = (send_back, reply, transactions, recall)
    return [handlers.table() for handlers in tables]


def _unique_ids(state: State, endpoint: Endpoint) -> UniqueIds:
    token = state.machine.randomness.token(4)
    return UniqueIds(
        endpoint.store_host().ip,
        state.machine.pid,
        int.from_bytes(token),
        state.clock,
        local_month,
    )


def _table_handlers(
    state: State, endpoint: Endpoint, calls: ClientCalls, pulls: PullHandlers
) -> Sequence[Mapping[int, Handler]]:
    settings, topics, groups, offsets = state.settings, state.topics, state.groups, state.offsets
    tables = (
        PositionHandlers(store=state.store),
        OffsetHandlers(
            offsets=offsets,
            topics=topics,
            groups=groups,
            members=state.members,
            settings=settings,
            store=state.store,
            delay_offsets=state.delays.to_json,
        ),
        AssignmentHandlers(
            modes=state.request_modes,
            topics=topics,
            groups=groups,
            members=state.members,
            settings=settings,
            persistence=state.persistence,
            queues_of=endpoint.queues_of,
        ),
        ResetHandlers(
            offsets=offsets,
            topics=topics,
            groups=groups,
            settings=settings,
            store=state.store,
            notify_consumers=calls.reset_offsets,
            on_reset=pulls.moved,
        ),
        TopicHandlers(
            topics=topics,
            offsets=offsets,
            settings=settings,
            persistence=state.persistence,
            workers=state.workers,
            announce=endpoint.announce,
            on_delete=state.delete_topic,
        ),
        GroupHandlers(
            groups=groups,
            topics=topics,
            offsets=offsets,
            settings=settings,
            persistence=state.persistence,
            workers=state.workers,
            on_delete=state.stats.forget_group,
        ),
        RelayHandlers(calls=calls, store=state.store, broker_name=settings.broker.broker_name),
    )
    return [handlers.table() for handlers in tables]


def _report_handlers(state: State, endpoint: Endpoint) -> Sequence[Mapping[int, Handler]]:
    settings, store, disk = state.settings, state.store, state.machine.disk
    runtime = RuntimeInfo(
        settings=settings,
        store=store,
        stats=state.stats,
        inbox=state.inbox,
        held=state.held_pulls,
        delays=state.delays,
        timers=state.timers,
        disk_usage=lambda: disk.usage(store.directory),
        clock=state.clock,
    )
    lag = Lag(
        store=store,
        offsets=state.offsets,
        members=state.members,
        settings=settings,
        clock=state.clock,
    )
    tables = (
        QueryHandlers(store=store, members=state.members, filters=state.filters, settings=settings),
        StatsHandlers(runtime=runtime, lag=lag, topics=state.topics, stats=state.stats),
        ProgressHandlers(
            lag=lag,
            offsets=state.offsets,
            topics=state.topics,
            groups=state.groups,
            stats=state.stats,
            address=lambda: str(endpoint.advertised()),
        ),
        SubscriptionHandlers(
            members=state.members, offsets=state.offsets, address=lambda: str(endpoint.advertised())
        ),
        ReplicaHandlers(
            status=endpoint.replication,
            epochs=None if endpoint.role is None else endpoint.epochs,
        ),
        TimerHandlers(timers=state.timers, settings=settings),
        CleaningHandlers(store=store, topics=state.topics, stats=state.stats),
    )
    return [handlers.table() for handlers in tables]
