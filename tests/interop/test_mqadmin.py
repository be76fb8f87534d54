"""Java's admin tool on our cluster: what operators type every day."""

import re

import pytest

from tests.interop.operations import Outgoing, Sent
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

BROKER = "broker-a"
CLUSTER = "DefaultCluster"


def send(team: Team, topic: str, *bodies: bytes, keys: str = "") -> list[Sent]:
    with team.producer() as producer:
        return producer.send(*(Outgoing(topic=topic, body=one, keys=keys) for one in bodies))


def table(printed: str) -> list[list[str]]:
    """Return the cells of what mqadmin printed below a line of headings."""
    lines = iter(printed.splitlines())
    next(line for line in lines if line.startswith("#"))
    return [line.split() for line in lines if line.strip()]


# Topics


def test_a_topic_lives_and_dies(team: Team) -> None:
    topic = f"admins-{team.java.version}".replace(".", "_")
    made = team.mqadmin("updateTopic", "-t", topic, "-c", CLUSTER, "-r", "3", "-w", "2")
    assert f"create topic to {team.brokers[0]} success" in made
    assert topic in team.mqadmin("topicList").split()
    route = team.mqadmin("topicRoute", "-t", topic)
    assert re.search(r'"readQueueNums":\s*3', route)
    assert re.search(r'"writeQueueNums":\s*2', route)
    assert team.mqadmin("topicClusterList", "-t", topic).split()[-1] == CLUSTER
    changed = team.mqadmin("updateTopicPerm", "-t", topic, "-c", CLUSTER, "-p", "4")
    assert "from 6 to 4" in changed
    deleted = team.mqadmin("deleteTopic", "-t", topic, "-c", CLUSTER)
    assert f"delete topic [{topic}] from cluster [{CLUSTER}] success" in deleted
    assert topic not in team.mqadmin("topicList").split()


def test_the_queues_of_a_topic_are_shown(team: Team) -> None:
    topic = team.topic("status", queues=2)
    send(team, topic, b"1", b"2", b"3")
    rows = [row[:4] for row in table(team.mqadmin("topicStatus", "-t", topic)) if row[0] == BROKER]
    assert [row[1:3] for row in rows] == [["0", "0"], ["1", "0"]]
    assert sum(int(row[3]) for row in rows) == 3


# Messages


