"""What a running consumer says about itself: its properties, and what it holds of each queue.

The names are Java's (``ConsumerRunningInfo``), so that mqadmin and the console show them; a setting
that Java does not have has ours.
"""

from collections.abc import Mapping
from typing import Final

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.settings import (
    CONSUMER_NAMES,
    PULL_CONSUMER_NAMES,
    ConsumerSettings,
    PullConsumerSettings,
    consume_from_where,
)
from orbitmq.clock import Clock
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel
from orbitmq.wire.bodies.running import ProcessQueueInfo
from orbitmq.wire.codes import VERSION_5_4_0, version_name

__all__ = ["properties_of", "queue_info"]

_MIB: Final = 1024 * 1024
_NO_OFFSET: Final = -1


def properties_of(settings: ConsumerSettings | PullConsumerSettings) -> dict[str, str]:
    """Return the properties of a consumer that its settings decide.

    >>> found = properties_of(ConsumerSettings("billing", ordered=True))
    >>> found["PROP_CONSUME_TYPE"], found["PROP_CONSUMEORDERLY"], found["consumeThreadMax"]
    ('CONSUME_PASSIVELY', 'true', '20')
    """
    is_push = isinstance(settings, ConsumerSettings)
    names: Mapping[str, str] = CONSUMER_NAMES if is_push else PULL_CONSUMER_NAMES
    model = MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING
    consume_type = ConsumeType.CONSUME_PASSIVELY if is_push else ConsumeType.CONSUME_ACTIVELY
    found = {name: _text(getattr(settings, field)) for name, field in names.items()}
    found |= {
        "messageModel": model.value,
        "consumeFromWhere": consume_from_where(settings.consume_from).value,
        "PROP_CONSUME_TYPE": consume_type.value,
        "PROP_CLIENT_VERSION": "V" + version_name(VERSION_5_4_0).replace(".", "_"),
    }
    if isinstance(settings, ConsumerSettings):
        found["PROP_CONSUMEORDERLY"] = _text(settings.ordered)
        found["PROP_THREADPOOL_CORE_SIZE"] = _text(settings.concurrency)
    return found


def queue_info(
    inbox: Inbox, committed: int | None, clock: Clock, *, is_ordered: bool, is_loop: bool
) -> ProcessQueueInfo:
    """Return what a consumer holds of one queue.

    ``is_loop`` is False on other threads than that of the inbox: these must not read the offsets of
    messages, since an inbox removes what is finished while it looks for them.
    """
    first = inbox.first_offset if is_loop else None
    ago_ms = clock.now_ms() - clock.monotonic_ms()
    return ProcessQueueInfo(
        commit_offset=_NO_OFFSET if committed is None else committed,
        cached_msg_count=inbox.count,
        cached_msg_size_in_mib=inbox.bytes // _MIB,
        cached_msg_min_offset=first or 0,
        cached_msg_max_offset=(inbox.last_offset or 0) if first is not None else 0,
        transaction_msg_count=inbox.in_hand if is_ordered else 0,
        dropped=inbox.is_dropped,
        locked=is_ordered,  # an ordered consumer owns only queues that it has locked
        last_pull_timestamp=ago_ms + inbox.pulled_ms if inbox.pulled_ms else 0,
        last_consume_timestamp=ago_ms + inbox.taken_ms if inbox.taken_ms else 0,
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(getattr(value, "name", value))  # a strategy has a name
