"""What tests of the Spark room stand on."""

from collections.abc import Iterator

import pytest

from orbitmq import embedded


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[embedded.RunningCluster]:
    """A nameserver and two brokers of ours, shared by a module: each test has its own topics."""
    with embedded.start(brokers=2) as running:
        yield running
