"""mqadmin prints the same of our cluster as of Java's, on the same data."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from orbitmq import embedded
from tests.architecture.sources import ROOT
from tests.interop import counterparts
from tests.interop.clients import Consumer
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import SMALL_STORE, JavaCluster
from tests.interop.java_server import free_port
from tests.interop.mqadmin_script import (
    BROKER,
    CHANGES,
    CLUSTER,
    ENDINGS,
    QUESTIONS,
    Step,
    masked,
    with_javas_remarks,
)
from tests.interop.operations import MQADMIN, Outgoing
from tests.interop.team import Team
from tests.interop.waiting import until

SCRIPT = (*CHANGES, *QUESTIONS, *ENDINGS)
ENOUGH = 40
"""Commands whose output is the same."""
OF_THE_CLUSTER = {
    *("bindAddress", "kvConfigPath", "listenPort", "namesrvAddr", "storePathRootDir"),
    *("storePathCommitLog", "brokerIP1", "haListenPort"),
}
OTHER_DEFAULTS = {"inSyncReplicas", "allAckInSyncStateSet", "controllerHeartBeatTimeoutMills"}
"""With Java's, a SYNC_MASTER waits for nobody, or not for the next one."""
COMMON_SETTINGS = {"getBrokerConfig -b {broker}": 60, "getNamesrvConfig": 10}
TOPICS = [
    {"topicName": "listed-a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
    {"topicName": "listed-b", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4},
]
GROUPS = [{"groupName": "listed-g", "retryMaxTimes": 3}]


class Stage:
    """A cluster on which the script is run."""

    def __init__(self, team: Team, home: Path, store: str) -> None:
        self.team = team
        self.printed: list[str] = []
        """What each step printed, masked."""
        self._home = home
        self._store = Path(store)
        self._homes = {store: "STORE", str(home): "HOME"}
        home.mkdir()
        (home / "topics.json").write_text(json.dumps(TOPICS))
        (home / "groups.json").write_text(json.dumps(GROUPS))

    def play(self) -> None:
        """Run the script on messages that were sent, and on consumers and producers that live."""
        team = self.team
        self._run(CHANGES, {})
        with team.producer() as producer:
            sent = [
                producer.send(order(number), way="queue", broker=BROKER, queue_id=number % 4)[0]
                for number in range(8)
            ]
            with team.consumer("orders", group="readers") as consumer:
                consumer.wait_for(len(sent))
            producer.send(order(8), way="queue", broker=BROKER, queue_id=0)
            with team.consumer("bills", group="watchers") as watcher:
                self._wait_until_known(watcher)
                values = {
                    "ID": sent[1].message_id,
                    "OFFSET_ID": sent[1].offset_id,
                    "WATCHER": watcher.client_id,
                }
                self._run(QUESTIONS, values)
            self._run(ENDINGS, values)

    def _wait_until_known(self, watcher: Consumer) -> None:
        """Wait for the heartbeats, and for the watcher to have the queues of its group."""
        mqadmin = self.team.mqadmin
        until(
            lambda: watcher.client_id in mqadmin("consumerConnection", "-g", "watchers"),
            what="the broker knows the consumer",
        )
        status = ("consumerStatus", "-g", "watchers", "-i", watcher.client_id)
        until(
            lambda: (
                re.search(rf"^bills +{BROKER} ", mqadmin(*status), re.MULTILINE) is not None
                and re.search(rf"^%RETRY%watchers +{BROKER} ", mqadmin(*status), re.MULTILINE)
                is not None
            ),
            what="the consumer has its queues",
        )
        until(
            lambda: "JAVA" in mqadmin("producerConnection", "-g", "senders", "-t", "orders"),
            what="the broker knows the producer",
        )

    def _run(self, steps: Iterable[Step], values: Mapping[str, str]) -> None:
        names = {"broker": self.team.brokers[0], "home": str(self._home), **values}
        for step in steps:
            printed = self.team.mqadmin(*step.line.format(**names).split())
            printed += "".join((self._home / name).read_text() for name in step.files)
            if step.table:
                saved = json.loads((self._store / "config" / step.table).read_text())
                printed += json.dumps(saved, sort_keys=True)
            self.printed.append(masked(printed, step, self._homes))


def order(number: int) -> Outgoing:
    """Return a message."""
    return Outgoing(
        topic="orders",
        body=b"order %d" % number,
        tags="TagA" if number % 2 else "TagB",
        keys=f"order-{number}",
        properties={"colour": "red"},
    )


# What an embedded cluster sets, unlike Java's defaults. Without timers Java's broker fails to
# delete a topic.
AS_EMBEDDED: dict[str, str | int] = {
    "timerWheelEnable": "true",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "mappedFileSizeTimerLog": 1024 * 1024,
    "mapperFileSizeBatchConsumeQueue": 460_000,
}


@pytest.fixture(scope="module")
def printed(java_540: Java, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Run the script on both clusters; return what each step printed on Java's and on ours."""
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    place = tmp_path_factory.mktemp("mqadmin")
    names = {"brokerClusterName": CLUSTER, "brokerName": BROKER, **AS_EMBEDDED}
    with contextlib.ExitStack() as running:
        javas = running.enter_context(JavaCluster("5.4.0", place / "java", broker_settings=names))
        ours = running.enter_context(our_cluster(place / "ours"))
        stages = (
            Stage(
                Team(java_540, str(javas.nameserver.address), [str(javas.broker.address)]),
                place / "home-java",
                str(place / "java" / "broker" / "store"),
            ),
            Stage(
                Team(java_540, ours.nameserver, ours.brokers),
                place / "home-ours",
                ours.directories[0],
            ),
        )
        for stage in stages:
            stage.play()
    return list(zip(stages[0].printed, stages[1].printed, strict=True))


@contextlib.contextmanager
def our_cluster(directory: Path) -> Iterator[embedded.RunningCluster]:
    settings = {
        "listenPort": str(free_port(below=2, above=1)),
        **{key: str(value) for key, value in SMALL_STORE.items() if key != "timerWheelEnable"},
    }
    with embedded.start(str(directory), settings=settings) as running:
        yield running


@pytest.mark.parametrize(
    "index", range(len(SCRIPT)), ids=[f"{at} {step.line}" for at, step in enumerate(SCRIPT)]
)
def test_the_output_is_the_same(printed: list[tuple[str, str]], index: int) -> None:
    javas, ours = printed[index]
    ours, javas = with_javas_remarks(ours, javas), with_javas_remarks(javas, javas)
    if SCRIPT[index].differs:
        assert ours != javas, "they are the same now; take the difference out of the script"
        assert SCRIPT[index].says in printed[index][1]
    else:
        assert ours == javas


@pytest.mark.parametrize("command", ["getBrokerConfig -b {broker}", "getNamesrvConfig"])
def test_settings_that_both_have_are_the_same(printed: list[tuple[str, str]], command: str) -> None:
    index = [step.line for step in SCRIPT].index(command)
    javas, ours = (
        dict(re.findall(r"^(\w+) += +(.*)$", text, re.MULTILINE)) for text in printed[index]
    )
    common = javas.keys() & ours.keys() - OF_THE_CLUSTER - OTHER_DEFAULTS
    assert len(common) >= COMMON_SETTINGS[command]
    assert {key: ours[key] for key in common} == {key: javas[key] for key in common}


def test_that_is_so_for_most_commands() -> None:
    differing = {step.command for step in SCRIPT if step.differs}
    assert len({step.command for step in SCRIPT} - differing) >= ENOUGH


def test_every_command_is_in_the_documents(java_540: Java) -> None:
    (listed,) = java_540.ask(MQADMIN, [[]])
    commands = set(re.findall(r"^ {3}(\w+) ", listed, re.MULTILINE))
    text = (ROOT / "docs" / "compatibility.md").read_text().partition("\n## mqadmin\n")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == commands
