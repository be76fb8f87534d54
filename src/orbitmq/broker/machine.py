"""The machine of a broker: network, disk, clock, threads, randomness; simulations replace it."""

from collections.abc import Callable

from orbitmq.clock import Clock, SystemClock
from orbitmq.net.transport.network import Network
from orbitmq.randomness import Randomness, SystemRandomness
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.threads import ThreadWorkers, Workers

__all__ = ["Machine"]


class Machine:
    """What a broker runs on; the real network, disk and so on where None is given.

    ``workers`` creates a pool by its name and number of threads.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        workers: Callable[[str, int], Workers] | None = None,
        randomness: Randomness | None = None,
        pid: int = 0,
    ) -> None:
        self.network = network
        self.disk = disk or RealDisk()
        self.clock = clock or SystemClock()
        self.workers = workers or (lambda name, count: ThreadWorkers(count, name=name))
        self.randomness = randomness or SystemRandomness()
        self.pid = pid
