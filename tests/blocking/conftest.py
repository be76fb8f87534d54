"""One cluster for the blocking clients, and a producer of it."""

from collections.abc import Iterator

import pytest

from orbitmq import blocking, embedded
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import RunningCluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[RunningCluster]:
    with embedded.start() as running:
        yield running


def settings(nameserver: str) -> ClientSettings:
    return ClientSettings(nameserver=nameserver, keep_open_ms=0)


@pytest.fixture
def sender(cluster: RunningCluster) -> Iterator[blocking.Producer]:
    with blocking.Producer("billing", client=settings(cluster.nameserver)) as running:
        yield running
