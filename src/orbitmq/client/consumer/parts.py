"""Parts that push and pull consumers make alike, from their settings."""

from orbitmq.client.consumer.assignment import strategies
from orbitmq.client.consumer.assignment.rebalance import GroupDescription
from orbitmq.client.consumer.fetching.pulls import Pulls
from orbitmq.client.consumer.offsets.local import LocalOffsets
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.settings import (
    ConsumerSettings,
    PullConsumerSettings,
    consume_from_where,
)
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import DEFAULT_INSTANCE
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel
from orbitmq.wire.fields import INT32_MAX

__all__ = ["describe_group", "make_offsets", "make_pulls"]

Settings = ConsumerSettings | PullConsumerSettings


def describe_group(settings: Settings, group: str, *, unit_mode: bool) -> GroupDescription:
    """Return the group as a consumer takes part in it; ``group`` is its name on the wire."""
    consume_type, ordered = ConsumeType.CONSUME_ACTIVELY, False
    lock_interval_ms = settings.rebalance_interval_ms  # unused: only ordered consumers lock
    if isinstance(settings, ConsumerSettings):
        consume_type = ConsumeType.CONSUME_PASSIVELY
        ordered = settings.ordered and not settings.broadcasting
        lock_interval_ms = settings.lock_interval_ms
    return GroupDescription(
        group=group,
        consume_type=consume_type,
        message_model=(
            MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING
        ),
        consume_from_where=consume_from_where(settings.consume_from),
        unit_mode=unit_mode,
        ordered=ordered,
        strategy=strategies.by_name(settings.strategy),
        rebalance_interval_ms=settings.rebalance_interval_ms,
        lock_interval_ms=lock_interval_ms,
    )


def make_offsets(core: ClientCore, settings: Settings, group: str) -> RemoteOffsets | LocalOffsets:
    """Return where the group commits: its brokers, or a file of this machine."""
    if not settings.broadcasting:
        return RemoteOffsets(core, group)
    # Java's name: an id with the process in it would make each start a new member.
    member = core.settings.client_id(core.machine.host, DEFAULT_INSTANCE)
    return LocalOffsets(settings.local_offset_directory, member, group, core.workers)


def make_pulls(core: ClientCore, settings: Settings, group: str) -> Pulls:
    """Return the pulls of a group; those of pull consumers have their subscription along."""
    is_lite, batch_bytes = True, INT32_MAX
    if isinstance(settings, ConsumerSettings):
        is_lite, batch_bytes = False, settings.pull_batch_bytes
    return Pulls(
        core,
        group,
        batch=settings.pull_batch,
        batch_bytes=batch_bytes,
        suspend_ms=settings.pull_suspend_ms,
        timeout_ms=settings.pull_timeout_ms,
        lite=is_lite,
    )
