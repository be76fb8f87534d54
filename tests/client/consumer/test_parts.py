"""What settings of both kinds of consumers become."""

from orbitmq.client.consumer.offsets.local import LocalOffsets
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.parts import describe_group, make_offsets, make_pulls
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel
from tests.client.consumer.world import World, play


def test_a_push_consumer_is_passive_and_locks_if_it_is_ordered() -> None:
    settings = ConsumerSettings("billing", ordered=True, lock_interval_ms=7_000)
    group = describe_group(settings, "shop%billing", unit_mode=True)
    assert (group.group, group.unit_mode) == ("shop%billing", True)
    assert group.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert group.message_model is MessageModel.CLUSTERING
    assert (group.needs_locks, group.lock_interval_ms) == (True, 7_000)
    everywhere = ConsumerSettings("billing", ordered=True, broadcasting=True)
    assert not describe_group(everywhere, "billing", unit_mode=False).needs_locks


def test_a_pull_consumer_is_active() -> None:
    settings = PullConsumerSettings("audit", broadcasting=True, strategy="average_by_circle")
    group = describe_group(settings, "audit", unit_mode=False)
    assert group.consume_type is ConsumeType.CONSUME_ACTIVELY
    assert group.message_model is MessageModel.BROADCASTING
    assert not group.ordered


def test_groups_commit_at_brokers_and_broadcasting_consumers_in_files() -> None:
    async def story(world: World) -> None:
        push, pull = ConsumerSettings("billing"), PullConsumerSettings("audit", broadcasting=True)
        assert isinstance(make_offsets(world.core, push, "billing"), RemoteOffsets)
        local = make_offsets(world.core, pull, "audit")
        assert isinstance(local, LocalOffsets)
        assert "@DEFAULT/audit/" in repr(local)  # the same after a restart
        assert "32 messages" in repr(make_pulls(world.core, push, "billing"))
        assert "10 messages" in repr(make_pulls(world.core, pull, "audit"))

    play(story)
