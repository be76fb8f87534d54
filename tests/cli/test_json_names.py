"""``--json`` has names in one style; what comes from RocketMQ keeps its own."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from tests.store.unpacked import unpacked

OURS = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
DATA = {
    "properties",  # of a message
    "figures",  # of a broker, under Java's names
    "topics_changed",  # by nameserver
    "put_latency",  # by span
    "errors",  # by class
    "disk",  # by directory
    "addresses",  # by broker id
    "attributes",
}
"""Keys whose values have keys that are data."""

COMMANDS = (
    "topic list",
    "topic route names",
    "topic show names",
    "topic stats names",
    "topic probe names --count 1",
    "topic update names --write-queues 2",
    "topic delete names-too",
    "group list",
    "group list --lag",
    "group show names-group",
    "group progress names-group",
    "group update names-group --retries 3",
    "group producers",
    "offset show names --group names-group --time 1h",
    "offset reset names-group names --to latest",
    "offset clone names-group names-copy",
    "broker list",
    "broker status broker-a",
    "broker clean queues",
    "broker stop-writes broker-a",
    "broker allow-writes broker-a",
    "cluster list",
    "cluster nodes",
    "cluster rate",
    "send names paid",
    "message query names o-42",
    "consume names --from beginning --count 1",
    "doctor --topic names --group names-group",
    "settings",
    "settings --of broker",
    "bench send names --count 5",
    "bench consume names",
    "bench broker --count 5",
)


@pytest.fixture(scope="module")
def names(cluster: str) -> str:
    """Have a topic with a message and two groups; return the nameserver."""
    at = ["--nameserver", cluster]
    for command in (
        "topic create names --queues 2",
        "topic create names-too",
        "group create names-group",
        "group create names-copy",
        "send names paid --keys o-42 -H someName=x",
    ):
        assert main([*command.split(), *at]) == 0
    return cluster


def keys(found: object) -> Iterator[str]:
    """Yield every key that is a name, of an object and of those in it."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            if key not in DATA:
                yield from keys(value)
    elif isinstance(found, list):
        for one in found:
            yield from keys(one)


def foreign(text: str) -> set[str]:
    found = json.loads(text)
    by_broker = found.pop("settings", {}) if isinstance(found, dict) else {}
    settings = list(by_broker.values()) if isinstance(by_broker, dict) else by_broker
    return {key for key in keys([found, settings]) if not OURS.fullmatch(key)}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_are_as_in_python(
    command: str, names: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", names)
    assert main([*shlex.split(command), "--json"]) in (0, 1)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert foreign(printed.out) == set()


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_those_of_a_store(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", command, unpacked("normal", tmp_path), "--json"]) == 0
    assert foreign(capsys.readouterr().out) == set()
