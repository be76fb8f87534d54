"""Reading back from Java's broker: ``orbitmq consume``."""

import json

import pytest

from orbitmq.cli.main import main
from tests.interop.java_cluster import JavaCluster


def test_messages_are_printed_from_anywhere(
    java_cluster_540: JavaCluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    cluster = ["--nameserver", str(java_cluster_540.nameserver.address)]
    assert main(["topic", "create", "to-read-back", "--queues", "1", *cluster]) == 0
    for number in range(5):
        options = ["--tags", "even" if number % 2 == 0 else "odd", "--keys", f"k-{number}"]
        assert main(["send", "to-read-back", f"body {number}", *options, *cluster]) == 0
    capfdbinary.readouterr()

    def consumed(*arguments: str) -> bytes:
        assert main(["consume", "to-read-back", *arguments, *cluster]) == 0
        return capfdbinary.readouterr().out

    caught_up = ["--from", "beginning", "--until-caught-up"]
    assert consumed(*caught_up, "--format", "%o") == b"01234"
    assert consumed("--from", "1h", "--count", "2") == b"body 0\nbody 1\n"
    assert consumed("--from", "3", "--until-caught-up", "--format", "raw") == b"body 3body 4"
    assert consumed(*caught_up, "--tags", "odd", "--format", "%o") == b"13"
    assert json.loads(consumed(*caught_up, "--key", "k-2", "--json"))["body"] == "body 2"
