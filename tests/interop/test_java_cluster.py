"""The cluster that tests are given: ready when it comes, with topics for each."""

from tests.interop.java_cluster import JavaCluster


def test_a_cluster_is_ready_when_it_is_given_out(java_cluster_540: JavaCluster) -> None:
    broker = java_cluster_540.broker
    assert java_cluster_540.nameserver.brokers() == {broker.name: {0: str(broker.address)}}
    assert java_cluster_540.nameserver.has_route("TBW102")  # from which topics are made on demand


def test_each_test_has_topics_of_its_own(java_cluster_540: JavaCluster) -> None:
    first, second = (java_cluster_540.create_topic("same") for _ in range(2))
    assert first != second
    assert java_cluster_540.nameserver.has_route(first)
