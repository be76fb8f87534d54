"""What is known of the disks below a source."""

from pathlib import Path

import pytest

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.spark.jobs.profiling.storage import capacity, storage_of
from orbitmq.spark.jobs.sources import Store, Topics

HOUR_MS = 3_600_000


def test_the_disk_of_a_broker_and_of_its_store(tmp_path: Path) -> None:
    with embedded.start(str(tmp_path)) as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            producer.send(Message("orders", b"tea"))
        (name, asked), *others = storage_of(Topics(cluster.nameserver, ("orders",))).items()
        stored = storage_of(Store(str(tmp_path / "broker-a")), 5 * HOUR_MS)["store"]
    assert (name, others) == ("broker-a", [])
    assert asked.log > 0
    assert asked.retention_ms == 72 * HOUR_MS
    assert stored.retention_ms == 5 * HOUR_MS
    assert 0 < asked.used < asked.total
    assert 0 < stored.used < stored.total


def test_the_disk_below_a_namespace(tmp_path: Path) -> None:
    """The options of a source say how to reach the cluster, here too."""
    with embedded.start(str(tmp_path)) as cluster:
        with Producer("shop", nameserver=cluster.nameserver, namespace="team") as producer:
            producer.send(Message("orders", b"tea"))
        source = Topics(cluster.nameserver, ("orders",), {"namespace": "team"})
        assert set(storage_of(source)) == {"broker-a"}


@pytest.mark.parametrize(
    ("text", "size"),
    [("Total : 1.5 TiB, Free : 1 B.", 3 << 39), ("Total : 12 B, Free", 12), ("", 0), ("?", 0)],
)
def test_capacities_as_brokers_write_them(text: str, size: int) -> None:
    assert capacity(text) == size
