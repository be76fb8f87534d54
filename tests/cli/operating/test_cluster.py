"""All nodes of a cluster from a shell."""

import pytest

from orbitmq.cli.operating.cluster import Node, node_lines, rate_lines
from tests.cli.operating.conftest import Shop

NODES = """\
NODE        ROLE        ADDRESS         VERSION     IN/S  OUT/S  DISK
-           nameserver  10.0.0.1:9876   -              -      -     -
broker-a/0  master      10.0.0.7:10911  5.4.0    1,200.5    3.0   71%
broker-a/1  slave       10.0.0.8:10911  -              -      -     -

10.0.0.8:10911 does not answer: no connection
"""
RATE = """\
BROKER      STORED/S  DELIVERED/S  STORED TODAY  DELIVERED TODAY
broker-a/0   1,200.5          3.0        90,000                7
broker-a/1       0.0          0.0             0                0
2 brokers    1,200.5          3.0        90,000                7
10.0.0.8:10911 does not answer: no connection
"""
MASTER = Node(
    role="master",
    address="10.0.0.7:10911",
    name="broker-a",
    number=0,
    version="V5_4_0",
    put_tps=1200.5,
    get_tps=3,
    put_today=90_000,
    got_today=7,
    disk_used=0.71,
)
SLAVE = Node(
    role="slave", address="10.0.0.8:10911", name="broker-a", number=1, problem="no connection"
)


def test_a_node_that_does_not_answer_is_named() -> None:
    nodes = [Node(role="nameserver", address="10.0.0.1:9876"), MASTER, SLAVE]
    assert "".join(f"{line}\n" for line in node_lines(nodes)) == NODES
    assert "".join(f"{line}\n" for line in rate_lines(nodes[1:])) == RATE


def test_clusters_are_listed(shop: Shop) -> None:
    assert shop.printed("cluster list").splitlines()[1].split() == ["DefaultCluster", "broker-a"]
    (found,) = shop.json("cluster list")
    assert found["brokers"][0]["address"] == shop.broker


def test_nodes_are_shown(shop: Shop) -> None:
    _, nameserver, broker = shop.printed("cluster nodes").splitlines()
    assert nameserver.split()[:3] == ["-", "nameserver", shop.nameserver]
    assert broker.split()[:4] == ["broker-a/0", "master", shop.broker, "5.4.0"]
    assert [one["role"] for one in shop.json("cluster nodes")] == ["nameserver", "master"]


def test_a_silent_nameserver_is_told_by_the_exit_status(shop: Shop) -> None:
    shop.nameserver += ";127.0.0.1:1"
    printed = shop.printed("cluster nodes", status=1)
    assert "127.0.0.1:1 does not answer: " in printed.replace("\n", " ")


def test_rates_are_shown(shop: Shop) -> None:
    head, row = shop.printed("cluster rate").splitlines()
    assert head.split()[0] == "BROKER"
    assert int(row.split()[3]) >= 8


def test_settings_of_nameservers(shop: Shop) -> None:
    line = "cluster config get waitSecondsForService"
    assert shop.printed(line) == f"# {shop.nameserver}\nwaitSecondsForService=45\n"
    shop.printed("cluster config set waitSecondsForService=44")
    assert shop.json(line) == {shop.nameserver: {"waitSecondsForService": "44"}}
    shop.printed("cluster config set waitSecondsForService=45")
    status, said = shop.ended("cluster config get waitSecondForService")
    assert (status, shop.output) == (1, f"# {shop.nameserver}\n")
    assert said == (
        f"orbitmq: {shop.nameserver} has no setting waitSecondForService; did you mean "
        "waitSecondsForService?\n"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [("cluster rate --every 0", "--every is 0"), ("cluster config set x", "is not KEY=VALUE")],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
