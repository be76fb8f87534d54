import os
from collections.abc import Iterator

import pytest

from bench.load import Target
from orbitmq import embedded
from orbitmq.embedded import RunningCluster
from orbitmq.net.address import Address


@pytest.fixture(scope="package")
def cluster() -> Iterator[RunningCluster]:
    """A broker in this process, whose CPU time is then that of the load too."""
    with embedded.start() as running:
        yield running


def target_of(cluster: RunningCluster, topic: str) -> Target:
    """Return the broker as the target of a load."""
    return Target(Address.parse(cluster.brokers[0]), os.getpid(), topic)
