import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import (
    BrokerFailed,
    InvalidInput,
    InvalidParameter,
    InvalidTopic,
    NoRoute,
)
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.session import Response
from tests.client.admin.stories import fill, with_admin, with_cluster
from tests.client.scene import BROKER_A, BROKER_B, Scene


def test_a_topic_is_made_on_every_master_and_again_where_that_may_help() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        failures = iter([Response(2, remark="busy"), Response(1, remark="not yet")])

        def answer(_request: Frame) -> Response:
            return next(failures, Response())

        scene.answer = answer
        made = await admin.create_topic(
            "bills", queues=2, attributes={"message.type": "FIFO", "a": "b"}
        )
        assert made == ("broker-a", "broker-b")

    scene = with_admin(story)
    assert len(scene.codes(BROKER_A)) + len(scene.codes(BROKER_B)) == 4
    header = scene.heard[0][2].read(CreateTopic)
    assert (header.topic, header.read_queue_nums, header.default_topic) == ("bills", 2, "TBW102")
    assert header.attributes == "+message.type=FIFO,+a=b"


def test_a_broker_that_refuses_a_topic_is_named_beside_those_that_took_it() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        count = 0

        def refuse_the_first(_request: Frame) -> Response:
            nonlocal count
            count += 1
            return Response(29, remark="no") if count == 1 else Response()

        scene.answer = refuse_the_first
        with pytest.raises(InvalidParameter) as caught:
            await admin.create_topic("bills")
        assert caught.value.__notes__ == [
            "broker-a: 10.0.0.1:10911 answered 29: no",
            "broker-b: done",
        ]
        scene.answer = lambda _request: Response(1, remark="broken")
        with pytest.raises(BrokerFailed):
            await admin.create_topic("bills")

    scene = with_admin(story)
    assert len(scene.heard) == 2 + 2 * 5


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("nowhere", "no cluster, broker or topic is named nowhere"),
        ("TBW102", "no broker of this cluster creates topics automatically"),
    ],
)
def test_an_unknown_cluster_broker_or_topic_is_named_in_the_error(on: str, words: str) -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        del scene.routes["TBW102"]
        with pytest.raises(NoRoute, match=words) as caught:
            await admin.create_topic("bills", on=on)
        assert (caught.value.topic, caught.value.is_missing) == (on, True)

    assert with_admin(story).heard == []


@pytest.mark.parametrize("topic", ["a.b", "", "TBW102", "rmq_sys_x"])
def test_an_invalid_topic_is_refused_without_a_request(topic: str) -> None:
    async def story(_scene: Scene, admin: Admin) -> None:
        with pytest.raises(InvalidTopic):
            await admin.create_topic(topic)

    assert with_admin(story).heard == []


# On a cluster


def test_a_topic_is_changed_and_keeps_the_rest() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("bills", queues=3, attributes={"message.type": "FIFO"})
        changed = await admin.update_topic("bills", write_queues=2, perm=4, on="broker-a")
        assert changed == ("broker-a",)
        configs = await admin.topic_config("bills")
        seen = [
            (name, one.topic_name, one.read_queue_nums, one.write_queue_nums, one.perm)
            for name, one in configs.items()
        ]
        assert seen == [("broker-a", "bills", 3, 2, 4), ("broker-b", "bills", 3, 3, 6)]
        assert all(one.attributes == {"message.type": "FIFO"} for one in configs.values())
        await admin.update_topic(
            "bills", perm=6, is_ordered=True, attributes={"message.type": None}
        )
        configs = await admin.topic_config("bills")
        assert [(one.order, one.perm, one.attributes) for one in configs.values()] == [
            (True, 6, {})
        ] * 2
        with pytest.raises(NoRoute):
            await admin.update_topic("nowhere", perm=4)

    with_cluster(story)


def test_the_stats_of_a_topic_come_from_all_its_brokers() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("bills", queues=1)
        first, second = await admin.queues("bills")
        await fill(admin, "bills", {second: 3})
        stats = await admin.topic_stats("bills")
        assert [(one.queue, one.min_offset, one.max_offset) for one in stats.queues] == [
            (first, 0, 0),
            (second, 0, 3),
        ]
        assert stats.messages == 3
        assert stats.queues[1].last_stored_ms > stats.queues[0].last_stored_ms == 0

    with_cluster(story)


def test_a_deleted_topic_is_gone_from_brokers_routes_and_order_config() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("bills")
        await admin.set_order_config("bills", {"broker-a": 4, "broker-b": 2})
        await admin.set_nameserver_config({"orderMessageEnable": "true"})
        assert (await admin.route("bills")).order_topic_conf == "broker-a:4;broker-b:2"
        assert "bills" in await admin.topics(cluster="DefaultCluster")
        with pytest.raises(NoRoute, match="no cluster is named elsewhere"):
            await admin.delete_topic("bills", cluster="elsewhere")
        await admin.delete_topic("bills")
        assert "bills" not in await admin.topics()
        assert await admin.order_config("bills") == {}
        with pytest.raises(NoRoute):
            await admin.topic_config("bills")

    with_cluster(story)


def test_the_order_config_of_a_topic_is_set_and_deleted() -> None:
    async def story(admin: Admin) -> None:
        await admin.set_order_config("bills", {"broker-b": 2, "broker-a": 4})
        assert await admin.order_config("bills") == {"broker-a": 4, "broker-b": 2}
        await admin.delete_order_config("bills")
        assert await admin.order_config("bills") == {}
        for queues in ({}, {"broker-a": 0}, {"a:b": 1}):
            with pytest.raises(InvalidInput, match="queues"):
                await admin.set_order_config("bills", queues)

    with_cluster(story, brokers=1)
