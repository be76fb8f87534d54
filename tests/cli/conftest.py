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
    """Set NAMESRV_ADDR for the commands; return the address of the nameserver."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster)
    return cluster
