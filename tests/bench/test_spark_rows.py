from bench.spark_rows import PICKED, built, costs, fill, pulled
from orbitmq import embedded
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access


def test_every_message_is_pulled_and_built() -> None:
    with embedded.start() as running:
        fill(running.nameserver, 1_500)
        with Cluster(Access(nameserver=running.nameserver)) as cluster:
            assert pulled(cluster) == 1_500
            assert [built(cluster, columns) for columns in PICKED.values()] == [1_500] * len(PICKED)
        found, _ = costs(running.nameserver, 1)
        assert set(found) == {"pulled alone", *PICKED}
