"""What mqadmin asks a controller, asked of the brokers of a group."""

from collections.abc import Awaitable, Callable

import pytest

from orbitmq.wire.bodies.cluster import BrokerMemberGroup
from orbitmq.wire.bodies.replication import (
    BrokerReplicasInfo,
    EpochEntryCache,
    SyncStateSet,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.controller import (
    CleanControllerBrokerData,
    ElectMaster,
    ElectMasterAnswer,
    GetMetaDataAnswer,
    GetReplicaInfo,
    GetReplicaInfoAnswer,
)
from orbitmq.wire.json.properties_text import properties_from_text
from tests.broker.elected_world import Group, Node
from tests.broker.elected_world import run as run_group
from tests.broker.test_replicas import MASTER
from tests.broker.test_replicas import Group as Classic
from tests.broker.test_replicas import run as run_classic

NAME, CLUSTER = "broker-a", "DefaultCluster"
Ask = Callable[..., Awaitable[Frame]]


def run(story: Callable[[Group, Ask, Node, Node], Awaitable[None]]) -> None:
    """Run a story with a master, a slave, and a way to ask the slave."""

    async def main(group: Group) -> None:
        first, second = await group.start(2)

        async def ask(header: Header | None = None, **more: object) -> Frame:
            return await group.ask(second.address, header or NoFields(), **more)

        await story(group, ask, first, second)

    run_group(main)


def elect(broker_id: int, *, cluster: str = CLUSTER, designated: bool = True) -> ElectMaster:
    return ElectMaster(
        cluster_name=cluster, broker_name=NAME, broker_id=broker_id, designate_elect=designated
    )


def clean(brokers: str, *, cluster: str | None = CLUSTER) -> CleanControllerBrokerData:
    return CleanControllerBrokerData(
        cluster_name=cluster, broker_name=NAME, broker_controller_ids_to_clean=brokers
    )


def test_any_broker_says_who_leads_and_who_is_in_sync() -> None:
    async def story(_group: Group, ask: Ask, first: Node, second: Node) -> None:
        header = (await ask(code=RequestCode.CONTROLLER_GET_METADATA_INFO)).read(GetMetaDataAnswer)
        assert header.group == f"{CLUSTER}/{NAME}"
        assert header.controller_leader_address == str(second.address)
        assert (header.is_leader, header.peers) == (True, "127.0.0.1:2379")
        answer = await ask(
            code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["broker-a","nobody"]'
        )
        table = BrokerReplicasInfo.from_json(answer.body).replicas_info_table
        assert list(table) == [NAME]
        found = table[NAME]
        assert (found.master_broker_id, found.master_epoch) == (1, 1)
        assert [one.broker_address for one in found.in_sync_replicas] == [
            str(first.address),
            str(second.address),
        ]
        assert found.not_in_sync_replicas == ()
        answer = await ask(GetReplicaInfo(broker_name=NAME))
        assert answer.read(GetReplicaInfoAnswer).master_address == str(first.address)
        assert SyncStateSet.from_json(answer.body).sync_state_set == (1, 2)

    run(story)


def test_a_dead_broker_is_shown_as_not_in_sync_until_it_is_forgotten() -> None:
    async def story(group: Group, ask: Ask, first: Node, second: Node) -> None:
        first.kill()
        await group.until(lambda: second.leads)
        in_sync = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        body = (await ask(code=in_sync, body=b'["broker-a"]')).body
        (gone,) = BrokerReplicasInfo.from_json(body).replicas_info_table[NAME].not_in_sync_replicas
        assert (gone.broker_id, gone.alive) == (1, False)
        assert (await ask(clean("1"))).code == ResponseCode.SUCCESS
        body = (await ask(code=in_sync, body=b'["broker-a"]')).body
        assert (
            BrokerReplicasInfo.from_json(body).replicas_info_table[NAME].not_in_sync_replicas == ()
        )

    run(story)


def test_an_operator_appoints_the_master_and_sends_go_on_there() -> None:
    async def story(group: Group, ask: Ask, first: Node, second: Node) -> None:
        await group.send_many(first, "a")
        answer = await ask(elect(2))
        header = answer.read(ElectMasterAnswer)
        assert (header.master_broker_id, header.master_epoch) == (2, 2)
        assert header.master_address == str(second.address)
        assert len(BrokerMemberGroup.from_json(answer.body).broker_addrs) == 2
        await group.until(lambda: second.leads)
        await group.until(lambda: second.in_sync == (1, 2))
        await group.send_many(second, "b")
        assert await group.read(second) == group.acknowledged
        epochs = await ask(code=RequestCode.GET_BROKER_EPOCH_CACHE)
        cache = EpochEntryCache.from_json(epochs.body)
        assert [one.epoch for one in cache.epoch_list] == [1, 2]
        assert cache.epoch_list[-1].end_offset == cache.max_offset == second.log_end
        assert cache.broker_id == 0

    run(story)


def test_what_can_t_be_done_is_refused_with_the_reason() -> None:
    async def story(_group: Group, ask: Ask, _first: Node, second: Node) -> None:
        for header, code, why in (
            (elect(1), ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "is the master"),
            (elect(9), ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "not alive"),
            (elect(2, cluster="x"), ResponseCode.CONTROLLER_INVALID_REQUEST, "of cluster"),
            (elect(2, designated=False), ResponseCode.CONTROLLER_INVALID_REQUEST, "themselves"),
            (clean("2"), ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, "in sync"),
            (clean("x"), ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, "invalid literal"),
            (
                GetReplicaInfo(broker_name="nobody"),
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                "nobody",
            ),
        ):
            answer = await ask(header)
            assert (answer.code, why in str(answer.remark)) == (code, True), answer
        answer = await ask(code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=b"{}")
        assert answer.code == ResponseCode.INVALID_PARAMETER
        for asked in (
            RequestCode.CONTROLLER_REGISTER_BROKER,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
        ):
            answer = await ask(code=asked)
            assert "elect their master in etcd" in str(answer.remark)
        second.client.is_cut = True
        answer = await ask(GetReplicaInfo(broker_name=NAME))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no answer in time")

    run(story)


def test_the_settings_of_elections_are_shown_and_some_can_be_changed() -> None:
    async def story(_group: Group, ask: Ask, _first: Node, second: Node) -> None:
        shown = properties_from_text((await ask(code=RequestCode.GET_CONTROLLER_CONFIG)).body)
        assert shown["etcdEndpoints"] == "127.0.0.1:2379"
        assert shown["enableElectUncleanMaster"] == "false"
        change = RequestCode.UPDATE_CONTROLLER_CONFIG
        answer = await ask(code=change, body=b"enableElectUncleanMaster=true\n")
        assert answer.code == ResponseCode.SUCCESS
        assert second.broker.settings.failover.elect_unclean
        answer = await ask(code=change, body=b"etcdEndpoints=10.0.0.1:2379\n")
        assert answer.code == ResponseCode.NO_PERMISSION

    run(story)


@pytest.mark.parametrize(
    "code", [RequestCode.CONTROLLER_GET_METADATA_INFO, RequestCode.GET_CONTROLLER_CONFIG]
)
def test_a_broker_without_elections_is_no_controller(code: RequestCode) -> None:
    async def story(group: Classic) -> None:
        broker = await group.start(MASTER)
        answer = await group.ask(MASTER, NoFields(), code=code)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "enableControllerMode" in str(answer.remark)
        await broker.close()

    run_classic(story)
