"""Java's names and flags; what they do is tested with the commands that do it."""

import json

import pytest

from orbitmq.cli.commands.mqadmin import translated
from orbitmq.cli.main import main
from orbitmq.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (
            "updateTopic -t orders -c DefaultCluster",
            "topic create --queues=8 --on=DefaultCluster orders",
        ),
        (
            "updateTopic --topic orders -b=10.0.0.7:10911 -r 4 -w 4 -p 2 -o true -a +a=b,+c=d",
            (
                "topic create --queues=4 --on=10.0.0.7:10911 --perm=w --ordered --attribute=a=b "
                "--attribute=c=d orders"
            ),
        ),
        ("consumerProgress -n ns:1", "group list --lag --nameserver=ns:1"),
        ("consumerProgress -g billing --json", "group progress --json billing"),
        ("updateSubGroup -g b -s false -r 3", "group create --no-consume --retries=3 b"),
        ("resetOffsetByTime -g b -t t -s now", "offset reset --to=latest b t"),
        (
            "resetOffsetByTime -g b -t t -b broker-a -q 3 -o 42",
            "offset reset --to=42 --queue=broker-a/3 b t",
        ),
        (
            "queryMsgByKey -t t -k k -b 1000",
            "message query --begin=1970-01-01T00:00:01+00:00 --max=64 t k",
        ),
        ("sendMessage -t t -p -x -k k -c tag", "send --keys=k --tags=tag -- t -x"),
        ("allocateMQ -t t -i a,b", "topic allocate t a b"),
        ("updateBrokerConfig -c C -k a -v b=c", "broker config set --on=C a=b=c"),
        ("topicList -h", "topic list --help"),
        ("getSyncStateSet -a h:1 -b a -c C", "broker in-sync h:1 a"),
        ("haStatus -b h:1", "broker replicas h:1"),
        ("getBrokerEpoch -c C", "broker epochs --cluster=C"),
        ("electMaster -a h:1 -b 2 -bn a -c C", "broker elect h:1 C a 2"),
        (
            "cleanBrokerMetadata -a h:1 -b 1;2 -bn a -l",
            "broker forget --id=1 --id=2 --living h:1 a",
        ),
        ("updateControllerConfig -a h:1 -k a -v b", "broker election-settings h:1 a=b"),
    ],
)
def test_what_some_become(given: str, ours: str) -> None:
    assert " ".join(translated(given.split())) == ours


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("updateTopc", "mqadmin updateTopc has no like here; did you mean updateTopic? orbitmq"),
        ("exportRocksDB", "has no like here; orbitmq mqadmin lists those that have one"),
        ("deleteTopic", "mqadmin deleteTopic needs -t (--topic)"),
        ("deleteTopic -t", "-t needs a value"),
        ("deleteTopic orders", "mqadmin deleteTopic has no flag 'orders'; it has -t, -c, -n, -h"),
        ("topicList -x", "has no flag '-x'"),
        ("brokerStatus -b x -c C", "-c (--clusterName) is not for orbitmq broker status: name one"),
        ("updateTopic -t x -r 4", "-r is 4 and -w is 8; create the topic with one number"),
        ("updateTopic -t x -p 7", "-p is '7'; it must be 2 (write), 4 (read) or 6 (both)"),
        ("updateTopic -t x -o maybe", "-o is 'maybe'; it must be true or false"),
        ("updateTopic -t x -a -a", "-a is '-a'; it must be +name=value"),
        ("consumeMessage -t x -c many", "-c is 'many'; it must be a whole number"),
        ("consumeMessage -t x -i 3", "-b and -i name a queue together"),
        ("printMsg -t x -b yesterday", "-b is 'yesterday'; it must be milliseconds, or yyyy"),
        ("resetOffsetByTime -g b -t t", "give -s, a time, or -o, an offset"),
    ],
)
def test_what_has_no_like_is_refused_with_the_reason(given: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        translated(given.split())
    assert says in str(caught.value)


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mqadmin"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["MQADMIN", "HERE"]
    assert first.split() == ["mqadmin", "updateTopic", "orbitmq", "topic", "create"]
    assert main(["mqadmin", "help"]) == 0
    assert capsys.readouterr().out.startswith(head)
    with pytest.raises(SystemExit):
        main(["mqadmin", "help", "deleteTopic"])
    assert capsys.readouterr().out.startswith("usage: orbitmq topic delete")
    assert main(["mqadmin", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["topicRoute"] == "orbitmq topic route"


@pytest.mark.usefixtures("nameserver")
def test_they_do_what_ours_do(capsys: pytest.CaptureFixture[str]) -> None:
    def run(typed: str) -> str:
        assert main(["mqadmin", *typed.split()]) == 0
        return capsys.readouterr().out

    assert run("updateTopic -t by-mqadmin -c DefaultCluster -r 2 -w 2") == (
        "by-mqadmin has 2 queues on broker-a\n"
    )
    assert json.loads(run("sendMessage -t by-mqadmin -p paid -k o-42 --json"))["queue_offset"] == 0
    assert "o-42" not in run("queryMsgByKey -t by-mqadmin -k o-42")
    assert run("printMsg -t by-mqadmin") == "paid\n"
    assert "by-mqadmin" in run("topicList").split()
    assert "1 message in 2 queues" in run("topicStatus -t by-mqadmin")
    assert run("updateSubGroup -g by-mqadmin-group -c DefaultCluster") == (
        "by-mqadmin-group is on broker-a\n"
    )
    assert "by-mqadmin-group" in run("consumerProgress")
    assert run("deleteTopic -t by-mqadmin -c DefaultCluster").startswith("by-mqadmin is deleted")


def test_an_error_is_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mqadmin", "topicRoute", "-n", "127.0.0.1:1", "-t", "orders"]) == 2
    assert capsys.readouterr().err.startswith("orbitmq: the route of orders is unknown")
