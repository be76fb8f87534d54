"""What a client needs from its machine, as arguments: network, clock, threads, randomness."""

import os
from collections.abc import Callable

from orbitmq.client.core.second_loop import SecondLoop, second_loop
from orbitmq.clock import Clock, SystemClock, local_month
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.net.transport.network import Network
from orbitmq.net.transport.own_host import own_host
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.randomness import Randomness, SystemRandomness
from orbitmq.settings import environment
from orbitmq.threads import DaemonWorkers, ThreadWorkers, Workers

__all__ = ["Machine"]

_WORKERS = 2


class Machine:
    """The machine that a client runs on; the real one by default.

    ``workers`` creates threads of a given name for work that would block the loop; ``environment``
    returns a variable, empty if it is not set; ``host`` is this machine's address as others see it;
    ``second_loop`` returns the loop that user code can't block, for the running loop.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        workers: Callable[[str], Workers] | None = None,
        randomness: Randomness | None = None,
        environment: Callable[[str], str] = environment,
        host: str | None = None,
        pid: int | None = None,
        second_loop: Callable[[], SecondLoop] = second_loop,
    ) -> None:
        self.network = network or TcpNetwork()
        self.clock = clock or SystemClock()
        self.workers = workers or (lambda name: ThreadWorkers(_WORKERS, name=name))
        self._given_workers = workers
        self.randomness = randomness or SystemRandomness()
        self.environment = environment
        self.host = host or own_host()
        self.pid = os.getpid() if pid is None else pid
        self.second_loop = second_loop

    def handler_workers(self, count: int) -> Workers:
        """Return threads for the handler of a consumer, as many as it may run at once."""
        name = "orbitmq-handler"
        given = self._given_workers
        return given(name) if given else DaemonWorkers(count, name=name)

    def __repr__(self) -> str:
        return f"<Machine {self.host} pid={self.pid}>"

    def unique_ids(self) -> UniqueIds:
        """Return a new generator of message ids."""
        return UniqueIds(
            Host.parse(f"{self.host}:0").ip,
            pid=self.pid,
            discriminator=self.randomness.below(2**32),
            clock=self.clock,
            month_of=local_month,
        )