def test_a_message_is_found_by_what_is_known_of_it(team: Team) -> None:
    topic = team.topic("looked-for")
    (sent,) = send(team, topic, b"needle", keys="pin")
    send(team, topic, b"hay", b"hay", keys="straw")
    by_key = table(team.mqadmin("queryMsgByKey", "-t", topic, "-k", "pin"))
    assert [row[:3] for row in by_key] == [[sent.message_id, str(sent.queue_id), "0"]]
    is_new = team.java.version.startswith("5")
    found = [
        team.mqadmin("queryMsgById", "-i", sent.offset_id, *(["-t", topic] if is_new else [])),
        team.mqadmin("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id),
        team.mqadmin(
            *("queryMsgByOffset", "-t", topic, "-b", BROKER),
            *("-i", str(sent.queue_id), "-o", str(sent.queue_offset)),
        ),
    ]
    for printed in found:
        assert re.search(rf"Topic: +{topic}\n", printed)
        assert re.search(r"Keys: +\[pin\]", printed)
        assert f"UNIQ_KEY={sent.message_id}" in printed


def test_the_messages_of_a_topic_are_printed(team: Team) -> None:
    topic = team.topic("printed", queues=1)
    sent = send(team, topic, b"a", b"b")
    printed = team.mqadmin("printMsg", "-t", topic)
    assert re.findall(r"MSGID: (\w+)", printed) == [one.message_id for one in sent]


# Groups


def test_a_group_and_its_members_are_shown(team: Team) -> None:
    topic = team.topic("shown")
    group = group_of(topic)
    with team.consumer(topic) as consumer, team.producer(group=f"{group}-senders") as producer:
        (sent,) = producer.send_bodies(topic, b"shown")
        consumer.wait_for(1)
        connection = team.mqadmin("consumerConnection", "-g", group)
        assert consumer.client_id in connection
        assert "CONSUME_PASSIVELY" in connection
        senders = ("producerConnection", "-g", f"{group}-senders", "-t", topic)
        # A producer tells brokers of itself a second after its start.
        until(lambda: "JAVA" in team.mqadmin(*senders), what="the broker knows the producer")
        status = team.mqadmin("consumerStatus", "-g", group, "-i", consumer.client_id)
        assert "ProcessQueueInfo [commitOffset=" in status
        again = team.mqadmin(
            *("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id),
            *("-g", group, "-d", consumer.client_id),
        )
        assert "CR_SUCCESS" in again  # the consumer was handed the message by the broker
        assert consumer.bodies() == [b"shown", b"shown"]


def test_how_far_a_group_is_behind_is_shown(team: Team) -> None:
    topic = team.topic("behind", queues=1)
    group = group_of(topic)
    send(team, topic, b"1", b"2", b"3")
    with team.consumer(topic) as consumer:
        consumer.wait_for(3)
    send(team, topic, b"4", b"5")
    printed = team.mqadmin("consumerProgress", "-g", group)
    (row,) = [row for row in table(printed) if row[0] == topic]
    assert row[1:6] == [BROKER, "0", "5", "3", "2"]
    assert "Diff Total: 2" in printed
    (row,) = table(team.mqadmin("statsAll", "-t", topic))
    assert row[:3] == [topic, group, "2"]


def test_a_group_is_made_shown_and_deleted(team: Team) -> None:
    group = f"admins-{team.java.version}".replace(".", "_")
    made = team.mqadmin("updateSubGroup", "-c", CLUSTER, "-g", group, "-r", "7")
    assert f"create subscription group to {team.brokers[0]} success" in made
    assert re.search(r"retryMaxTimes += +7", team.mqadmin("getConsumerConfig", "-g", group))
    deleted = team.mqadmin("deleteSubGroup", "-c", CLUSTER, "-g", group)
    assert f"delete subscription group [{group}] from broker [{team.brokers[0]}]" in deleted


# Brokers


def test_the_cluster_and_its_broker_are_shown(team: Team) -> None:
    (row,) = table(team.mqadmin("clusterList"))
    assert row[:5] == [CLUSTER, BROKER, "0", team.brokers[0], "V5_4_0"]
    status = team.mqadmin("brokerStatus", "-b", team.brokers[0])
    assert "putMessageDistributeTime" in status
    assert re.search(r"brokerVersionDesc +: V5_4_0", status)


def test_settings_are_changed_while_the_broker_runs(team: Team) -> None:
    def in_force() -> str:
        printed = team.mqadmin("getBrokerConfig", "-b", team.brokers[0])
        (value,) = re.findall(r"^defaultTopicQueueNums += +(\d+)$", printed, re.MULTILINE)
        return str(value)

    before = in_force()
    for value in ("5", before):
        update = ("updateBrokerConfig", "-b", team.brokers[0], "-k", "defaultTopicQueueNums")
        assert "success" in team.mqadmin(*update, "-v", value)
        assert in_force() == value


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic"])
def test_what_nobody_needs_is_cleaned(team: Team, command: str) -> None:
    assert "success" in team.mqadmin(command, "-b", team.brokers[0])


def test_a_harmless_key_is_accepted_and_a_refused_one_has_the_reason(team: Team) -> None:
    update = ("updateBrokerConfig", "-b", team.brokers[0])
    assert "success" in team.mqadmin(*update, "-k", "sendMessageThreadPoolNums", "-v", "8")
    refused = team.mqadmin(*update, "-k", "aclEnable", "-v", "true")
    assert "there is no access control yet" in refused


def test_paths_are_not_set_from_the_network(team: Team) -> None:
    update = ("updateBrokerConfig", "-b", team.brokers[0], "-k", "storePathRootDir")
    assert "storePathRootDir" in team.mqadmin(*update, "-v", "/elsewhere").partition("Exception")[2]


# Offsets


def test_groups_go_back_in_time(team: Team) -> None:
    """One is connected, one is away, and one is told by the broker as in 4.9.

    Java's consumer waits ten seconds before it goes on elsewhere, so all three go at once.
    """
    connected, away, told = (team.topic(f"back-{which}", queues=1) for which in "abc")
    for topic in (connected, away, told):
        send(team, topic, b"0", b"1", b"2")
    for topic in (away, told):
        with team.consumer(topic) as consumer:
            consumer.wait_for(3)
    with team.consumer(connected) as first, team.consumer(told) as second:
        (middle,) = [one for one in first.wait_for(3) if one.queue_offset == 1]
        reset(team, connected, middle.stored_ms)
        reset(team, away, 0)
        set_server_side_reset(team, "false")
        reset(team, told, 0)
        set_server_side_reset(team, "true")
        with team.consumer(away) as third:
            assert {one.queue_offset for one in first.wait_for(5)[3:]} >= {1, 2}
            assert {one.queue_offset for one in second.wait_for(3)} == {0, 1, 2}
            assert {one.queue_offset for one in third.wait_for(3)} == {0, 1, 2}


def reset(team: Team, topic: str, timestamp_ms: int) -> None:
    asked = ("resetOffsetByTime", "-g", group_of(topic), "-t", topic, "-s", str(timestamp_ms))
    (row,) = table(team.mqadmin(*asked))
    assert row[:2] == [BROKER, "0"]
    assert row[2] in ("0", "1")  # the first two may have been stored in the same millisecond


def set_server_side_reset(team: Team, value: str) -> None:
    update = ("updateBrokerConfig", "-b", team.brokers[0], "-k", "useServerSideResetOffset")
    assert "success" in team.mqadmin(*update, "-v", value)
