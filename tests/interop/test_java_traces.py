"""Traces on our cluster: what producers report, and mqadmin finds by the id of a message."""

from orbitmq import blocking
from orbitmq.message.model import Message
from tests.interop.team import Team
from tests.interop.waiting import until


def traced(team: Team, message_id: str) -> list[list[str]]:
    """Return the sends that mqadmin shows for a message, when there are any."""

    def look() -> list[list[str]]:
        lines = team.mqadmin("queryMsgTraceById", "-i", message_id).splitlines()
        return [line.split() for line in lines if line.startswith("Pub ")]

    return until(look, what=f"the trace of {message_id}")


def test_sends_of_java_and_of_ours_are_traced(team: Team) -> None:
    topic = team.topic("traced")
    with team.producer(group="java-senders", trace=True) as producer:
        (sent,) = producer.send_bodies(topic, b"by Java")
        (row,) = traced(team, sent.message_id)
        assert row[1] == "java-senders"
        assert row[-1] == "success"
    with blocking.Producer("our-senders", nameserver=team.nameserver, trace=True) as ours:
        receipt = ours.send(Message(topic, b"by us", tags="t", keys=["k"]))
        (row,) = traced(team, receipt.message_id)
        assert row[1] == "our-senders"
        assert row[-1] == "success"
    assert "RMQ_SYS_TRACE_TOPIC" in team.mqadmin("topicList").split()
