"""What a client needs from its machine, as arguments: network, clock, threads, randomness."""

import os
from collections.abc import Callable

from orbitmq.clock import Clock, SystemClock
from orbitmq.net.transport.network import Network
from orbitmq.net.transport.own_host import own_host
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.randomness import Randomness, SystemRandomness
from orbitmq.settings import environment
from orbitmq.threads import ThreadWorkers, Workers

__all__ = ["Machine"]

_WORKERS = 2


class Machine:
    """The machine that a client runs on; the real one by default.

    ``workers`` creates threads of a given name for work that would block the loop; ``environment``
    returns a variable, empty if it is not set; ``host`` is this machine's address as others see it.
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
    ) -> None:
        self.network = network or TcpNetwork()
        self.clock = clock or SystemClock()
        self.workers = workers or (lambda name: ThreadWorkers(_WORKERS, name=name))
        self.randomness = randomness or SystemRandomness()
        self.environment = environment
        self.host = host or own_host()
        self.pid = os.getpid() if pid is None else pid

    def __repr__(self) -> str:
        return f"<Machine {self.host} pid={self.pid}>"
