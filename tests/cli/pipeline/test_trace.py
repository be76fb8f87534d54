"""``orbitmq pipeline trace`` reads what clients really report."""

import json
from pathlib import Path

import pytest

from orbitmq import Message, embedded
from orbitmq.blocking import Consumer, Producer
from orbitmq.cli.main import main
from orbitmq.message.model import StoredMessage
from orbitmq.threads import Event


def consume_three(nameserver: str) -> None:
    """Send three orders to a listener; producer and consumer trace."""
    done = Event()
    seen: list[bytes] = []
    consumer = Consumer(
        "billing",
        subscribe=["orders"],
        nameserver=nameserver,
        consume_from="first",
        trace=True,
    )

    @consumer.on_message
    def handle(message: StoredMessage) -> None:
        seen.append(message.body)
        if len(seen) == 3:
            done.set()

    with Producer("shop", nameserver=nameserver, trace=True) as producer:
        for number in range(3):
            producer.send(Message("orders", b"tea", keys=[f"o-{number}"]))
    with consumer:
        assert done.wait(60)


@pytest.mark.usefixtures("spark")
def test_lines_json_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "traces.html"
    with embedded.start() as cluster:
        asked = ["pipeline", "trace", "--nameserver", cluster.nameserver]
        assert main(asked) == 1
        assert capsys.readouterr().out == "There are no records.\n"
        consume_three(cluster.nameserver)
        assert main([*asked, "--report", str(report)]) == 0
        printed = capsys.readouterr().out
        assert main([*asked, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    assert all(len(line) <= 80 for line in printed.splitlines() if "Report" not in line)
    assert "Records    delivery 3, result 3, send 3" in printed
    assert found["counts"] == {"delivery": 3, "result": 3, "send": 3}
    assert (found["topics"][0]["name"], found["topics"][0]["sends"]) == ("orders", 3)
    assert found["groups"][0]["outcomes"] == {"success": 3}
    assert found["orphans"] == []
    assert found["delays"][0]["deliveries"] == 3
    assert "Traces of RMQ_SYS_TRACE_TOPIC" in report.read_text()
