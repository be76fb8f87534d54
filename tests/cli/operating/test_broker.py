"""Brokers from a shell."""

import pytest

from orbitmq.cli.operating.broker import status_lines
from orbitmq.client.admin.results import BrokerStatus
from tests.cli.operating.conftest import Shop
from tests.cli.terminal import utc

STATUS = """\
Broker     broker-a, 5.4.0
Started    2026-11-15 10:42:09
Stored     1,200.5 per second, 90,000 today
Delivered  80.0 per second, 7 today
Puts       of the last minute: 12 in <=0ms, 3 in 0~10ms
Waiting    2 sends, the first for 30 ms
Behind     4,096 bytes stored and not in queues yet
Disk       71% of the log's disk is in use
"""


def test_brokers_are_listed(shop: Shop) -> None:
    head, row = shop.printed("broker list").splitlines()
    assert head.split() == ["BROKER", "CLUSTER", "ID", "ADDRESS", "ROLE"]
    assert row.split() == ["broker-a", "DefaultCluster", "0", shop.broker, "master"]
    assert shop.json("broker list")[0]["address"] == shop.broker


def test_the_state_of_a_broker(shop: Shop) -> None:
    assert shop.printed("broker status broker-a").startswith("Broker     broker-a, 5.4.0\n")
    assert "brokerVersionDesc=V5_4_0\n" in _wide(shop, f"broker status {shop.broker} --all")
    assert shop.json("broker status broker-a")["put_today"] >= 8


def _wide(shop: Shop, line: str) -> str:
    """Settings and figures have lines as long as their values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.cli.operating.conftest.max", lambda *_, **__: 0, raising=False)
        return shop.printed(line)


def test_a_state_fits_a_terminal() -> None:
    figures = {
        "brokerVersionDesc": "V5_4_0",
        "bootTimestamp": "1794739329000",
        "putTps": "1200.5 1 1",
        "getTransferredTps": "80.0 1 1",
        "msgPutTotalTodayNow": "90000",
        "msgGetTotalTodayNow": "7",
        "putMessageDistributeTime": "[<=0ms]:12 [0~10ms]:3 [10~50ms]:0",
        "sendThreadPoolQueueSize": "2",
        "sendThreadPoolQueueHeadWaitTimeMills": "30",
        "dispatchBehindBytes": "4096",
        "commitLogDiskRatio": "0.71",
    }
    with utc():
        lines = list(status_lines("broker-a", BrokerStatus.of(figures)))
        slow = {"putMessageDistributeTime": "[<=0ms]:1262 [0~10ms]:3612 [10~50ms]:128 [50~1s]:35"}
        long = list(status_lines("broker-a", BrokerStatus.of({**figures, **slow})))
    assert "".join(f"{line}\n" for line in lines) == STATUS
    assert long[4:6] == [
        "Puts       of the last minute: 1,262 in <=0ms, 3,612 in 0~10ms, 128 in 10~50ms,",
        "           35 in 50~1s",
    ]


def test_settings_are_shown_and_changed(shop: Shop) -> None:
    line = "broker config get broker-a fileReservedTime"
    assert shop.printed(line) == "fileReservedTime=72\n"
    changed = shop.printed("broker config set fileReservedTime=48")
    assert changed == "broker-a: fileReservedTime=48\n"
    assert shop.json(line) == {"fileReservedTime": "48"}
    shop.printed("broker config set fileReservedTime=72 --on broker-a")
    assert "brokerName" in shop.json("broker config get broker-a")


def test_a_setting_that_is_not_there(shop: Shop) -> None:
    status, said = shop.ended("broker config get broker-a noSuch fileReservedTime")
    assert (status, shop.output) == (1, "fileReservedTime=72\n")
    assert said == "orbitmq: broker-a has no setting noSuch\n"


@pytest.mark.parametrize("what", ["queues", "topics", "log"])
def test_what_nobody_needs_is_cleaned(what: str, shop: Shop) -> None:
    assert shop.printed(f"broker clean {what}").startswith("broker-a: deleted ")
    assert shop.json(f"broker clean {what} --on broker-a")["brokers"] == ["broker-a"]


def test_writes_are_stopped_and_allowed(shop: Shop) -> None:
    assert "broker-a takes no more writes: " in shop.printed("broker stop-writes broker-a")
    assert shop.json("topic route orders")
    assert shop.printed("topic route orders").split()[-1] == "r"
    assert "broker-a takes writes again: " in shop.printed("broker allow-writes broker-a")
    assert shop.printed("topic route orders").split()[-1] == "rw"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("broker status nowhere", "no cluster and no broker is named nowhere"),
        ("broker status DefaultCluster", "the name or the address of one broker"),
        ("broker status 127.0.0.1:1", "127.0.0.1:1"),
        ("broker config set fileReservedTime", "is not KEY=VALUE"),
        ("broker config set brokerConfigPath=/x", "brokerConfigPath"),
        ("broker stats broker-a TOPIC_PUT_NUMS nowhere", "not exist"),
        ("broker stop-writes nowhere", "no nameserver has a topic of broker nowhere"),
        ("broker clean everything", "WHAT is 'everything'; it must be one of queues, topics, log"),
        ("broker frobnicate", "'frobnicate' is no command of orbitmq broker"),
    ],
)
def test_errors_take_one_line(line: str, words: str, shop: Shop) -> None:
    status, said = shop.ended(line)
    assert (status, said.count("\n"), shop.output) == (2, 1, "")
    assert words in said
