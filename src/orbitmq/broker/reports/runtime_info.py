"""What a broker tells of itself at run time, in Java's words: GET_BROKER_RUNTIME_INFO.

Tools and exporters of Java's read every one of these keys as a number, and fail on one that is
missing. So all are told, also those of what there is not here: thread pools, a lock around the log,
a pool of buffers, and timers, which come later.
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.sending.delays import Delays
from orbitmq.broker.sending.inbox import SendTurn
from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.store.disk.disk import Usage
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.codes import VERSION_5_4_0, version_name

__all__ = ["RuntimeInfo"]

_NO_TIME: Final = -1
_UNIT: Final = 1024

_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "brokerActive": "true",  # what a master alone does is never handed to another broker
    "dispatchMaxBuffer": "0",  # 0 in Java too, since 4.0
    "pageCacheLockTimeMills": "0",  # one thread writes, and whoever asks finds it not writing
    "remainTransientStoreBufferNumbs": str(2**31 - 1),  # Java's word for "no such pool"
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


class RuntimeInfo:
    """Gathers the figures of a broker.

    Args:
        settings: the settings in force.
        store: how much is kept, and how much waits for the disk.
        stats: what was put and got.
        turn: the sends that wait.
        held: the pulls that wait.
        delays: how far the delay levels have come.
        disk_usage: returns how full the disk is.
        clock: the time of day.

    """

    def __init__(
        self,
        *,
        settings: LiveSettings,
        store: MessageStore,
        stats: BrokerStats,
        turn: SendTurn,
        held: HeldPulls,
        delays: Delays,
        disk_usage: Callable[[], Usage],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._store = store
        self._stats = stats
        self._turn = turn
        self._held = held
        self._delays = delays
        self._disk_usage = disk_usage
        self._clock = clock

    def figures(self) -> dict[str, str]:
        """Return all figures by Java's names."""
        settings = self._settings.broker
        return {
            **self._stats.info(self._clock.now_ms()),
            **self._delays.running_info(),
            **self._of_store(),
            **self._of_disk(),
            **self._of_queues(),
            **_WITHOUT_MEANING,
            "brokerVersionDesc": "V" + version_name(VERSION_5_4_0).replace(".", "_"),
            "startAcceptSendRequestTimeStamp": str(settings.start_accept_send_request_time_stamp),
        }

    def _of_store(self) -> dict[str, str]:
        store = self._store
        began_ms = store.lookup.log_start_time_ms()
        return {
            "commitLogMinOffset": str(store.log.first_offset),
            "commitLogMaxOffset": str(store.log.end),
            "dispatchBehindBytes": str(store.undispatched_bytes),
            "remainHowManyDataToFlush": _readable(store.log.end - store.flushed),
            "earliestMessageTimeStamp": str(_NO_TIME if began_ms is None else began_ms),
        }

    def _of_disk(self) -> dict[str, str]:
        usage = self._disk_usage()
        ratio = str(ceil(usage.ratio * 100) / 100)  # in whole percents, rounded up, as in Java
        total, free = _readable(usage.total), _readable(usage.total - usage.used)
        log_directory = self._store.settings.log_directory(self._store.directory)
        return {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{log_directory}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        }

    def _of_queues(self) -> dict[str, str]:
        settings = self._settings.broker
        pulls = str(settings.pull_thread_pool_queue_capacity)
        unanswered = str(self._settings.net.serving_max)
        figures = {
            "sendThreadPoolQueueSize": str(self._turn.waiting),
            "sendThreadPoolQueueHeadWaitTimeMills": str(self._turn.head_wait_ms),
            "sendThreadPoolQueueCapacity": str(settings.send_thread_pool_queue_capacity),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": unanswered,
            "heldPulls": str(len(self._held)),  # a key of our own
        }
        # These never wait for their turn. A pull that waits for messages is no load, and what an
        # operator reads here in Java is load.
        capacities = {"pull": pulls, "litePull": pulls, "query": unanswered, "ack": unanswered}
        for kind, capacity in capacities.items():
            figures[f"{kind}ThreadPoolQueueSize"] = "0"
            figures[f"{kind}ThreadPoolQueueHeadWaitTimeMills"] = "0"
            figures[f"{kind}ThreadPoolQueueCapacity"] = capacity
        return figures


def _readable(size: int) -> str:
    """Return a number of bytes as Java's broker writes it (``MixAll.humanReadableByteCount``).

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
