"""A cluster for the commands that talk to one."""

from collections.abc import Iterator

import pytest

from orbitmq.embedded import start


@pytest.fixture(scope="package")
def cluster() -> Iterator[str]:
    """Run one for all tests of this package; return the address of its nameserver."""
    with start() as running:
        yield running.nameserver


@pytest.fixture
def nameserver(cluster: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have commands find the cluster by themselves; return the address of its nameserver."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster)
    return cluster
