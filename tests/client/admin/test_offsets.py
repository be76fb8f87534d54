import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import GroupNotFound, InvalidInput, NoRoute
from orbitmq.message.model import MessageQueue
from tests.client.admin.stories import fill, with_cluster


def test_a_new_queue_is_empty() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=1)
        (queue,) = await admin.queues("orders")
        assert await admin.min_offset(queue) == await admin.max_offset(queue) == 0
        assert await admin.earliest_store_time(queue) == -1
        assert await admin.search_offset(queue, 0) == 0

    with_cluster(story, brokers=1)


async def filled(admin: Admin) -> tuple[MessageQueue, MessageQueue]:
    """Make a topic with five messages on one broker and three on another, and a group."""
    await admin.create_topic("orders", queues=1)
    await admin.create_group("billing")
    first, second = await admin.queues("orders")
    await fill(admin, "orders", {first: 5, second: 3})
    return first, second


def test_the_lag_of_a_group_is_known_by_queue_and_in_total() -> None:
    async def story(admin: Admin) -> None:
        first, second = await filled(admin)
        assert await admin.consumer_offset("billing", first) is None
        assert (await admin.progress("billing")).queues == ()
        await admin.set_offset("billing", first, 4)
        await admin.set_offset("billing", second, 1)
        assert await admin.consumer_offset("billing", first) == 4
        for progress in (
            await admin.progress("billing"),
            await admin.progress("billing", "orders"),
        ):
            assert [(one.queue, one.lag) for one in progress.queues] == [(first, 1), (second, 2)]
            assert (progress.group, progress.lag) == ("billing", 3)
        assert progress.queues[0].last_consumed_ms > 0

    with_cluster(story)


def test_a_misspelled_group_does_not_look_like_one_without_lag() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=1)
        for call in (admin.progress("biling"), admin.progress("biling", "orders")):
            with pytest.raises(GroupNotFound):
                await call
        with pytest.raises(NoRoute):
            await admin.progress("biling", "ordres")

    with_cluster(story, brokers=1)


def test_a_group_is_reset_to_a_time_and_to_the_end() -> None:
    async def story(admin: Admin) -> None:
        first, second = await filled(admin)
        assert await admin.skip_to_end("billing", "orders") == {first: 5, second: 3}
        assert (await admin.progress("billing")).lag == 0
        assert await admin.reset_offsets("billing", "orders", timestamp_ms=0) == {
            first: 0,
            second: 0,
        }
        assert (await admin.progress("billing")).lag == 8
        with pytest.raises(InvalidInput, match="use skip_to_end"):
            await admin.reset_offsets("billing", "orders", timestamp_ms=-1)
        with pytest.raises(GroupNotFound) as caught:
            await admin.reset_offsets("biling", "orders", timestamp_ms=0)
        assert len(caught.value.__notes__) == 2

    with_cluster(story)


def test_offsets_are_committed_where_no_consumer_can_be_notified() -> None:
    async def story(admin: Admin) -> None:
        first, second = await filled(admin)
        await admin.set_broker_config({"useServerSideResetOffset": "false"}, on="broker-b")
        for queue in (first, second):
            await admin.set_offset("billing", queue, 1)
        assert (await admin.progress("billing")).lag == 6
        assert await admin.skip_to_end("billing", "orders") == {first: 5, second: 3}
        assert await admin.consumer_offset("billing", second) == 3
        await admin.reset_offsets("billing", "orders", timestamp_ms=0)
        assert await admin.consumer_offset("billing", second) == 0

    with_cluster(story)


def test_one_offset_is_set_within_its_queue() -> None:
    async def story(admin: Admin) -> None:
        first, _second = await filled(admin)
        await admin.set_offset("billing", first, 2)
        await admin.set_offset("billing", first, 1)  # after a reset, too
        assert await admin.consumer_offset("billing", first) == 1
        with pytest.raises(InvalidInput, match="offset is -1"):
            await admin.set_offset("billing", first, -1)
        with pytest.raises(InvalidInput, match="offset is 99; queue 0 of orders on .* has 0 to 5"):
            await admin.set_offset("billing", first, 99)
        assert await admin.consumer_offset("billing", first) == 1
        with pytest.raises(GroupNotFound):
            await admin.set_offset("biling", first, 1)

    with_cluster(story)


def test_a_group_gets_the_offsets_of_another() -> None:
    async def story(admin: Admin) -> None:
        first, second = await filled(admin)
        await admin.set_offset("billing", first, 4)
        await admin.set_offset("billing", second, 1)
        with pytest.raises(GroupNotFound):
            await admin.clone_offsets("billing", "audit")
        await admin.create_group("audit")
        await admin.clone_offsets("billing", "audit", "orders")
        assert (await admin.progress("audit")).lag == 3
        await admin.set_offset("billing", first, 5)
        await admin.clone_offsets("billing", "audit")
        assert (await admin.progress("audit")).lag == 2

    with_cluster(story)


def test_topics_and_groups_of_a_namespace_are_wrapped_and_unwrapped() -> None:
    async def story(admin: Admin) -> None:
        async with Admin(client=admin.client_settings, namespace="shop") as own:
            await own.create_topic("orders", queues=1)
            await own.create_group("billing")
            (queue,) = await own.queues("orders")
            await own.set_offset("billing", queue, 0)
            assert await own.groups() == {"billing": ("broker-a",)}
            assert await own.group_topics("billing") == ["orders"]
            assert await own.skip_to_end("billing", "orders") == {queue: 0}
            assert [one.queue for one in (await own.progress("billing")).queues] == [queue]
            assert (await own.topic_config("orders"))["broker-a"].topic_name == "orders"
            assert (await own.group_config("billing"))["broker-a"].group_name == "billing"
            await own.update_topic("orders", perm=4)
            # Names without namespace, or of another one, are not those of this one.
            await admin.create_topic("orders", queues=1)
            await admin.create_group("billing")
            await admin.create_group("store%billing")
            assert await own.topics(include_system=False) == ["orders"]
            assert await own.groups() == {"billing": ("broker-a",)}
        assert set(await admin.groups()) == {"billing", "shop%billing", "store%billing"}
        assert (await admin.topic_config("shop%orders"))["broker-a"].perm == 4

    with_cluster(story, brokers=1)
