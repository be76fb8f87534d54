"""What a broker stands on, in one value: a simulation hands in another one."""

from collections.abc import Callable

from orbitmq.clock import Clock, SystemClock
from orbitmq.net.transport.network import Network
from orbitmq.randomness import Randomness, SystemRandomness
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.threads import ThreadWorkers, Workers

__all__ = ["Machine"]


class Machine:
    """What a broker stands on: network, disk, clock, threads and chance; the real ones, if None.

    ``workers`` makes some by their name and how many threads are needed.
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
