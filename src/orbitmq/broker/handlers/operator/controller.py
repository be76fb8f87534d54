"""What operators ask Java's controller: answered by any broker of a group, from the group's state.

CONTROLLER_GET_METADATA_INFO, CONTROLLER_GET_SYNC_STATE_DATA, CONTROLLER_GET_REPLICA_INFO,
CONTROLLER_ELECT_MASTER, CLEAN_BROKER_DATA, GET_ and UPDATE_CONTROLLER_CONFIG. What only brokers of
Java ask is refused. Without elections all of them are: there is no controller then.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from orbitmq.broker.leadership import GroupRole
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import ConsensusFailed, InvalidInput
from orbitmq.failover.group import GroupView
from orbitmq.failover.settings import FAILOVER_NAMES
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.cluster import BrokerMemberGroup
from orbitmq.wire.bodies.replication import (
    BrokerReplicasInfo,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.controller import (
    CleanControllerBrokerData,
    ElectMaster,
    ElectMasterAnswer,
    GetMetaDataAnswer,
    GetReplicaInfo,
    GetReplicaInfoAnswer,
)
from orbitmq.wire.json.properties_text import properties_to_text
from orbitmq.wire.session import Response

__all__ = ["ControllerHandlers"]

_NAMES_MAX: Final = 1_000
"""Groups in one request: each is read from etcd."""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ControllerHandlers:
    """Serves requests about groups; ``update_settings`` serves a change of the broker's."""

    settings: LiveSettings
    role: GroupRole | None
    address: Callable[[], Address]
    """Where clients reach this broker."""
    update_settings: Handler

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        served: Mapping[int, Callable[[Connection, Frame, GroupRole], Awaitable[Response]]] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._in_sync,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._replicas,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect,
            RequestCode.CLEAN_BROKER_DATA: self._forget,
            RequestCode.GET_CONTROLLER_CONFIG: self._config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update,
        }
        return {code: self._guarded(handler) for code, handler in served.items()}

    def _guarded(
        self, handler: Callable[[Connection, Frame, GroupRole], Awaitable[Response]]
    ) -> Handler:
        async def serve(connection: Connection, request: Frame) -> Response:
            if self.role is None:
                raise Refusal(
                    ResponseCode.SYSTEM_ERROR,
                    "this broker is of no group with elections (enableControllerMode), and no "
                    "controller",
                )
            try:
                return await handler(connection, request, self.role)
            except ConsensusFailed as error:
                raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error

        return serve

    async def _metadata(
        self, _connection: Connection, _request: Frame, role: GroupRole
    ) -> Response:
        # Tools send what follows to the leader: this broker is as good as any.
        broker = self.settings.broker
        return Response(
            header=GetMetaDataAnswer(
                group=f"{broker.broker_cluster_name}/{broker.broker_name}",
                controller_leader_id=str(role.broker_id),
                controller_leader_address=str(self.address()),
                is_leader=True,
                peers=";".join(map(str, self.settings.failover.endpoints())),
            )
        )

    async def _in_sync(self, _connection: Connection, request: Frame, role: GroupRole) -> Response:
        try:
            names = msgspec.json.decode(request.body, type=list[str])
        except ValueError as error:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER, f"the body is no list of broker names: {error}"
            ) from error
        if len(names) > _NAMES_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"{len(names)} broker names, {_NAMES_MAX} at most",
            )
        table = {}
        for name in names:
            view = await role.groups.view(name)
            if view.state is not None:
                table[name] = _replicas_info(name, view)
        return Response(body=BrokerReplicasInfo(replicas_info_table=table).to_json())

    async def _replicas(self, _connection: Connection, request: Frame, role: GroupRole) -> Response:
        name = request.read(GetReplicaInfo).broker_name or ""
        view = await role.groups.view(name)
        state = view.state
        if state is None:
            raise Refusal(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"no brokers of {name} have elected a master in {role.groups!r}",
            )
        master = view.master
        return Response(
            header=GetReplicaInfoAnswer(
                master_broker_id=None if master is None else state.master,
                master_address=None if master is None else master.address,
                master_epoch=state.epoch,
            ),
            body=SyncStateSet(
                sync_state_set=state.in_sync, sync_state_set_epoch=state.in_sync_epoch
            ).to_json(),
        )

    async def _elect(self, _connection: Connection, request: Frame, role: GroupRole) -> Response:
        wanted = request.read(ElectMaster)
        self._check_cluster(wanted.cluster_name)
        if not wanted.designate_elect:
            raise Refusal(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                "brokers here elect their master by themselves; name the one that it shall be",
            )
        try:
            state = await role.groups.appoint(wanted.broker_name, wanted.broker_id)
        except InvalidInput as error:
            raise Refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, str(error)) from error
        view = await role.groups.view(wanted.broker_name)
        return Response(
            header=ElectMasterAnswer(
                master_broker_id=state.master,
                master_address=_address(view, state.master),
                master_epoch=state.epoch,
                sync_state_set_epoch=state.in_sync_epoch,
            ),
            body=BrokerMemberGroup(
                cluster=wanted.cluster_name,
                broker_name=wanted.broker_name,
                broker_addrs={one: alive.address for one, alive in view.alive.items()},
            ).to_json(),
        )

    async def _forget(self, _connection: Connection, request: Frame, role: GroupRole) -> Response:
        wanted = request.read(CleanControllerBrokerData)
        if wanted.cluster_name:
            self._check_cluster(wanted.cluster_name)
        texts = [one for one in (wanted.broker_controller_ids_to_clean or "").split(";") if one]
        try:
            brokers = [int(one) for one in texts]
            await role.groups.forget(
                wanted.broker_name, brokers, living=wanted.is_clean_living_broker
            )
        except ValueError as error:  # InvalidInput as well
            raise Refusal(
                ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, str(error)
            ) from error
        return Response()

    async def _config(self, _connection: Connection, _request: Frame, _role: GroupRole) -> Response:
        texts = self.settings.as_properties()
        return Response(body=properties_to_text({name: texts[name] for name in FAILOVER_NAMES}))

    async def _update(self, connection: Connection, request: Frame, _role: GroupRole) -> Response:
        """Change settings of this broker; which ones can be changed, its settings say."""
        answer = self.update_settings(connection, request)
        answer = await answer if isinstance(answer, Awaitable) else answer
        assert answer is not None
        return answer

    def _check_cluster(self, name: str) -> None:
        own = self.settings.broker.broker_cluster_name
        if name != own:
            raise Refusal(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                f"this broker is of cluster {own}, not of {name}; ask a broker of that one",
            )


def _replicas_info(name: str, view: GroupView) -> ReplicasInfo:
    state, master = view.state, view.master
    assert state is not None
    known = [
        ReplicaIdentity(
            broker_name=name,
            broker_id=one,
            broker_address=_address(view, one),
            alive=one in view.alive,
        )
        for one, found in view.registered.items()
        if not found.is_removed
    ]
    return ReplicasInfo(
        master_broker_id=None if master is None else state.master,
        master_address=None if master is None else master.address,
        master_epoch=state.epoch,
        sync_state_set_epoch=state.in_sync_epoch,
        in_sync_replicas=tuple(one for one in known if one.broker_id in state.in_sync),
        not_in_sync_replicas=tuple(one for one in known if one.broker_id not in state.in_sync),
    )


def _address(view: GroupView, broker_id: int) -> str | None:
    alive, known = view.alive.get(broker_id), view.registered.get(broker_id)
    if alive is not None:
        return alive.address
    return None if known is None else known.address
