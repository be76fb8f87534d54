import pytest

from bench.broker import COMMIT_LOADS, LOADS, MANY, SYNC_LOADS, Load
from bench.rows import BY_NAME
from orbitmq.embedded import RunningCluster
from tests.bench.conftest import target_of


@pytest.mark.parametrize("load", [*LOADS, *SYNC_LOADS, *COMMIT_LOADS])
def test_each_load_returns_figures_of_rows(cluster: RunningCluster, load: Load) -> None:
    target = target_of(cluster, "bench")
    for _ in range(MANY):
        LOADS[0](target, 320)  # something to pull
    found = load(target, 320)
    assert set(found) <= set(BY_NAME)
    assert all(one.cost > 0 for one in found.values())
