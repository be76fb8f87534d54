import asyncio
from typing import Any

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import InvalidInput, InvalidTags, NoPermission, NoRoute
from orbitmq.message import record
from orbitmq.message.host import Host
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.offset import SearchOffsetAnswer
from orbitmq.wire.headers.pull import PullMessage, PullMessageAnswer
from orbitmq.wire.session import Response
from tests.client.admin.stories import with_admin
from tests.client.scene import Scene, route

HOST = Host.parse("10.0.0.1:10911")
QUEUE = MessageQueue("orders", "broker-a", 0)


def test_all_queues_of_all_brokers_are_read_and_their_batches_split() -> None:
    async def main() -> None:
        async with (
            EmbeddedCluster(brokers=2) as cluster,
            Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin,
            Producer("billing", nameserver=cluster.nameserver) as producer,
        ):
            batch_queues = {"queue.type": "BatchCQ"}
            await admin.create_topic("orders", queues=2, attributes=batch_queues)
            for queue in await admin.queues("orders"):
                for start in (0, 40):
                    bodies = [
                        Message("orders", b"%d" % number) for number in range(start, start + 40)
                    ]
                    await producer.send_many(bodies, queues=[queue] * 40)
            found = [one async for one in admin.messages_between("orders")]
            assert len(found) == 4 * 80
            by_queue = {(one.broker_name, one.queue_id) for one in found}
            assert len(by_queue) == 4
            assert [int(one.body) for one in found[:80]] == list(range(80))
            second = await admin.message_at(MessageQueue("orders", "broker-b", 1), 55)
            assert second.body == b"55"

    asyncio.run(main())


def test_a_queue_that_grows_is_read_up_to_the_end_it_had() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        pulls: list[int] = []

        def answer(request: Any) -> Response:
            if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                return Response(header=SearchOffsetAnswer(offset=3))
            pulls.append(request.read(PullMessage).queue_offset)
            header = PullMessageAnswer(
                suggest_which_broker_id=0,
                next_begin_offset=pulls[-1] + 2,
                min_offset=0,
                max_offset=5 + len(pulls),
            )
            return Response(ResponseCode.PULL_RETRY_IMMEDIATELY, header)

        scene.routes["orders"] = route("a")
        scene.answer = answer
        assert [one async for one in admin.messages_between("orders")] == []
        assert pulls[:3] == [3, 5, 3]  # the last one is of the next queue

    with_admin(story)


def test_a_broker_that_does_not_move_on_ends_the_iteration() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        def answer(request: Any) -> Response:
            if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                return Response(header=SearchOffsetAnswer(offset=0))
            header = PullMessageAnswer(
                suggest_which_broker_id=0, next_begin_offset=0, min_offset=0, max_offset=9
            )
            return Response(ResponseCode.PULL_NOT_FOUND, header)

        scene.answer = answer
        assert [one async for one in admin.messages_between("orders")] == []

    with_admin(story)


def test_a_logic_queue_of_a_static_topic_is_read_at_its_leader() -> None:
    mapping = TopicQueueMappingInfo(
        bname="broker-a", scope="__global__", total_queues=2, epoch=1, curr_id_map={1: 0}
    )

    async def story(scene: Scene, admin: Admin) -> None:
        stored = record.Record(
            topic=b"orders",
            body=b"paid",
            properties=b"",
            queue_id=0,
            queue_offset=3,
            born_timestamp_ms=0,
            born_host=HOST,
            store_host=HOST,
        )
        header = PullMessageAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=104,
            min_offset=100,
            max_offset=104,
            offset_delta=100,
        )
        scene.routes["orders"] = route("a", topic_queue_mapping_by_broker={"broker-a": mapping})
        scene.answer = lambda _request: Response(header=header, body=record.encode(stored))
        _, queue = await admin.queues("orders")
        message = await admin.message_at(queue, 103)
        assert (message.body, message.queue_id, message.queue_offset) == (b"paid", 1, 103)

    with_admin(story)


def test_a_refused_pull_and_invalid_arguments_are_errors() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        scene.answer = lambda _request: Response(ResponseCode.NO_PERMISSION, remark="no")
        with pytest.raises(NoPermission):
            await admin.message_at(QUEUE, 0)
        given: Any = "orders"
        with pytest.raises(InvalidInput, match="queue"):
            await admin.message_at(given, 0)
        with pytest.raises(InvalidInput, match="offset is -1"):
            await admin.message_at(QUEUE, -1)
        with pytest.raises(NoRoute, match="queue 999 of orders on broker-a"):
            await admin.message_at(MessageQueue("orders", "broker-a", 999), 0)
        with pytest.raises(InvalidTags):
            [one async for one in admin.messages_between("orders", tags="||")]

    with_admin(story)
