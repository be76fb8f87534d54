"""Topics from a shell, on a real cluster."""

import json

import pytest

from orbitmq.cli.commands.topic import route_lines
from orbitmq.cli.main import main
from orbitmq.embedded import start
from orbitmq.wire.bodies.route import BrokerData, QueueData, TopicRouteData

pytestmark = pytest.mark.usefixtures("nameserver")

TWO_BROKERS = """\
BROKER            CLUSTER           ID  ADDRESS                READ  WRITE  PERM
broker-a          DefaultCluster    0   10.0.0.7:10911            8      4    rw
                                    1   10.0.0.8:10911
the-bill…roker-b  cluster-…f-paris  0   broker-b.e…rnal:10911     0      0     -
z                 DefaultCluster    0   10.0.0.9:10911            -      -     -
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_a_topic_is_created_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    created = printed(capsys, "topic", "create", "made-here", "--queues", "2", "--perm", "r")
    assert created == "made-here has 2 queues on broker-a\n"
    assert "made-here\n" in printed(capsys, "topic", "list")
    head, row = printed(capsys, "topic", "route", "made-here").splitlines()
    assert head.split() == ["BROKER", "CLUSTER", "ID", "ADDRESS", "READ", "WRITE", "PERM"]
    assert row.split()[:3] + row.split()[4:] == ["broker-a", "DefaultCluster", "0", "2", "2", "r"]


def test_it_is_created_on_the_named_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("topic", "create", "named", "--on", "broker-a", "--queues", "1", "--json")
    created = json.loads(printed(capsys, *arguments))
    assert created == {"topic": "named", "queues": 1, "brokers": ["broker-a"]}


def test_order_and_attributes_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--ordered", "--attribute", "message.type=FIFO")
    assert "4 queues" in printed(capsys, "topic", "create", "in-order", *options)


def test_only_users_topics_are_listed_unless_all_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = {"TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"}
    printed(capsys, "topic", "create", "mine_REPLY_TOPIC")
    listed = printed(capsys, "topic", "list").splitlines()
    assert not own & {*listed}
    assert "mine_REPLY_TOPIC" in listed
    assert own <= {*printed(capsys, "topic", "list", "--all").splitlines()}
    assert own <= {*json.loads(printed(capsys, "topic", "list", "--all", "--json"))}


def test_a_route_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    route = json.loads(printed(capsys, "topic", "route", "TBW102", "--json"))
    assert [one["broker_name"] for one in route["brokers"]] == ["broker-a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["route", "no-such-topic"], "topic no-such-topic is missing"),
        (["create", "TBW102"], "a system topic of RocketMQ"),
        (["create", "x", "--queues", "0"], "--queues is 0; it must be from 1 to 1024"),
        (["create", "x", "--attribute", "FIFO"], "--attribute 'FIFO' is not KEY=VALUE"),
        (["create", "x", "--on", "nowhere"], "no cluster, broker or topic is named nowhere"),
        (
            ["list", "--nameserver", "127.0.0.1:1"],
            "no nameserver answers: no connection to 127.0.0.1:1",
        ),
    ],
)
def test_errors_take_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert output.err.count("\n") == 1


def test_no_broker_creates_topics_automatically(capsys: pytest.CaptureFixture[str]) -> None:
    with start(settings={"autoCreateTopicEnable": "false"}) as strict:
        create = ("topic", "create", "orders", "--nameserver", strict.nameserver)
        assert main(create) == 2
        assert "--on with the name of a cluster or a broker" in capsys.readouterr().err
        created = printed(capsys, *create, "--on", "DefaultCluster")
        assert created == "orders has 4 queues on broker-a\n"


def test_a_route_fits_a_terminal() -> None:
    def broker(name: str, cluster: str, *addresses: str) -> BrokerData:
        return BrokerData(
            broker_name=name, cluster=cluster, broker_addrs=dict(enumerate(addresses))
        )

    paris = "the-billing-broker-b"
    route = TopicRouteData(
        broker_datas=(
            broker("z", "DefaultCluster", "10.0.0.9:10911"),
            broker(paris, "cluster-north-of-paris", "broker-b.example.internal:10911"),
            broker("broker-a", "DefaultCluster", "10.0.0.7:10911", "10.0.0.8:10911"),
        ),
        queue_datas=(
            QueueData(broker_name="broker-a", perm=6, read_queue_nums=8, write_queue_nums=4),
            QueueData(broker_name=paris),
        ),
    )
    assert "".join(f"{line}\n" for line in route_lines(route)) == TWO_BROKERS
    assert max(map(len, route_lines(route))) <= 80
