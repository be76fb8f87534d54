import pytest

from bench.client import loads_of
from bench.senders import send_ours
from orbitmq.embedded import RunningCluster


@pytest.mark.parametrize("row", loads_of(64))
def test_our_client_sends_each_load(cluster: RunningCluster, row: str) -> None:
    spent = send_ours(cluster.nameserver, loads_of(64)[row])
    assert spent.cpu_us > 0
    assert spent.per_second > 0
