import os
from collections.abc import Iterator

import pytest

from orbitmq import blocking, embedded
from orbitmq.errors import GroupNotFound, InvalidOption, NameserversFailed, NoRoute
from orbitmq.message.model import Message, MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.cluster import Cluster, cluster_for
from orbitmq.spark.offsets import Range
from orbitmq.spark.options.options import Access, Topics
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import DeleteTopic
from orbitmq.wire.headers.route import DeleteTopicFromNamesrv
from orbitmq.wire.json.properties_text import properties_to_text
from tests.spark.topics import create, fill

NOBODY = "127.0.0.1:1"


@pytest.fixture
def cluster(shared_cluster: embedded.RunningCluster) -> Iterator[Cluster]:
    with Cluster(Access(nameserver=shared_cluster.nameserver)) as found:
        yield found


def queue(topic: str, number: int, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue(topic, broker, number)


# Topics and queues


def test_the_queues_of_topics_are_those_of_all_brokers(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    a, b = create(shared_cluster, "ct-a"), create(shared_cluster, "ct-b", queues=1)
    assert {a, b} <= set(cluster.topics())
    assert cluster.queues(a) == tuple(
        queue(a, number, broker) for broker in ("broker-a", "broker-b") for number in range(2)
    )
    both = cluster.resolve(Topics(names=(b, a)))
    assert both == cluster.queues(a) + cluster.queues(b)
    assert cluster.resolve(Topics(pattern="ct-[ab]")) == both
    assigned = (queue(a, 1), queue(b, 0, "broker-b"))
    assert cluster.resolve(Topics(assigned=assigned)) == assigned


def test_a_pattern_matches_whole_names_and_no_topic_of_the_brokers(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    create(shared_cluster, "cp-a", queues=1)
    create(shared_cluster, "%RETRY%cp", queues=1)
    assert {one.topic for one in cluster.resolve(Topics(pattern="cp-"))} == set()
    everything = {one.topic for one in cluster.resolve(Topics(pattern=".*"))}
    assert "cp-a" in everything
    assert everything.isdisjoint({"broker-a", "DefaultCluster", "TBW102", "%RETRY%cp"})
    retries = {one.topic for one in cluster.resolve(Topics(pattern="%RETRY%.*"))}
    assert retries == {"%RETRY%cp"}


def test_a_missing_topic_suggests_the_nearest(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    create(shared_cluster, "invoices")
    with pytest.raises(NoRoute, match="topic invoice is missing; did you mean invoices?") as caught:
        cluster.queues("invoice")
    assert caught.value.is_missing
    assert list(caught.value.answers) == [shared_cluster.nameserver]


def test_missing_queues_can_not_be_assigned(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "ca", queues=1)
    with pytest.raises(InvalidOption, match="queue broker-a:7 .* there are broker-a:0, broker-b:0"):
        cluster.resolve(Topics(assigned=(queue(topic, 7),)))


def test_nameservers_that_do_not_answer_are_named() -> None:
    with Cluster(Access(nameserver=f"{NOBODY};127.0.0.1:2")) as cluster:
        for ask in (cluster.topics, lambda: cluster.queues("orders")):
            with pytest.raises(NameserversFailed, match="no nameserver answers") as caught:
                ask()
            assert set(caught.value.answers) == {NOBODY, "127.0.0.1:2"}


def test_one_nameserver_that_answers_is_enough(shared_cluster: embedded.RunningCluster) -> None:
    topic = create(shared_cluster, "cn", queues=1)
    with Cluster(Access(nameserver=f"{NOBODY};{shared_cluster.nameserver}")) as cluster:
        assert len(cluster.queues(topic)) == 2
        assert topic in cluster.topics()


def test_names_are_inside_the_namespace(shared_cluster: embedded.RunningCluster) -> None:
    create(shared_cluster, "eu%names", queues=1)
    fill(shared_cluster, queue("eu%names", 0), [b"x"])
    with Cluster(Access(nameserver=shared_cluster.nameserver, namespace="eu")) as cluster:
        assert cluster.topics() == ["names"]
        assert cluster.resolve(Topics(pattern="n.*")) == cluster.queues("names")
        assert cluster.bounds([queue("names", 0)]) == {queue("names", 0): Range(0, 1)}


# Offsets


def test_bounds_are_those_of_the_queues(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cb")
    fill(shared_cluster, queue(topic, 1), [b"a", b"b"])
    fill(shared_cluster, queue(topic, 0, "broker-b"), [b"c"])
    found = cluster.bounds(cluster.queues(topic))
    assert {one: has for one, has in found.items() if has.max} == {
        queue(topic, 1): Range(0, 2),
        queue(topic, 0, "broker-b"): Range(0, 1),
    }
    assert len(found) == 4


def test_a_time_means_the_first_message_stored_at_or_after_it(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cm", queues=1)
    with blocking.Producer("g", nameserver=shared_cluster.nameserver) as producer:
        producer.send(Message(topic, b"x"), queue=queue(topic, 0))
    both = cluster.queues(topic)
    assert cluster.offsets_at(both, 0) == dict.fromkeys(both, 0)
    later = cluster.offsets_at(both, 2**62)
    assert later == {queue(topic, 0): 1, queue(topic, 0, "broker-b"): 0}


def test_committed_offsets_are_returned(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cc", queues=1)
    one, other = cluster.queues(topic)
    assert cluster.committed("TOOLS_CONSUMER", [one]) == {one: None}
    cluster.commit("TOOLS_CONSUMER", {one: 5, other: 7})
    assert cluster.committed("TOOLS_CONSUMER", [one, other]) == {one: 5, other: 7}


def test_a_group_is_registered_with_the_brokers_that_get_its_offsets(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cg", queues=1)
    one, other = cluster.queues(topic)
    cluster.commit("never-pulled", {one: 5, other: 7})
    assert cluster.committed("never-pulled", [one, other]) == {one: 5, other: 7}
    retries = cluster.resolve(Topics(pattern="%RETRY%never-pulled"))
    assert {queue.broker_name for queue in retries} == {"broker-a", "broker-b"}


def test_a_broker_that_refuses_does_not_keep_offsets_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with embedded.start(brokers=2) as running:
        topic = create(running, "cf", queues=1)
        refuses_groups(running.brokers[0])
        with Cluster(Access(nameserver=running.nameserver)) as cluster:
            one, other = cluster.queues(topic)
            for progress in (7, 8):
                with pytest.raises(GroupNotFound):
                    cluster.commit("strangers", {one: 5, other: progress})
                assert cluster.committed("strangers", [other]) == {other: progress}
    told = [line for line in caplog.messages if "refuses the offsets of group strangers" in line]
    assert len(told) == 1
    assert told[0].startswith("broker broker-a ")


def refuses_groups(broker: str) -> None:
    """Set a broker so that it makes no groups."""
    change = properties_to_text({"autoCreateSubscriptionGroup": "false"})
    with BlockingConnection(Address.parse(broker)) as connection:
        answer = connection.request(NoFields(), change, code=RequestCode.UPDATE_BROKER_CONFIG)
    assert answer.code == ResponseCode.SUCCESS


def test_a_deleted_topic_is_named_and_does_not_block_others(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    kept, gone = create(shared_cluster, "ck", queues=1), create(shared_cluster, "cx", queues=1)
    queues = cluster.resolve(Topics(names=(kept, gone)))
    delete(shared_cluster, gone)
    for one in queues:
        cluster.forget(one)
    with pytest.raises(NoRoute, match=f"topic {gone} is missing") as caught:
        cluster.bounds(queues)
    assert (caught.value.is_missing, caught.value.topic) == (True, gone)
    left = [one for one in queues if one.topic == kept]
    assert cluster.bounds(left) == dict.fromkeys(left, Range(0, 0))
    cluster.commit("TOOLS_CONSUMER", dict.fromkeys(queues, 3))
    assert cluster.committed("TOOLS_CONSUMER", left) == dict.fromkeys(left, 3)


def delete(running: embedded.RunningCluster, topic: str) -> None:
    """Delete a topic as mqadmin does: from the brokers, then from the nameserver."""
    for broker in running.brokers:
        with BlockingConnection(Address.parse(broker)) as connection:
            connection.request(DeleteTopic(topic=topic))
    with BlockingConnection(Address.parse(running.nameserver)) as connection:
        connection.request(DeleteTopicFromNamesrv(topic=topic))


def test_no_queues_send_no_request(cluster: Cluster) -> None:
    assert cluster.bounds([]) == {}
    assert cluster.offsets_of_key([], "k") == {}


def test_a_thousand_queues_are_asked_about_at_once(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cq", queues=500)
    assert len(cluster.bounds(cluster.queues(topic))) == 1000


# Connections


def test_connections_stay_open_and_are_reopened_when_forgotten(
    shared_cluster: embedded.RunningCluster, cluster: Cluster
) -> None:
    topic = create(shared_cluster, "cr", queues=1)
    first = cluster.connection(queue(topic, 0)).connection
    assert cluster.connection(queue(topic, 0)) == (first, 0)
    assert cluster.connection(queue(topic, 0), broker_id=3) == (first, 0)  # there is no such one
    cluster.forget(queue(topic, 0))
    assert not first.is_open
    assert cluster.connection(queue(topic, 0)).connection is not first
    with pytest.raises(NoRoute, match="broker broker-x is not in the route of topic cr"):
        cluster.connection(queue(topic, 0, "broker-x"))


def test_after_a_close_it_connects_again(cluster: Cluster) -> None:
    cluster.topics()
    cluster.close()
    assert "to none" in repr(cluster)
    assert cluster.topics()


# One for a process


def test_a_process_has_one_cluster_for_an_access(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(nameserver="127.0.0.1:7001")
    mine = cluster_for(access)
    assert cluster_for(Access(nameserver="127.0.0.1:7001")) is mine
    assert cluster_for(Access(nameserver="127.0.0.1:7002")) is not mine
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert cluster_for(access) is not mine


def test_a_process_keeps_few_clusters() -> None:
    first = cluster_for(Access(nameserver="127.0.0.1:7100"))
    for number in range(20):
        cluster_for(Access(nameserver=f"127.0.0.1:{7101 + number}"))
    assert cluster_for(Access(nameserver="127.0.0.1:7100")) is not first
