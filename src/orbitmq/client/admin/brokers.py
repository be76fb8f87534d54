"""Clusters and brokers: who they are, their state, settings and statistics.

``broker`` is the name of a broker, which means its master, or the address of any broker. ``on``
may be a cluster as well, and None is all masters.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from orbitmq.client.admin.offsets import group_progress
from orbitmq.client.admin.requests import AdminRequests
from orbitmq.client.admin.results import Broker, BrokerStats, BrokerStatus, Cluster, GroupProgress
from orbitmq.client.arguments import check_text
from orbitmq.net.address import Address
from orbitmq.wire.bodies.cluster import BrokerMemberGroup, ClusterInfo, KVTable
from orbitmq.wire.bodies.replication import BrokerReplicasInfo, EpochEntryCache, HARuntimeInfo
from orbitmq.wire.bodies.stats import BrokerStatsData, ConsumeStatsList
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.controller import (
    CleanControllerBrokerData,
    ElectMaster,
    ElectMasterAnswer,
    GetMetaDataAnswer,
)
from orbitmq.wire.headers.query import GetConsumeStatsInBroker, ViewBrokerStatsData
from orbitmq.wire.json.properties_text import properties_from_text, properties_to_text

__all__ = ["BrokerAdmin", "brokers_of", "checked_properties"]


class BrokerAdmin(AdminRequests):
    """What an `Admin` does with brokers."""

    async def clusters(self) -> tuple[Cluster, ...]:
        """Return all clusters with their brokers, sorted.

        Raises:
            NameserversFailed: no nameserver answered.
        """
        brokers = brokers_of(await self._cluster_info())
        return tuple(Cluster(name, tuple(of)) for name, of in groupby(brokers, _cluster_name))

    async def broker_status(self, broker: str) -> BrokerStatus:
        """Return the state of a broker, such as its load and the latency of its puts.

        Raises:
            NoRoute: there is no such broker.
            OrbitError: the broker can't be reached, or refuses.
        """
        address = await self._broker(broker)
        answer = await self._ask(address, NoFields(), code=RequestCode.GET_BROKER_RUNTIME_INFO)
        return BrokerStatus.of((await self._body(answer, KVTable)).table)

    async def broker_config(self, broker: str) -> dict[str, str]:
        """Return the settings of a broker, under Java's names; errors as ``broker_status``."""
        address = await self._broker(broker)
        answer = await self._ask(address, NoFields(), code=RequestCode.GET_BROKER_CONFIG)
        return properties_from_text(answer.body)

    async def set_broker_config(
        self, settings: Mapping[str, str], *, on: str | None = None
    ) -> tuple[str, ...]:
        """Change settings of running brokers, and in their files; return the broker names.

        Raises:
            NoRoute: there is no such cluster or broker.
            InvalidInput: a name or a value is not a text.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        text = properties_to_text(checked_properties(settings))
        brokers = await self._brokers(on)
        code = RequestCode.UPDATE_BROKER_CONFIG
        await self._on_brokers(brokers, lambda one: self._ask(one, NoFields(), text, code=code))
        return tuple(brokers)

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStats:
        """Return one counter of a broker.

        Args:
            broker: its name or address.
            name: the name of the counter in Java, such as ``TOPIC_PUT_NUMS``, ``TOPIC_PUT_SIZE``,
                ``TOPIC_PUT_LATENCY``, ``GROUP_GET_NUMS``, ``GROUP_GET_LATENCY``.
            key: what is counted: ``topic``, ``topic@group``, or ``queue@topic`` for latencies.

        Raises:
            BrokerFailed: nothing was counted yet; Java samples counters every ten seconds.
            OrbitError: the broker can't be reached, or refuses.
        """
        check_text(name, "name")
        check_text(key, "key")
        address = await self._broker(broker)
        answer = await self._ask(address, ViewBrokerStatsData(stats_name=name, stats_key=key))
        return BrokerStats.of(await self._body(answer, BrokerStatsData))

    async def broker_progress(
        self, broker: str, *, ordered_only: bool = False
    ) -> tuple[GroupProgress, ...]:
        """Return the progress of all groups on a broker, sorted; errors as ``broker_status``.

        With ``ordered_only``, only that in ordered topics.
        """
        address = await self._broker(broker)
        header = GetConsumeStatsInBroker(is_order=ordered_only)
        answer = await self._ask(address, header, timeout_ms=3 * self._timeout_ms)
        found = (await self._body(answer, ConsumeStatsList)).consume_stats_list
        groups = {group: stats for each in found for group, stats in each.items()}
        return tuple(
            group_progress(self._unwrapped(group), groups[group], self._unwrapped_queue)
            for group in sorted(filter(self._is_ours, groups))
        )

    # Groups that elect their master: any broker of ours answers, in Java the controllers

    async def controller_metadata(self, address: str) -> GetMetaDataAnswer:
        """Return who a controller says is the leader of its group.

        Raises:
            InvalidInput: the address is not HOST:PORT.
            OrbitError: nobody answers there, or it is no controller.
        """
        code = RequestCode.CONTROLLER_GET_METADATA_INFO
        answer = await self._ask(Address.parse(address), NoFields(), code=code)
        return answer.read(GetMetaDataAnswer)

    async def sync_state(self, brokers: Sequence[str], *, controller: str) -> BrokerReplicasInfo:
        """Return masters and who is in sync, by broker name; errors as ``controller_metadata``."""
        leader = await self._leader(controller)
        body = msgspec.json.encode(list(brokers))
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = await self._ask(leader, NoFields(), body, code=code)
        return await self._body(answer, BrokerReplicasInfo)

    async def replication(self, broker: str) -> HARuntimeInfo:
        """Return what a master says of its slaves, or a slave of itself.

        ``diff`` is how many bytes a slave is behind. Errors as ``broker_status``.
        """
        code = RequestCode.GET_BROKER_HA_STATUS
        answer = await self._ask(await self._broker(broker), NoFields(), code=code)
        return await self._body(answer, HARuntimeInfo)

    async def broker_epochs(self, broker: str) -> EpochEntryCache:
        """Return the epochs of the log of a broker; errors as ``broker_status``."""
        code = RequestCode.GET_BROKER_EPOCH_CACHE
        answer = await self._ask(await self._broker(broker), NoFields(), code=code)
        return await self._body(answer, EpochEntryCache)

    async def elect_master(
        self, cluster: str, broker: str, broker_id: int, *, controller: str
    ) -> tuple[ElectMasterAnswer, BrokerMemberGroup]:
        """Make a broker in sync the master; return what was elected, and who is alive.

        Raises:
            BrokerFailed: it is not alive or not in sync, or there is no such group.
            OrbitError: as ``controller_metadata``.
        """
        header = ElectMaster(
            cluster_name=cluster, broker_name=broker, broker_id=broker_id, designate_elect=True
        )
        answer = await self._ask(await self._leader(controller), header)
        return answer.read(ElectMasterAnswer), await self._body(answer, BrokerMemberGroup)

    async def clean_broker_metadata(
        self,
        broker: str,
        *,
        controller: str,
        cluster: str | None = None,
        ids: Sequence[int] = (),
        living: bool = False,
    ) -> None:
        """Let a group forget brokers: those with the ids, or all that are not alive.

        Raises:
            BrokerFailed: one is alive, and ``living`` is not set.
            OrbitError: as ``controller_metadata``.
        """
        header = CleanControllerBrokerData(
            broker_name=broker,
            cluster_name=cluster,
            broker_controller_ids_to_clean=";".join(map(str, ids)) or None,
            is_clean_living_broker=living,
        )
        await self._ask(await self._leader(controller), header)

    async def controller_config(self, address: str) -> dict[str, str]:
        """Return the settings of a controller; errors as ``controller_metadata``."""
        code = RequestCode.GET_CONTROLLER_CONFIG
        answer = await self._ask(Address.parse(address), NoFields(), code=code)
        return properties_from_text(answer.body)

    async def set_controller_config(self, settings: Mapping[str, str], *, address: str) -> None:
        """Change settings of a controller; errors as ``controller_metadata``."""
        text = properties_to_text(checked_properties(settings))
        code = RequestCode.UPDATE_CONTROLLER_CONFIG
        await self._ask(Address.parse(address), NoFields(), text, code=code)

    async def _leader(self, controller: str) -> Address:
        """Return where changes are asked for, as Java's tool does."""
        found = (await self.controller_metadata(controller)).controller_leader_address
        return Address.parse(found or controller)


def brokers_of(info: ClusterInfo) -> tuple[Broker, ...]:
    """Return all brokers that a nameserver knows, by cluster, name and number."""
    return tuple(
        sorted(
            Broker(broker.cluster, name, number, address)
            for name, broker in info.broker_addr_table.items()
            for number, address in broker.broker_addrs.items()
        )
    )


def _cluster_name(broker: Broker) -> str:
    return broker.cluster


def checked_properties(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return settings whose names and values are texts; raise InvalidInput if one is not."""
    for name, value in settings.items():
        check_text(name, "settings")
        check_text(value, name)
    return settings
