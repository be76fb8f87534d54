"""The shared part of clients on real RocketMQ: routes, heartbeats, and what an admin asks."""

import asyncio
from pathlib import Path

from orbitmq.client.admin.admin import Admin
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.message.model import Message, MessageQueue
from orbitmq.net.address import Address
from orbitmq.wire.bodies.members import ProducerConnection
from orbitmq.wire.bodies.static_topic import LogicQueueMappingItem, TopicQueueMappingDetail
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.heartbeat import GetProducerConnectionList
from tests.client import admin_story
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java_cluster import JavaCluster


def settings(cluster: JavaCluster) -> ClientSettings:
    return ClientSettings(nameserver=str(cluster.nameserver.address), keep_open_ms=0)


def test_a_topic_from_its_making_to_its_last_message(java_cluster_540: JavaCluster) -> None:
    nameserver = str(java_cluster_540.nameserver.address)
    asyncio.run(admin_story.tell(nameserver, "client-core", brokers=1))


def test_the_same_with_the_old_line(tmp_path: Path) -> None:
    if (why := counterparts.missing_for("4.9.7")) is not None:
        decline(why)
    with JavaCluster("4.9.7", tmp_path) as cluster:
        nameserver = str(cluster.nameserver.address)
        asyncio.run(admin_story.tell(nameserver, "client-core", brokers=1))
        asyncio.run(_members(cluster))


def test_a_broker_knows_the_client_while_it_is_there(java_cluster_540: JavaCluster) -> None:
    asyncio.run(_members(java_cluster_540))


async def _members(cluster: JavaCluster) -> None:
    watching = await ClientCore.acquire(settings(cluster))
    core = await ClientCore.acquire(ClientSettings(nameserver=watching.settings.nameserver))
    assert core is not watching
    core.register_producer("core-billing", core)
    await core.announce("core-members")  # made after TBW102
    assert core.routes.published["core-members"].is_default
    assert await _producers(watching, cluster.broker.address) == [core.client_id]
    await core.unregister_producer("core-billing", core)
    assert await _producers(watching, cluster.broker.address) == []
    await core.release()
    await watching.release()


async def _producers(core: ClientCore, broker: Address) -> list[str]:
    answer = await core.request(broker, GetProducerConnectionList(producer_group="core-billing"))
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return []  # so a broker says that it knows no such group
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    found = ProducerConnection.from_json(answer.body)
    return [one.client_id for one in found.connection_set]


def test_the_queues_of_a_static_topic_are_found_and_written(
    java_cluster_540: JavaCluster,
) -> None:
    asyncio.run(_static_topic(java_cluster_540))


async def _static_topic(cluster: JavaCluster) -> None:
    core = await ClientCore.acquire(settings(cluster))
    topic, broker = "client-static", cluster.broker
    async with Admin(client=core.settings) as admin:
        await _create_static(core, broker.address, broker.name, topic)

        async def is_there() -> bool:
            return topic in await admin.topics()

        await admin_story.soon(is_there, "the static topic's route")
        route = await core.routes.publish_route(topic, None)
        assert route.queues == tuple(
            MessageQueue(topic, "__syslo__global__", number) for number in range(3)
        )
        assert {route.broker_of(queue) for queue in route.queues} == {broker.name}
        receipt = await admin_story.send(core, route.queues[2], Message(topic, b"paid"))
        assert receipt.queue_id == 2

        async def is_stored() -> bool:
            return await admin.max_offset(route.queues[2]) == 1

        await admin_story.soon(is_stored, "the message in its logic queue")
        assert await admin.max_offset(route.queues[0]) == 0
    await core.release()


async def _create_static(core: ClientCore, address: Address, name: str, topic: str) -> None:
    """Make a topic of three logic queues, laid the other way round over three of the broker's."""
    laid = {number: 2 - number for number in range(3)}
    detail = TopicQueueMappingDetail(
        topic=topic,
        bname=name,
        total_queues=3,
        epoch=1,
        curr_id_map=laid,
        hosted_queues={
            number: (LogicQueueMappingItem(bname=name, queue_id=physical),)
            for number, physical in laid.items()
        },
    )
    header = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=3,
        write_queue_nums=3,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        force=True,
    )
    code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    answer = await core.request(address, header, detail.to_json(), code=code)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
