"""What the doctor knows of a cluster: plain data, gathered once, judged by the checks.

What could not be found out is None, and a ``problem`` says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.client.admin.consumers import ConsumerConnections
from orbitmq.client.admin.results import (
    Broker,
    BrokerStatus,
    GroupProgress,
    HARuntimeInfo,
    ReplicasInfo,
)

if TYPE_CHECKING:
    from orbitmq.wire.bodies.group import SubscriptionGroupConfig
    from orbitmq.wire.bodies.route import TopicRouteData
    from orbitmq.wire.bodies.topic import TopicConfig

__all__ = [
    "BrokerFacts",
    "ElectionFacts",
    "Facts",
    "GroupFacts",
    "NameserverFacts",
    "TopicFacts",
]


@dataclass(frozen=True, kw_only=True)
class NameserverFacts:
    """One nameserver of the client, the brokers that it knows, and its route of the topic."""

    address: str
    brokers: tuple[Broker, ...] = ()
    route: "TopicRouteData | None" = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class BrokerFacts:
    """One broker, as it answers this machine.

    Attributes:
        broker: who it is, and the address that it advertises.
        port_problem: why no connection to that address is possible.
        vip_problem: the same for its second port, two below.
        problem: why it did not answer a request.
        is_refused: the answer was that these credentials may not ask.
        speaks_other: it answers with TLS and this client uses none, or the other way round.
        status: its state.
        config: its settings, under Java's names.
        skew_ms: how far its clock is ahead of ours, at least; 0 if they may agree.
        replication: what it says of its slaves, or of its master; None if it does not.
    """

    broker: Broker
    port_problem: str | None = None
    vip_problem: str | None = None
    problem: str | None = None
    is_refused: bool = False
    speaks_other: bool = False
    status: BrokerStatus | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    skew_ms: int | None = None
    replication: HARuntimeInfo | None = None


@dataclass(frozen=True, kw_only=True)
class ElectionFacts:
    """Brokers of one name that elect their master in etcd.

    Attributes:
        name: the name of the brokers.
        cluster: their cluster.
        asked: the address of the one that was asked.
        in_sync_min: with fewer in sync the master refuses messages.
        state: the master, and who is in sync with it.
        problem: why that is not known.
    """

    name: str
    cluster: str
    asked: str
    in_sync_min: int = 1
    state: ReplicasInfo | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class TopicFacts:
    """A topic, and its settings by broker name."""

    name: str
    configs: "Mapping[str, TopicConfig]" = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
    """A group.

    Attributes:
        name: its name.
        configs: its settings by broker name; brokers without the group are left out.
        progress: how far it is.
        members: who is connected; None if nobody is.
        subscriptions: what each member subscribes to, by client id, then topic.
        dead_letters: how many messages are in its dead letter topic.
        problem: why something of this is not known.
    """

    name: str
    configs: "Mapping[str, SubscriptionGroupConfig]" = field(default_factory=dict)
    progress: GroupProgress | None = None
    members: ConsumerConnections | None = None
    subscriptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dead_letters: int = 0
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts; ``uses_tls`` and ``has_keys`` are of the client that asked."""

    nameservers: tuple[NameserverFacts, ...]
    brokers: tuple[BrokerFacts, ...] = ()
    elections: tuple[ElectionFacts, ...] = ()
    topic: TopicFacts | None = None
    group: GroupFacts | None = None
    uses_tls: bool = False
    has_keys: bool = False
    max_lag: int = 10_000

    @property
    def answering(self) -> tuple[NameserverFacts, ...]:
        """The nameservers that answered."""
        return tuple(one for one in self.nameservers if one.problem is None)

    @property
    def masters(self) -> tuple[BrokerFacts, ...]:
        """The brokers that take writes."""
        return tuple(one for one in self.brokers if one.broker.is_master)
