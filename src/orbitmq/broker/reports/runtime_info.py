"""The runtime info of a broker, by Java's keys: GET_BROKER_RUNTIME_INFO.

Java's tools and exporters read each of these keys as a number, and fail if one is missing. So all
are there, also those of features that don't exist here: thread pools, a lock around the log, and a
pool of buffers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.inbox import Inbox
from orbitmq.broker.sending.timers import Timers
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.store.disk.disk import Usage
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import VERSION_5_4_0, version_name

__all__ = ["RuntimeInfo"]

_NO_TIME: Final = -1
_UNIT: Final = 1024

_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "brokerActive": "true",  # a broker never hands its duties to another one
    "dispatchMaxBuffer": "0",  # 0 in Java too, since 4.0
    "pageCacheLockTimeMills": "0",  # the thread that answers is the one that writes
    "remainTransientStoreBufferNumbs": str(2**31 - 1),  # Java's value without a pool
}


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class RuntimeInfo:
    """Collects the runtime info."""

    settings: LiveSettings
    store: MessageStore
    stats: BrokerStats
    inbox: Inbox
    held: HeldPulls
    delays: Delays
    timers: Timers
    disk_usage: Callable[[], Usage]
    clock: Clock

    def figures(self) -> dict[str, str]:
        """Return all entries by Java's keys."""
        settings = self.settings.broker
        return {
            **self.stats.info(self.clock.now_ms()),
            **self.delays.running_info(),
            **self.timers.running_info(),
            **self._of_store(),
            **self._of_disk(),
            **self._of_queues(),
            **_WITHOUT_MEANING,
            "brokerVersionDesc": "V" + version_name(VERSION_5_4_0).replace(".", "_"),
            "startAcceptSendRequestTimeStamp": str(settings.start_accept_send_request_time_stamp),
        }

    def _of_store(self) -> dict[str, str]:
        store = self.store
        began_ms = store.lookup.log_start_time_ms()
        return {
            "commitLogMinOffset": str(store.log.first_offset),
            "commitLogMaxOffset": str(store.log.end),
            "dispatchBehindBytes": str(store.undispatched_bytes),
            "remainHowManyDataToFlush": _readable(store.log.end - store.flushed),
            "earliestMessageTimeStamp": str(_NO_TIME if began_ms is None else began_ms),
        }

    def _of_disk(self) -> dict[str, str]:
        usage = self.disk_usage()
        ratio = str(ceil(usage.ratio * 100) / 100)  # in whole percent, rounded up, as in Java
        capacity = usage.total + usage.reserved  # Java counts blocks for root alone as free here
        total, free = _readable(capacity), _readable(capacity - usage.used)
        log_directory = self.store.settings.log_directory(self.store.directory)
        return {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{log_directory}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        }

    def _of_queues(self) -> dict[str, str]:
        settings = self.settings.broker
        pulls = str(settings.pull_thread_pool_queue_capacity)
        unanswered = str(self.settings.net.serving_max)
        figures = {
            "sendThreadPoolQueueSize": str(self.inbox.waiting),
            "sendThreadPoolQueueHeadWaitTimeMills": str(self.inbox.head_wait_ms),
            "sendThreadPoolQueueCapacity": str(settings.send_thread_pool_queue_capacity),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": unanswered,
            "heldPulls": str(len(self.held)),  # our own key
        }
        # These requests are never queued. A held pull is not load, and these keys are about load.
        capacities = {"pull": pulls, "litePull": pulls, "query": unanswered, "ack": unanswered}
        for kind, capacity in capacities.items():
            figures[f"{kind}ThreadPoolQueueSize"] = "0"
            figures[f"{kind}ThreadPoolQueueHeadWaitTimeMills"] = "0"
            figures[f"{kind}ThreadPoolQueueCapacity"] = capacity
        return figures


def _readable(size: int) -> str:
    """Return a number of bytes in Java's format (``MixAll.humanReadableByteCount``).

    >>> _readable(944), _readable(1536), _readable(252 * 1024**3)
    ('944 B', '1.5 KiB', '252.0 GiB')
    """
    if size < _UNIT:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= _UNIT
        if value < _UNIT:
            return f"{value:.1f} {unit}"
    return f"{value / _UNIT:.1f} EiB"
