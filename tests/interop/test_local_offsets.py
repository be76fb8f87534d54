"""The offset file of a broadcasting consumer, shared by Java's and ours in turn."""

from pathlib import Path

from orbitmq import blocking
from orbitmq.wire.bodies.offsets import LocalOffsetTable
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

INSTANCE = "till-7"


def test_each_goes_on_where_the_other_ended(team: Team) -> None:
    """Java writes the file, ours reads and writes it, Java reads it again."""
    topic = team.topic("broadcast", queues=2)
    with team.producer() as producer:
        producer.send_bodies(topic, b"0", b"1", b"2")
        assert sorted(by_java(team, topic, 3)) == [b"0", b"1", b"2"]
        producer.send_bodies(topic, b"3", b"4")
        assert sorted(by_ours(team, topic, 2)) == [b"3", b"4"]
        producer.send_bodies(topic, b"5", b"6")
        assert sorted(by_java(team, topic, 2)) == [b"5", b"6"]
    (file,) = directory(team).glob(f"*@{INSTANCE}/{group_of(topic)}/offsets.json")
    assert sum(LocalOffsetTable.from_json(file.read_bytes()).offset_table.values()) == 7


def directory(team: Team) -> Path:
    """Return where consumers of a Java host keep offsets: in its home."""
    return team.java.home / ".rocketmq_offsets"


def by_java(team: Team, topic: str, count: int) -> list[bytes]:
    with team.consumer(topic, broadcasting=True, instance_name=INSTANCE) as consumer:
        return [one.body for one in consumer.wait_for(count)]


def by_ours(team: Team, topic: str, count: int) -> list[bytes]:
    seen: list[bytes] = []
    consumer = blocking.Consumer(
        group_of(topic),
        nameserver=team.nameserver,
        subscribe={topic: "*"},
        broadcasting=True,
        consume_from="first",
        instance_name=INSTANCE,
        local_offset_directory=str(directory(team)),
    )
    consumer.on_message(lambda message: seen.append(message.body))
    with consumer:
        until(lambda: len(seen) >= count, what=f"{count} messages")
    return seen
