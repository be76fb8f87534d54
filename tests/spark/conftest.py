"""Fixtures of the Spark tests."""

from collections.abc import Iterator

import pytest

from orbitmq import embedded


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[embedded.RunningCluster]:
    """Our nameserver and two brokers, shared by a module; each test uses separate topics."""
    with embedded.start(brokers=2) as running:
        yield running
